"""The table [join]: the arguments of `sk.join` as TOML can say them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from skewless.conditions import UNBOUNDED, Band, Equal, Unbounded, band, equal
from skewless.errors import ArgumentError
from skewless.jobfile.lines import Path
from skewless.jobfile.section import JobText, Section
from skewless.operators.join_type import JOIN_TYPES
from skewless.strategies import FAMILIES

if TYPE_CHECKING:
    from skewless.placement.strategy import PlacementStrategy

JOIN_KEYS = (
    "on", "time", "left_time", "right_time", "within", "late", "idle_after", "max_ahead", "how",
    "condition", "where", "strategy", "balance", "instances", "slots", "suffixes", "on_null_time",
)  # fmt: skip
STRATEGY_KEYS = ("strategy", "balance")  # the same, as `sk.join` has it

ON = (
    '"k", ["k1", "k2"], pairs [["left_k", "right_k"]], '
    '{ left = "a", right = "b", null_safe = true }, bands '
    '{ left = "x", right = "y", width = 5 }, or a list of these'
)
OR_WITHIN = ', ["-1 minute", "10 minutes"], ["0 seconds", "unbounded"] or "unbounded"'
WITHIN = f'"10 minutes"{OR_WITHIN}'
OR_EACH = ', or one for each side: ["1 minute", "0 seconds"]'
EACH = f'"1 minute"{OR_EACH}'
SUFFIXES = 'two texts, such as ["", "_right"]'
WIDTH = 'a number, or for times a duration such as "5 seconds"'
TIME = 'an event-time column for both sides, or one for each: ["ordered_at", "seen_at"]'
STRATEGY = 'a name, or a table such as { strategy = "auto", tolerance = 0.05 }'
COUNT = "a whole number from 1 to 65536"
UNBOUNDED_WORD = "unbounded"

Condition = str | tuple[str, str] | Band | Equal


def read_join(job: Section) -> dict[str, Any]:
    """The keyword arguments of `sk.join`; what the file leaves out is left to its defaults."""
    job.need("join", "a table [join] with `on`, `left_time`, `right_time` and `within`")
    join = job.table("join", JOIN_KEYS)
    join.need("on", f"the columns to join on, {ON}")
    join.need("within", f"how far apart in time rows may be, {WITHIN}")
    within = _within(join)
    arguments = {
        "on": _on(join),
        "within": within,
        **_times(join, within),
        **{key: _each(join, key) for key in ("late", "idle_after", "max_ahead")},
        "how": join.one_of("how", tuple(JOIN_TYPES)),
        "condition": join.string("condition", "an SQL condition on the pairs"),
        "where": join.string("where", "an SQL condition over the output columns"),
        **{key: _strategy(join, key) for key in STRATEGY_KEYS},
        "instances": None if join.get("instances") == "auto" else _count(join, "instances"),
        "slots": _count(join, "slots"),
        "suffixes": _suffixes(join),
        "on_null_time": join.one_of("on_null_time", ("error", "drop")),
    }
    return {key: value for key, value in arguments.items() if value is not None}


def _on(join: Section) -> list[Condition]:
    value = join.get("on")
    if not isinstance(value, list):
        return [_condition(join.text, (*join.path, "on"), value)]
    if not value:
        raise join.refuse("on", ON)
    return [_condition(join.text, (*join.path, "on", i), item) for i, item in enumerate(value)]


def _condition(text: JobText, path: Path, item: Any) -> Condition:
    if isinstance(item, str) and item:
        return item
    if isinstance(item, list) and len(item) == 2 and all(isinstance(c, str) and c for c in item):
        return item[0], item[1]
    if not isinstance(item, dict):
        raise text.refusal(path, item, ON)
    pair = Section(text, path, item, ("left", "right", "width", "null_safe"))
    left = pair.needed_string("left", "the name of a column of the left input")
    right = pair.needed_string("right", "the name of a column of the right input")
    null_safe = pair.get("null_safe")
    if null_safe is not None and ("width" in pair or not isinstance(null_safe, bool)):
        raise pair.refuse("null_safe", "true or false, without a width")
    if "width" not in pair:
        return equal(left, right, null_safe=null_safe) if null_safe else (left, right)
    width = pair.get("width")
    if isinstance(width, bool) or not isinstance(width, int | float | str):
        raise pair.refuse("width", WIDTH)
    if isinstance(width, str):
        pair.duration_us((*path, "width"), width)
    return band(left, right, width)


def _within(join: Section) -> object:
    value, path = join.get("within"), (*join.path, "within")
    if _is_unbounded(value):
        return UNBOUNDED
    if not isinstance(value, list):
        join.duration_us(path, value, OR_WITHIN)
        return value
    if len(value) != 2:
        raise join.refuse("within", WITHIN)
    ends = tuple(UNBOUNDED if _is_unbounded(bound) else bound for bound in value)
    bounds_us = [
        join.duration_us((*path, i), bound, allow_negative=True)
        for i, bound in enumerate(ends)
        if bound is not UNBOUNDED
    ]
    if len(bounds_us) == 2 and bounds_us[0] > bounds_us[1]:
        raise join.refuse("within", "[lower, upper] with lower <= upper")
    return ends if bounds_us else UNBOUNDED


def _is_unbounded(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() == UNBOUNDED_WORD


def _times(join: Section, within: object) -> dict[str, object]:
    """`time` says it for both sides; `left_time` and `right_time` one by one."""
    one_by_one = [key for key in ("left_time", "right_time") if key in join]
    if "time" not in join:
        return {key: _time(join, key, within) for key in ("left_time", "right_time")}
    if one_by_one:
        raise join.refuse("time", f"left out where {', '.join(one_by_one)} says it, too")
    value = join.get("time")
    names = value if isinstance(value, list) else [value, value]
    if len(names) != 2 or not all(isinstance(name, str) and name for name in names):
        raise join.refuse("time", TIME)
    return {"time": tuple(names) if isinstance(value, list) else value}


def _time(join: Section, key: str, within: object) -> str | None:
    what = "the name of the event-time column"
    if isinstance(within, Unbounded):
        return join.string(key, what)
    return join.needed_string(key, f'{what} (only within = "unbounded" can do without)')


def _each(join: Section, key: str) -> object:
    """A duration for both sides, or one for each."""
    value, path = join.get(key), (*join.path, key)
    if value is None:
        return None
    if not isinstance(value, list):
        join.duration_us(path, value, OR_EACH)
        return value
    if len(value) != 2:
        raise join.refuse(key, EACH)
    for i, bound in enumerate(value):
        join.duration_us((*path, i), bound)
    return value[0], value[1]


def _strategy(join: Section, key: str) -> PlacementStrategy | Literal["auto"] | None:
    value = join.get(key)
    if value is None:
        return None
    if key == "balance" and "strategy" in join:
        raise join.refuse(key, "left out where `strategy` is given")
    if value == "auto":
        return "auto"  # the engine's own choice
    family = FAMILIES["join"]
    words = family.words()
    if isinstance(value, str):
        join.one_of(key, words)
        named: PlacementStrategy = family.load(words[value])()
        return named
    if not isinstance(value, dict):
        raise join.refuse(key, STRATEGY)
    name = join.table(key, tuple(value))
    name.needed_string("strategy", f"one of: {', '.join(words)}")
    name.one_of("strategy", words)
    return _configured(join, key, family.load(words[value["strategy"]]))


def _configured(join: Section, key: str, kind: type[PlacementStrategy]) -> PlacementStrategy:
    """A strategy with its parameters."""
    parameters = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    table = join.table(key, ("strategy", *parameters))
    try:
        return kind(**{name: table.get(name) for name in parameters if name in table})
    except ArgumentError as error:
        raise table.refuse(error.argument, error.accepted) from error


def _count(join: Section, key: str) -> int | None:
    value = join.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65_536:
        raise join.refuse(key, COUNT)
    return value


def _suffixes(join: Section) -> tuple[str, str] | None:
    value = join.get("suffixes")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(s, str) for s in value):
        raise join.refuse("suffixes", SUFFIXES)
    return value[0], value[1]
