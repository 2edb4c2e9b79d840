"""A table of a job file with its checks: every refusal names file, line, key, value and choices."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, JobFileError
from skewless.jobfile.lines import Path, line_of


@dataclass(frozen=True)
class JobText:
    """The file that everything was read from: its name as the user gave it, and its lines."""

    name: str
    lines: dict[Path, int]

    def error(self, path: Path, problem: str) -> JobFileError:
        line = line_of(self.lines, path)
        place = self.name if line is None else f"{self.name}:{line}"
        return JobFileError(f"{place}: {problem}")

    def refusal(self, path: Path, received: object, accepted: str) -> JobFileError:
        return self.error(
            path, f"`{dotted(path)}` must be {accepted}; received {as_written(received)}"
        )


def dotted(path: Path) -> str:
    """A path as people write it.

    >>> dotted(("join", "on", 0, "width"))
    'join.on[0].width'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def as_written(value: object) -> str:
    """A value much as it stands in the file; Python's True would only confuse."""
    return json.dumps(value, ensure_ascii=False, default=str)


class Section:
    """One table of the file. Its keys are declared first: any other key is refused."""

    def __init__(
        self, text: JobText, path: Path, table: dict[str, Any], keys: Collection[str]
    ) -> None:
        self.text, self.path, self._table = text, path, table
        for key in table:
            if key not in keys:
                raise self._unknown(key, keys)

    def _unknown(self, key: str, keys: Collection[str]) -> JobFileError:
        near = get_close_matches(key, keys, n=1)
        meant = f" (did you mean `{near[0]}`?)" if near else ""
        place = f"[{dotted(self.path)}]" if self.path else "the file"
        return self.text.error(
            (*self.path, key),
            f"unknown key `{dotted((*self.path, key))}`{meant}; "
            f"{place} may have: {', '.join(keys)}",
        )

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def get(self, key: str) -> Any:
        return self._table.get(key)

    def need(self, key: str, what: str) -> Any:
        """The value of a key that must be there."""
        if key not in self._table:
            path = (*self.path, key)
            raise self.text.error(self.path, f"`{dotted(path)}` is missing: {what}")
        return self._table[key]

    def refuse(self, key: str, accepted: str) -> JobFileError:
        return self.text.refusal((*self.path, key), self._table[key], accepted)

    def string(self, key: str, what: str) -> str | None:
        """A text that is not empty, or None where there is none."""
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.refuse(key, what)
        return value

    def needed_string(self, key: str, what: str) -> str:
        self.need(key, what)
        value = self.string(key, what)
        assert value is not None
        return value

    def strings(self, key: str, what: str) -> list[str]:
        """One text or a list of them."""
        value = self._table.get(key, [])
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(i, str) and i for i in items):
            raise self.refuse(key, what)
        return items

    def one_of(self, key: str, choices: Collection[str]) -> str | None:
        value = self._table.get(key)
        if value is not None and value not in choices:
            near = get_close_matches(str(value), choices, n=1)
            meant = f" (did you mean {as_written(near[0])}?)" if near else ""
            raise self.refuse(key, f"one of: {', '.join(map(as_written, choices))}{meant}")
        return value

    def duration_us(
        self, path: Path, value: object, or_else: str = "", *, allow_negative: bool = False
    ) -> int:
        """A duration, or a refusal at `path` that tells what else there is."""
        try:
            return parse_duration_us(value, str(path[-1]), allow_negative=allow_negative)
        except ArgumentError as error:
            accepted = (
                error.accepted if isinstance(value, str) else "a duration such as '10 minutes'"
            )
            raise self.text.refusal(path, value, f"{accepted}{or_else}") from error

    def table(self, key: str, keys: Collection[str]) -> Section:
        """A table within; one without keys if it is not there."""
        return Section(self.text, (*self.path, key), self._raw_table(key), keys)

    def settings(
        self, key: str, problem: Callable[[str], str | None] = lambda name: None
    ) -> dict[str, str]:
        """A table of settings as Spark takes them: texts. TOML reads `a.b = 1` as a table in a
        table; here it is the setting "a.b", quoted or not. `problem` tells what is wrong with a
        name, if anything is."""
        found: dict[str, str] = {}
        for path, name, value in self._flat((*self.path, key), self._raw_table(key), ""):
            wrong = problem(name)
            if wrong is not None:
                raise self.text.error(path, wrong)
            found[name] = value
        return found

    def _raw_table(self, key: str) -> dict[str, Any]:
        value = self._table.get(key, {})
        if not isinstance(value, dict):
            raise self.refuse(key, f"a table: [{dotted((*self.path, key))}]")
        return value

    def _flat(
        self, path: Path, table: dict[str, Any], prefix: str
    ) -> Iterator[tuple[Path, str, str]]:
        for key, value in table.items():
            here, name = (*path, key), f"{prefix}{key}"
            if isinstance(value, dict):
                yield from self._flat(here, value, f"{name}.")
            elif isinstance(value, bool):
                yield here, name, "true" if value else "false"
            elif isinstance(value, str | int | float):
                yield here, name, str(value)
            else:
                raise self.text.refusal(here, value, "a text, a number, true or false")
