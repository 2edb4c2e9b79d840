"""Event times, bounds and delays as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pyspark.sql import Column

from skewless.arrays.types import FAR_US
from skewless.conditions import UNBOUNDED
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.arguments.columns import Input
from skewless.spark.watermarks import Watermark

ANY_TIMES = (-FAR_US, FAR_US)
NULL_TIMES = ("error", "drop")
DURATION = "a duration such as '10 minutes' or a timedelta"
BOUND_FORMS = f"{DURATION}, (lower, upper) or sk.UNBOUNDED"
NOTHING_LATE = "it brings its watermark along, and nothing in it is late"
HALF_OPEN_FORMS = f"{BOUND_FORMS}, or (lower, sk.UNBOUNDED) or (sk.UNBOUNDED, upper)"


def parse_bounds(
    within: object, accepted: str = BOUND_FORMS, *, half_open: bool = False
) -> tuple[int, int]:
    """``"1 minute"``, either way, ``(lower, upper)``, or any times at all. `accepted` is said of
    anything else. Where bounds may be `half_open`, one of a pair can be UNBOUNDED."""
    if within is UNBOUNDED:
        return ANY_TIMES
    if isinstance(within, str | timedelta):
        bound = parse_duration_us(within, "within")
        return -bound, bound
    if not isinstance(within, tuple | list) or len(within) != 2:
        raise ArgumentError("within", within, accepted)
    if UNBOUNDED in within and not half_open:
        raise ArgumentError("within", within, f"{accepted}; half-open bounds are for `sk.join`")
    lower, upper = (
        far if w is UNBOUNDED else parse_duration_us(w, "within", allow_negative=True)
        for w, far in zip(within, (-FAR_US, FAR_US), strict=True)
    )
    if lower > upper:
        raise ArgumentError("within", within, "(lower, upper) with lower <= upper")
    return lower, upper


def parse_lates(
    late: object,
    inputs: Sequence[Input],
    times: Sequence[int | None],
    *,
    unbounded: bool = False,
) -> list[int]:
    """One delay for all streams among the inputs, or one for each input; what is not given is that
    of the watermark that Spark knows for the input's event time, if it does. A result of another
    operator brings its watermark along: nothing in it is late, so it has no delay of its own.
    Unless they are given, nothing is late where times are `unbounded`."""
    delays = given_durations("late", late, inputs, NOTHING_LATE)
    default = FAR_US if unbounded else 0
    found = []
    for this, index, given_us in zip(inputs, times, delays, strict=True):
        mark = None if index is None else this.watermark(index)
        if given_us is None:
            if mark is None and not unbounded:
                _refuse_windows(this)
            found.append(default if mark is None or unbounded else mark.delay_us)
            continue
        if mark is not None and mark.delay_us != given_us:
            accepted = f"{mark.delay!r} for `{this.argument}`, or left out: {mark} says so"
            raise ArgumentError("late", late, accepted)
        found.append(given_us)
    return found


def _refuse_windows(this: Input) -> None:
    """The delay of windows cannot be taken: how long they are is not known here, and the latest of
    them ends up to its length after the latest row."""
    for mark in this.watermarks:
        if mark.is_window:
            accepted = (
                f"given for `{this.argument}`, whose watermark is that of the window "
                f"{mark.column!r}: its delay, {mark.delay}, and the length of a window if rows are "
                'to be as late as Spark lets them be; "0 seconds" for the results of an aggregation'
            )
            raise ArgumentError("late", None, accepted)


def given_durations(
    argument: str, given: object, inputs: Sequence[Input], why: str
) -> list[int | None]:
    """A duration for all streams among the inputs, or one for each input, as the user gives it.
    `why` results of other operators have none is said if one is given."""
    if given is None:
        return [None] * len(inputs)
    if isinstance(given, str | timedelta):
        if all(this.is_result for this in inputs):
            raise ArgumentError(argument, given, f"left out: {_none_for(inputs[0], why)}")
        duration = parse_duration_us(given, argument)
        return [None if this.is_result else duration for this in inputs]
    if not isinstance(given, tuple | list) or len(given) != len(inputs) or len(inputs) == 1:
        names = ", ".join(this.argument for this in inputs)
        each = f", or one for each input: ({names})" if len(inputs) > 1 else ""
        raise ArgumentError(argument, given, f"{DURATION}{each}")
    for this, one in zip(inputs, given, strict=True):
        if this.is_result and one is not None:
            raise ArgumentError(argument, given, _none_for(this, why))
    return [None if one is None else parse_duration_us(one, argument) for one in given]


def _none_for(this: Input, why: str) -> str:
    return f"None for `{this.argument}`, the result of another operator: {why}"


def parse_times(
    inputs: Sequence[Input],
    time: object,
    older: Mapping[str, object],
    *,
    unbounded: bool = False,
    why: str = "only within=sk.UNBOUNDED can do without",
) -> list[int | None]:
    """The numbers of the event-time columns, all of one type. They are named by `time`, one name
    for all inputs or one each, or by the `older` arguments, or else by `withWatermark`. Only where
    times are `unbounded` there need be none; `why` is said else."""
    names = _time_names(inputs, time, older)
    if unbounded and all(name is None for _, name in names):
        return [None] * len(inputs)
    found = [
        parse_time(this, name, argument, why=why)
        for this, (argument, name) in zip(inputs, names, strict=True)
    ]
    kinds = {str(this.type_of(i)) for this, i in zip(inputs, found, strict=True)}
    if len(kinds) > 1:
        described = [this.described(i) for this, i in zip(inputs, found, strict=True)]
        first, last = names[0][0], names[-1][0]
        same = "columns of one type" if first == last else f"of the same type as `{first}`"
        joined = (" and " if len(described) == 2 else ", ").join(described)
        raise ArgumentError(last, joined, f"{same}; cast one of them")
    return list(found)


def parse_time(this: Input, name: object, argument: str = "time", *, why: str) -> int:
    """The event-time column of an input: the one that is named, which must be that of a watermark
    that Spark knows, if it knows one; or else that. `why` there must be one is said if there is
    none."""
    marks = [mark for mark in this.watermarks if not mark.is_window]
    if name is None:
        return this.time_index(_only_column(this, argument, marks, why), argument)
    index = this.time_index(name, argument)
    if marks and this.names[index] not in [mark.column for mark in marks]:
        accepted = (
            f"{' or '.join(repr(mark.column) for mark in marks)}, as {marks[0]} of "
            f"`{this.argument}` says. To go by another time, take the watermark off: "
            f'.withMetadata("{marks[0].column}", {{}})'
        )
        raise ColumnError(argument, this.described(index), accepted)
    return index


def _only_column(this: Input, argument: str, marks: Sequence[Watermark], why: str) -> str:
    if len(marks) == 1:
        return marks[0].column
    accepted = f"the event-time column of `{this.argument}`, which has no withWatermark ({why})"
    if marks:
        several = ", ".join(mark.column for mark in marks)
        accepted = f"one of the columns of `{this.argument}` that have a watermark: {several}"
    raise ArgumentError(argument, None, accepted)


def _time_names(
    inputs: Sequence[Input], time: object, older: Mapping[str, object]
) -> list[tuple[str, object]]:
    """Which argument names the event time of each input, and what it says."""
    given = [name for name, value in older.items() if value is not None]
    if time is not None and given:
        raise ArgumentError("time", time, f"left out where {', '.join(given)} says it, too")
    if given and len(older) == len(inputs):
        return list(older.items())
    argument, value = (given[0], older[given[0]]) if given else ("time", time)
    if value is None or isinstance(value, str | Column):
        return [(argument, value)] * len(inputs)
    if not isinstance(value, tuple | list) or len(value) != len(inputs):
        names = ", ".join(this.argument for this in inputs)
        accepted = f"an event-time column for all inputs, or one for each: {names}"
        raise ArgumentError(argument, value, accepted)
    return [(argument, name) for name in value]


def check_null_times(on_null_time: object) -> bool:
    """Whether rows without event time are dropped."""
    if on_null_time not in NULL_TIMES:
        raise ArgumentError("on_null_time", on_null_time, "'error' or 'drop'")
    return on_null_time == "drop"
