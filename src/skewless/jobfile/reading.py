"""A table of a job file, read by its description. All that is wrong with it is noted."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from skewless.jobfile.argument_kinds import unknown_key
from skewless.jobfile.description import Table
from skewless.jobfile.environment import is_not_set
from skewless.jobfile.kinds import SubTable
from skewless.jobfile.lines import Path
from skewless.jobfile.text import JobText, RefusedError, dotted, is_slip, refused


class Section:
    """A table that was read: the values of its keys as the engine takes them. Keys that could not
    be understood are not among them, but for parts of them that could."""

    def __init__(self, text: JobText, path: Path, raw: Any, table: Table) -> None:
        self.text, self.path, self.table = text, path, table
        self.raw: dict[str, Any] = raw if isinstance(raw, dict) else {}
        self.written = self.raw
        self.values: dict[str, Any] = {}
        if not isinstance(raw, dict):
            text.refuse(path, raw, f"a table: [{dotted(path)}]")
            return
        nearly = self._note_unknown()
        for key in table.keys:
            if key.name in self.raw:
                self._read(key.name)
            elif key.required and key.name not in nearly:
                self.note_missing(key.name, key.wanted)

    def _note_unknown(self) -> set[str]:
        """Notes unknown keys; returns those that were probably meant, which are not missing."""
        nearly: set[str] = set()
        for key in [key for key in self.raw if key not in self.table.names]:
            wrong = unknown_key((*self.path, key), self.table.names)
            self.text.note(wrong.path, wrong.message)
            near = get_close_matches(key, self.table.names, n=1)
            nearly |= set(near)
            if near and near[0] not in self.raw and is_slip(key, near[0]):
                # What is wrong with its value is told now, too.
                self.raw = {**self.raw, near[0]: self.raw[key]}
                self.text.take_as((*self.path, key), (*self.path, near[0]))
        self.nearly = nearly
        return nearly

    def _read(self, name: str) -> None:
        path = (*self.path, name)
        kind = self.table.key(name).kind
        if is_not_set(self.raw[name]) and not isinstance(kind, SubTable):
            return
        try:
            self.values[name] = kind.read(self.raw[name], path)
        except RefusedError as error:
            for one in error:
                self.text.note(one.path, one.message)
            if error.rest is not None:
                self.values[name] = error.rest

    def __contains__(self, name: str) -> bool:
        """Whether the file has a key, understood or not."""
        return name in self.raw

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def note_missing(self, name: str, wanted: str) -> None:
        if name in getattr(self, "nearly", ()):
            return
        self.text.note(self.path, f"`{dotted((*self.path, name))}` is missing: {wanted}")

    def note_missing_option(self, name: str, wanted: str) -> None:
        path = (*self.path, "options") if "options" in self else self.path
        self.text.note(path, f"the option `{name}` is missing: {wanted}")

    def refuse(self, name: str, accepted: str) -> None:
        """Notes that the value of a key cannot be."""
        wrong = refused((*self.path, name), self.raw.get(name), accepted)
        self.text.note(wrong.path, wrong.message)
