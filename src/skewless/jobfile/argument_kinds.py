"""Kinds of values that only operators have: conditions, bounds, times, aggregates, strategies."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from skewless.conditions import UNBOUNDED, Band, Equal, Unbounded, band, equal
from skewless.errors import ArgumentError
from skewless.jobfile.kinds import (
    DURATION,
    NAME,
    VARIABLE,
    Kind,
    Schema,
    duration_us,
    plain,
    row_of,
)
from skewless.jobfile.lines import Path
from skewless.jobfile.text import Parts, RefusedError, as_written, dotted, meant, refused
from skewless.strategies import FAMILIES

UNBOUNDED_WORD = "unbounded"
UNBOUNDED_SCHEMA: Schema = {
    "type": "string",
    "pattern": r"^\s*[Uu][Nn][Bb][Oo][Uu][Nn][Dd][Ee][Dd]\s*$",
}
AGGREGATES = (
    "count", "sum", "min", "max", "mean", "avg", "variance", "stddev", "approx_distinct",
)  # fmt: skip
QUANTILE = "quantile"

Condition = str | tuple[str, str] | Band | Equal


@dataclass(frozen=True)
class On(Kind):
    """The conditions of a join. Without `bands`, only equalities."""

    bands: bool = True

    @property
    def accepted(self) -> str:
        bands = '{ left = "x", right = "y", width = 5 }, ' if self.bands else ""
        return (
            '"k", ["k1", "k2"], pairs [["left_k", "right_k"]], '
            '{ left = "a", right = "b", null_safe = true }, '
            f"{'bands ' if bands else ''}{bands}or a list of these"
        )

    def read(self, value: Any, path: Path) -> list[Condition | None]:
        if not isinstance(value, list):
            return [self._condition(value, path)]
        if not value:
            raise self.refuse(value, path)
        parts = Parts()
        found = [parts.read(self._condition, item, (*path, i)) for i, item in enumerate(value)]
        parts.checked(found)
        return found

    def _condition(self, item: Any, path: Path) -> Condition:
        if isinstance(item, str) and item:
            return item
        if is_pair(item):
            return item[0], item[1]
        if not isinstance(item, dict):
            raise self.refuse(item, path)
        return condition_of(item, path, bands=self.bands)

    def schema(self) -> Schema:
        one = {"anyOf": [NAME, row_of(2, NAME), condition_schema(bands=self.bands)]}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def is_pair(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and all(isinstance(c, str) and c for c in item)


def condition_of(item: dict[str, Any], path: Path, *, bands: bool) -> Condition:
    """A condition that is written as a table."""
    known = ("left", "right", "width", "null_safe") if bands else ("left", "right", "null_safe")
    parts = Parts()
    _note_unknown(parts, item, path, known)
    for key in ("left", "right"):
        what = f"the name of a column of the {key} input"
        if key not in item:
            if not any(meant(other, (key,)) for other in item if other not in known):
                missing = f"`{dotted((*path, key))}` is missing: {what}"
                parts.note(RefusedError(path, missing))
        elif not isinstance(item[key], str) or not item[key].strip():
            parts.note(refused((*path, key), item[key], what))
    null_safe = plain(item.get("null_safe"))
    if null_safe is not None and ("width" in item or not isinstance(null_safe, bool)):
        parts.note(refused((*path, "null_safe"), null_safe, "true or false, without a width"))
    width = parts.read(_width, item["width"], (*path, "width")) if "width" in item else None
    parts.checked()
    left, right = item["left"], item["right"]
    if "width" not in item:
        return equal(left, right, null_safe=null_safe) if null_safe else (left, right)
    return band(left, right, width)


def _width(value: Any, path: Path) -> Any:
    width = plain(value)
    if isinstance(width, str):
        duration_us(width, path)
    elif isinstance(width, bool) or not isinstance(width, int | float):
        accepted = 'a number, or for times a duration such as "5 seconds"'
        raise refused(path, width, accepted)
    elif not width >= 0:
        raise refused(path, width, "a number from 0 on")
    return width


def _note_unknown(parts: Parts, table: dict[str, Any], path: Path, known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            parts.note(unknown_key((*path, key), known))


def unknown_key(path: Path, known: tuple[str, ...]) -> RefusedError:
    key, place = str(path[-1]), f"[{dotted(path[:-1])}]" if path[:-1] else "the file"
    return RefusedError(
        path,
        f"unknown key `{dotted(path)}`{meant(key, known)}; {place} may have: {', '.join(known)}",
    )


def condition_schema(*, bands: bool) -> Schema:
    width = {"width": {"anyOf": [{"type": "number", "minimum": 0}, DURATION]}} if bands else {}
    return {
        "type": "object",
        "properties": {"left": NAME, "right": NAME, "null_safe": {"type": "boolean"}, **width},
        "required": ["left", "right"],
        "additionalProperties": False,
    }


@dataclass(frozen=True)
class On3(Kind):
    """The conditions of a join of three, whose columns say which input they are of."""

    @property
    def accepted(self) -> str:
        return (
            "conditions between two inputs each, whose columns begin with the input, such as "
            '[["orders.cell", "tracks.cell"], '
            '{ left = "tracks.price", right = "users.budget", width = 5 }]'
        )

    def read(self, value: Any, path: Path) -> list[Equal | Band | None]:
        if not isinstance(value, list) or not value:
            raise self.refuse(value, path)
        parts = Parts()
        found = [parts.read(self._condition, item, (*path, i)) for i, item in enumerate(value)]
        parts.checked(found)
        return found

    def _condition(self, item: Any, path: Path) -> Equal | Band:
        if isinstance(item, dict):
            found = condition_of(item, path, bands=True)
        elif is_pair(item):
            found = item[0], item[1]
        else:
            raise self.refuse(item, path)
        condition = equal(*found) if isinstance(found, tuple) else found
        assert isinstance(condition, Equal | Band)
        parts = Parts()
        for column in (condition.left, condition.right):
            if "." not in column:
                accepted = 'a column with its input in front, such as "orders.cell" or "r.cell"'
                parts.note(refused(path, column, accepted))
        parts.checked()
        return condition

    def schema(self) -> Schema:
        one = {"anyOf": [row_of(2, NAME), condition_schema(bands=True)]}
        return {"type": "array", "items": one, "minItems": 1}


@dataclass(frozen=True)
class Within(Kind):
    """How far apart in time rows may be. `half_open`: one end may be unbounded. `pairs`: there may
    be one for each pair of three inputs."""

    half_open: bool = False
    pairs: bool = False

    @property
    def _or_else(self) -> str:
        half = ', ["0 seconds", "unbounded"]' if self.half_open else ""
        pairs = ' or for each pair { rs = "1 minute", st = "5 minutes" }' if self.pairs else ""
        return f', ["-1 minute", "10 minutes"]{half} or "unbounded"{pairs}'

    @property
    def accepted(self) -> str:
        return f'"10 minutes"{self._or_else}'

    def read(self, value: Any, path: Path) -> Any:
        if self.pairs and isinstance(value, dict):
            parts = Parts()
            found = {pair: parts.read(self._read_pair, pair, value[pair], path) for pair in value}
            parts.checked()
            return found
        if is_unbounded(value):
            return UNBOUNDED
        if not isinstance(value, list):
            duration_us(value, path, self._or_else)
            return str(value)
        if len(value) != 2:
            raise self.refuse(value, path)
        return self._ends(value, path)

    def _read_pair(self, pair: str, value: Any, path: Path) -> Any:
        if pair not in ("rs", "st", "rt"):
            raise unknown_key((*path, pair), ("rs", "st", "rt"))
        return Within().read(value, (*path, pair))

    def _ends(self, value: list[Any], path: Path) -> Any:
        ends: list[str | Unbounded] = [UNBOUNDED if is_unbounded(b) else b for b in value]
        parts = Parts()
        read = [
            parts.read(duration_us, bound, (*path, i), allow_negative=True)
            for i, bound in enumerate(ends)
            if bound is not UNBOUNDED
        ]
        parts.checked()
        bounds_us = [bound for bound in read if bound is not None]
        if len(bounds_us) == 2 and bounds_us[0] > bounds_us[1]:
            raise refused(path, value, "[lower, upper] with lower <= upper")
        if len(bounds_us) == 1 and not self.half_open:
            raise self.refuse(value, path)
        return tuple(ends) if bounds_us else UNBOUNDED

    def schema(self) -> Schema:
        end = {"anyOf": [DURATION, UNBOUNDED_SCHEMA]}
        forms: list[Schema] = [DURATION, UNBOUNDED_SCHEMA, row_of(2, end)]
        if self.pairs:
            pair = {"anyOf": [DURATION, UNBOUNDED_SCHEMA, row_of(2, end)]}
            forms.append({
                "type": "object",
                "properties": dict.fromkeys(("rs", "st", "rt"), pair),
                "additionalProperties": False,
            })  # fmt: skip
        return {"anyOf": forms}


def is_unbounded(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() == UNBOUNDED_WORD


@dataclass(frozen=True)
class Times(Kind):
    """The event-time columns: one for all inputs, or one for each of so many."""

    inputs: int

    @property
    def accepted(self) -> str:
        if self.inputs == 2:
            each = '["ordered_at", "seen_at"]'
            return f"an event-time column for both sides, or one for each: {each}"
        each = '["ordered_at", "seen_at", "paid_at"]'
        return f"an event-time column for all inputs, or one for each: {each}"

    def read(self, value: Any, path: Path) -> str | tuple[str, ...]:
        names = value if isinstance(value, list) else [value] * self.inputs
        if len(names) != self.inputs or not all(isinstance(n, str) and n.strip() for n in names):
            raise self.refuse(value, path)
        return tuple(names) if isinstance(value, list) else str(value)

    def schema(self) -> Schema:
        return {"anyOf": [NAME, row_of(self.inputs, NAME)]}


@dataclass(frozen=True)
class By(Kind):
    """Key columns."""

    @property
    def accepted(self) -> str:
        return 'a column "k", several ["k1", "k2"], or [] for all rows'

    def read(self, value: Any, path: Path) -> list[str]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(n, str) and n.strip() for n in names):
            raise self.refuse(value, path)
        return names

    def schema(self) -> Schema:
        return {"anyOf": [NAME, {"type": "array", "items": NAME}]}


@dataclass(frozen=True)
class Aggs(Kind):
    """Aggregates by the names that they have in the result."""

    @property
    def accepted(self) -> str:
        return (
            'a table such as { n = "count", total = ["sum", "price"], p95 = ["quantile", '
            f'"latency", 0.95] }}; by name: {", ".join((*AGGREGATES, QUANTILE))}'
        )

    def read(self, value: Any, path: Path) -> dict[str, Any]:
        if not isinstance(value, dict) or not value:
            raise self.refuse(value, path)
        parts = Parts()
        found = {n: parts.read(self._aggregate, wanted, (*path, n)) for n, wanted in value.items()}
        parts.checked({name: wanted for name, wanted in found.items() if wanted is not None})
        return found

    def _aggregate(self, wanted: Any, path: Path) -> str | tuple[Any, ...]:
        what, *rest = wanted if isinstance(wanted, list) and wanted else (wanted,)
        known = (*AGGREGATES, QUANTILE)
        if not isinstance(what, str) or what not in known:
            near = meant(str(what), known, '"')
            raise refused(path, wanted, f"one of: {', '.join(map(as_written, known))}{near}")
        if what == QUANTILE:
            share = plain(rest[1]) if len(rest) == 2 else None
            if not isinstance(share, int | float) or not 0 <= share <= 1:
                raise refused(path, wanted, '["quantile", "column", 0.95], a share from 0 to 1')
            rest = [rest[0], share]
        elif len(rest) > 1 or (not rest and what != "count"):
            raise refused(path, wanted, f'["{what}", "column"]')
        if rest and not (isinstance(rest[0], str) and rest[0]):
            raise refused(path, wanted, f'["{what}", "column"]')
        return (what, *rest) if rest else what

    def schema(self) -> Schema:
        named = {"type": "array", "minItems": 1, "maxItems": 2,
                 "items": NAME, "prefixItems": [{"enum": list(AGGREGATES)}]}  # fmt: skip
        share = {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, VARIABLE]}
        quantile = {"type": "array", "minItems": 3, "maxItems": 3,
                    "prefixItems": [{"const": QUANTILE}, NAME, share]}  # fmt: skip
        one = {"anyOf": [{"const": "count"}, named, quantile]}
        return {"type": "object", "additionalProperties": one, "minProperties": 1}


@dataclass(frozen=True)
class Window(Kind):
    """The length of a window, and how often one begins."""

    @property
    def accepted(self) -> str:
        return '"1 minute", or the length and how often one begins: ["10 minutes", "1 minute"]'

    def read(self, value: Any, path: Path) -> str | tuple[str, str]:
        if not isinstance(value, list):
            size = duration_us(value, path, ', or ["10 minutes", "1 minute"]')
            slide = size
        elif len(value) == 2:
            parts = Parts()
            read = [parts.read(duration_us, v, (*path, i)) for i, v in enumerate(value)]
            parts.checked()
            size, slide = (v or 0 for v in read)
        else:
            raise self.refuse(value, path)
        if not 0 < slide <= size:
            raise refused(path, value, "a duration, or [size, slide] with 0 < slide <= size")
        return (value[0], value[1]) if isinstance(value, list) else str(value)

    def schema(self) -> Schema:
        return {"anyOf": [DURATION, row_of(2, DURATION)]}


@dataclass(frozen=True)
class Compared(Kind):
    """What is compared by likeness: an array column or columns of numbers, of each side or both."""

    @property
    def accepted(self) -> str:
        return (
            'an array column "v", columns of numbers ["x", "y"], or one of these for each side: '
            '{ left = ["lat", "lon"], right = ["y", "x"] }'
        )

    def read(self, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return self._columns(value, path)
        parts, sides = Parts(), ("left", "right")
        _note_unknown(parts, value, path, sides)
        parts.checked()
        if set(value) != set(sides):
            raise self.refuse(value, path)
        found = [parts.read(self._columns, value[key], (*path, key)) for key in sides]
        parts.checked()
        return tuple(found)

    def _columns(self, value: Any, path: Path) -> str | list[str]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not names:
            raise self.refuse(value, path)
        if not all(isinstance(name, str) and name.strip() for name in names):
            raise self.refuse(value, path)
        return value if isinstance(value, str) else names

    def schema(self) -> Schema:
        one = {"anyOf": [NAME, {"type": "array", "items": NAME, "minItems": 1}]}
        each = {
            "type": "object",
            "properties": {"left": one, "right": one},
            "required": ["left", "right"],
            "additionalProperties": False,
        }
        return {"anyOf": [one, each]}


@dataclass(frozen=True)
class Strategy(Kind):
    """Who works on which rows, of the strategies of an operator."""

    operator: str

    @property
    def words(self) -> dict[str, str]:
        return FAMILIES[self.operator].words()

    @property
    def _choices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("auto", *self.words)))

    @property
    def accepted(self) -> str:
        return 'a name, or a table such as { strategy = "auto", tolerance = 0.05 }'

    def read(self, value: Any, path: Path) -> Any:
        if value == "auto":
            return "auto"  # the engine's own choice
        if isinstance(value, str):
            return self._class(value, path, self._choices)()
        if not isinstance(value, dict):
            raise self.refuse(value, path)
        at = (*path, "strategy")
        if "strategy" not in value:
            what = f"`{dotted(at)}` is missing: one of: {', '.join(self.words)}"
            raise RefusedError(path, what)
        kind = self._class(value["strategy"], at, tuple(self.words))
        return self._configured(kind, value, path)

    def _class(self, word: Any, path: Path, choices: tuple[str, ...]) -> Any:
        if word not in self.words:
            near = meant(str(word), choices, '"')
            raise refused(path, word, f"one of: {', '.join(map(as_written, choices))}{near}")
        return FAMILIES[self.operator].load(self.words[word])

    def _configured(self, kind: Any, table: dict[str, Any], path: Path) -> Any:
        """A strategy with its parameters."""
        parameters = [field.name for field in fields(kind)]
        parts = Parts()
        _note_unknown(parts, table, path, ("strategy", *parameters))
        given = {name: plain(table[name]) for name in parameters if name in table}
        # What is refused is left out and the rest tried again, as long as that was the matter.
        for _ in range(len(given) + 1):
            try:
                made = kind(**given)
                parts.checked()
                return made
            except ArgumentError as error:
                at = (*path, error.argument)
                parts.note(refused(at, table.get(error.argument), error.accepted))
                if error.argument not in given:
                    break
                del given[error.argument]
        parts.checked()
        raise self.refuse(table, path)

    def schema(self) -> Schema:
        forms: list[Schema] = [{"enum": list(self._choices)}, VARIABLE]
        for word, name in self.words.items():
            parameters = [field.name for field in fields(FAMILIES[self.operator].load(name))]
            forms.append({
                "type": "object",
                "properties": {"strategy": {"const": word}} | {p: {} for p in parameters},
                "required": ["strategy"],
                "additionalProperties": False,
            })  # fmt: skip
        return {"anyOf": forms}
