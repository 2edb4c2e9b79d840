"""Options of a reader: names without regard to case, as Spark takes them."""

from __future__ import annotations

from collections.abc import Iterable

from skewless.errors import ArgumentError


class Options:
    """What the user gave, by name."""

    def __init__(self, given: Iterable[tuple[str, str]] = ()) -> None:
        self._given = {name.lower(): str(value) for name, value in given}

    def get(self, name: str, default: str) -> str:
        return self._given.get(name.lower(), default)

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.get(name, str(default)).lower()
        if value not in ("true", "false"):
            raise ArgumentError(name, value, "'true' or 'false'")
        return value == "true"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._given)
