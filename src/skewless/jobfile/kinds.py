"""Kinds of values: what each accepts, in words, for reading, and as JSON schema for editors."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError
from skewless.jobfile.environment import ONE_VARIABLE, FromEnvironment
from skewless.jobfile.lines import Path
from skewless.jobfile.text import Parts, RefusedError, as_written, dotted, meant, refused

Schema = dict[str, Any]

NAME: Schema = {"type": "string", "minLength": 1}
VARIABLE: Schema = {"type": "string", "pattern": ONE_VARIABLE}
COUNT_MAX = 65_536
# As `parse_duration_us` reads them, with variables.
DURATION: Schema = {
    "type": "string",
    "pattern": r"^\s*([Ii]nterval\s+)?([+-]?\s*\d+(\.\d+)?\s*[A-Za-z]+\s*)+$|\$\{",
}


class Kind(ABC):
    """What a key may be set to."""

    @property
    @abstractmethod
    def accepted(self) -> str:
        """What is accepted, in words."""

    @abstractmethod
    def read(self, value: Any, path: Path) -> Any:
        """The value as the engine takes it, or a `RefusedError`."""

    @abstractmethod
    def schema(self) -> Schema:
        """What is accepted, as JSON schema."""

    def refuse(self, value: Any, path: Path) -> RefusedError:
        return refused(path, value, self.accepted)


def plain(value: Any) -> Any:
    """What a variable stands for where a text is not wanted: a number, true or false."""
    if not isinstance(value, FromEnvironment):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


@dataclass(frozen=True)
class Text(Kind):
    """A text that is not empty."""

    what: str

    @property
    def accepted(self) -> str:
        return self.what

    def read(self, value: Any, path: Path) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.refuse(value, path)
        return value

    def schema(self) -> Schema:
        return {"type": "string", "pattern": r"\S"}


@dataclass(frozen=True)
class Texts(Kind):
    """One text or a list of them."""

    what: str

    @property
    def accepted(self) -> str:
        return self.what

    def read(self, value: Any, path: Path) -> list[str]:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(i, str) and i for i in items):
            raise self.refuse(value, path)
        return items

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": NAME}]}


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words."""

    choices: tuple[str, ...]

    @property
    def accepted(self) -> str:
        return f"one of: {', '.join(map(as_written, self.choices))}"

    def read(self, value: Any, path: Path) -> str:
        if value not in self.choices:
            near = meant(str(value), self.choices, '"')
            raise refused(path, value, f"{self.accepted}{near}")
        return str(value)

    def schema(self) -> Schema:
        return {"anyOf": [{"enum": list(self.choices)}, VARIABLE]}


@dataclass(frozen=True)
class Flag(Kind):
    """True or false. Where `only` is given, nothing but that."""

    only: bool | None = None

    @property
    def accepted(self) -> str:
        return "true or false" if self.only is None else f"{as_written(self.only)}, or left out"

    def read(self, value: Any, path: Path) -> bool:
        found = plain(value)
        if not isinstance(found, bool) or self.only not in (None, found):
            raise self.refuse(value, path)
        return found

    def schema(self) -> Schema:
        alone: Schema = {"type": "boolean"} if self.only is None else {"const": self.only}
        return {"anyOf": [alone, VARIABLE]}


@dataclass(frozen=True)
class Count(Kind):
    """A whole number. `auto` is as good as none where it is allowed."""

    auto: bool = False

    @property
    def accepted(self) -> str:
        return f"a whole number from 1 to {COUNT_MAX}"

    def read(self, value: Any, path: Path) -> int | str:
        found = plain(value)
        if self.auto and found == "auto":
            return "auto"
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= COUNT_MAX:
            raise self.refuse(value, path)
        return found

    def schema(self) -> Schema:
        words: list[Schema] = [{"const": "auto"}] if self.auto else []
        number = {"type": "integer", "minimum": 1, "maximum": COUNT_MAX}
        return {"anyOf": [number, *words, VARIABLE]}


@dataclass(frozen=True)
class Number(Kind):
    """A number that is not negative."""

    what: str

    @property
    def accepted(self) -> str:
        return self.what

    def read(self, value: Any, path: Path) -> int | float:
        found = plain(value)
        if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0:
            raise self.refuse(value, path)
        return found

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "number", "minimum": 0}, VARIABLE]}


@dataclass(frozen=True)
class Duration(Kind):
    """A length of time, such as "10 minutes"."""

    @property
    def accepted(self) -> str:
        return "a duration such as '10 minutes'"

    def read(self, value: Any, path: Path) -> str:
        duration_us(value, path)
        return str(value)

    def schema(self) -> Schema:
        return DURATION


def duration_us(value: Any, path: Path, or_else: str = "", *, allow_negative: bool = False) -> int:
    """A duration, or a refusal that tells what else there is."""
    try:
        return parse_duration_us(value, str(path[-1]), allow_negative=allow_negative)
    except ArgumentError as error:
        accepted = error.accepted if isinstance(value, str) else Duration().accepted
        raise refused(path, value, f"{accepted}{or_else}") from error


@dataclass(frozen=True)
class EachDuration(Kind):
    """A duration for all inputs, or one for each of so many."""

    inputs: int

    @property
    def _or_each(self) -> str:
        if self.inputs == 2:
            return ', or one for each side: ["1 minute", "0 seconds"]'
        return ', or one for each input: ["1 minute", "0 seconds", "5 seconds"]'

    @property
    def accepted(self) -> str:
        return f'"1 minute"{self._or_each}'

    def read(self, value: Any, path: Path) -> str | tuple[str, ...]:
        if not isinstance(value, list):
            duration_us(value, path, self._or_each)
            return str(value)
        if len(value) != self.inputs:
            raise self.refuse(value, path)
        parts = Parts()
        for i, bound in enumerate(value):
            parts.read(duration_us, bound, (*path, i))
        parts.checked()
        return tuple(value)

    def schema(self) -> Schema:
        return {"anyOf": [DURATION, row_of(self.inputs, DURATION)]}


@dataclass(frozen=True)
class Suffixes(Kind):
    """What is added to names that several inputs have."""

    default: tuple[str, ...]

    @property
    def accepted(self) -> str:
        count = {2: "two texts", 3: "three texts"}[len(self.default)]
        return f"{count}, such as {as_written(list(self.default))}"

    def read(self, value: Any, path: Path) -> tuple[str, ...]:
        is_list = isinstance(value, list) and len(value) == len(self.default)
        if not is_list or not all(isinstance(suffix, str) for suffix in value):
            raise self.refuse(value, path)
        return tuple(value)

    def schema(self) -> Schema:
        return row_of(len(self.default), {"type": "string"})


def row_of(count: int, item: Schema) -> Schema:
    """A list of so many items."""
    return {"type": "array", "items": item, "minItems": count, "maxItems": count}


def _anything(name: str) -> str | None:
    return None


@dataclass(frozen=True)
class Settings(Kind):
    """Settings as Spark takes them: texts. TOML reads `a.b = 1` as a table in a table; here it is
    the setting "a.b", quoted or not. `problem` tells what is wrong with a name, if anything is."""

    problem: Callable[[str], str | None] = _anything

    @property
    def accepted(self) -> str:
        return "a table of settings: texts, numbers, true or false"

    def read(self, value: Any, path: Path) -> dict[str, str]:
        if not isinstance(value, dict):
            raise refused(path, value, f"a table: [{dotted(path)}]")
        parts = Parts()
        found: dict[str, str] = {}
        for here, name, setting in self._flat(path, value, ""):
            wrong = self.problem(name)
            if wrong is not None:
                parts.note(RefusedError(here, wrong))
            elif not isinstance(setting, str | int | float):
                parts.note(refused(here, setting, "a text, a number, true or false"))
            else:
                found[name] = as_written(setting) if isinstance(setting, bool) else str(setting)
        parts.checked(found)
        return found

    def _flat(
        self, path: Path, table: dict[str, Any], prefix: str
    ) -> Iterator[tuple[Path, str, Any]]:
        for key, value in table.items():
            here, name = (*path, key), f"{prefix}{key}"
            if isinstance(value, dict):
                yield from self._flat(here, value, f"{name}.")
            else:
                yield here, name, value

    def schema(self) -> Schema:
        return {"$ref": "#/$defs/settings"}


SETTINGS_SCHEMA: Schema = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {"type": ["string", "number", "boolean"]},
            {"$ref": "#/$defs/settings"},
        ]
    },
}


@dataclass(frozen=True)
class Inputs(Kind):
    """Names of inputs or of other steps: from `least` to `most`."""

    least: int
    most: int

    @property
    def accepted(self) -> str:
        one = 'the name of an input or of another step, such as "orders"'
        if self.most == 1:
            return one
        several = {2: '["orders", "tracks"]', 3: '["orders", "tracks", "payments"]'}[self.most]
        names = f"the names of {self.most} inputs or other steps, such as {several}"
        return f"{one}, or {names}" if self.least == 1 else names

    def read(self, value: Any, path: Path) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) and self.least == 1 else value
        if not isinstance(names, list) or not self.least <= len(names) <= self.most:
            raise self.refuse(value, path)
        if not all(isinstance(name, str) and name for name in names):
            raise self.refuse(value, path)
        return tuple(names)

    def schema(self) -> Schema:
        names = {"type": "array", "items": NAME, "minItems": self.least, "maxItems": self.most}
        return {"anyOf": [NAME, names]} if self.least == 1 else names


@dataclass(frozen=True)
class SubTable(Kind):
    """A table of its own, or so many of them under names."""

    title: str
    named: bool = False

    @property
    def accepted(self) -> str:
        return f"a table [{self.title}]"

    def read(self, value: Any, path: Path) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise refused(path, value, f"a table: [{dotted(path)}]")
        return value

    def schema(self) -> Schema:
        return {"type": "object"}
