"""How a store is reached, in the names that Hadoop gives its settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from skewless.errors import ArgumentError

Lookup = Callable[[str], str | None]  # the value of a setting, by its name


def checked_url(name: str, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"https?://[\w.:\[\]-]+(/[!-~]*)?", value):
        raise ArgumentError(name, value, "a URL that begins with http:// or https://")
    return value and value.rstrip("/")


@dataclass(frozen=True, repr=False)
class Settings:
    """Settings such as ``fs.s3a.endpoint``. They go to the tasks along with a folder; what is shown
    of them is their names, since some are secrets."""

    values: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(values: Mapping[str, str]) -> Settings:
        return Settings(tuple(sorted(values.items())))

    @staticmethod
    def asked(names: Iterable[str], get: Lookup) -> Settings:
        """Those of the names that have a value."""
        found = ((name, get(name)) for name in names)
        return Settings.of({name: value for name, value in found if value is not None})

    def get(self, name: str) -> str | None:
        """A value; an empty one is none, as in Hadoop's own defaults."""
        return dict(self.values).get(name) or None

    def url(self, name: str) -> str | None:
        """A value that must be a URL, without a slash at its end."""
        return checked_url(name, self.get(name))

    def is_set(self, name: str) -> bool:
        return (self.get(name) or "").strip().lower() == "true"

    def __or__(self, other: Settings) -> Settings:
        return Settings.of(dict(self.values) | dict(other.values))

    def __repr__(self) -> str:
        return f"Settings({', '.join(name for name, _ in self.values)})"
