"""`sk.deduplicate`: from arguments to a deduplication that can be started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skewless.arrays.types import KeyColumn
from skewless.durations import parse_duration_us
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from skewless.operators.naming import named_columns
from skewless.spark.arguments import columns
from skewless.spark.arguments.clock_rules import parse_clock_rules
from skewless.spark.arguments.keys import parse_by
from skewless.spark.arguments.kinds import Auto, Duration, ErrorOrDrop, Name, Source
from skewless.spark.arguments.naming import struct_of
from skewless.spark.arguments.times import check_null_times, parse_lates, parse_time
from skewless.spark.result import RowsResult, sizes


def deduplicate(
    df: Source,
    by: Name | Sequence[Name],
    *,
    time: Name | None = None,
    within: Duration,
    late: Duration | None = None,
    idle_after: Duration | None = None,
    max_ahead: Duration | None = None,
    instances: int | Auto = "auto",
    on_null_time: ErrorOrDrop = "error",
) -> Deduplicated:
    """The first row of each key within a bound of time, however hot the key is.

    Parameters
    ----------
    df
        A streaming DataFrame from any source, or a static one; or the result of another operator,
        which is then part of the same query.
    by
        The columns that duplicates have in common: ``"id"``, ``["device", "sequence"]``, or ``[]``
        for one key. A null is a key of its own, as in `dropDuplicates`.
    time
        The event-time column. The first row is the earliest; of equally early ones the one that
        came first. Default: that of the input's ``withWatermark``.
    within
        Rows up to this much later than the first are its duplicates. The next row after that is a
        first row again. A longer bound remembers more keys.
    late
        How far rows may lie behind the latest. A row comes out when no earlier one can come any
        more, so that longer also means later. Later rows are dropped and counted. Default: the
        delay of the input's ``withWatermark``, or else "0 seconds". In a result nothing is late; it
        has none.
    idle_after
        ``"10 minutes"``: if the stream has had no rows for so long, by the clock, its result no
        longer holds back the operator that takes it. Default: None.
    max_ahead
        ``"1 day"``: rows further ahead of the clock than that are put aside and counted, so that
        one broken timestamp does not make all rows late that come after it. Default: None, any time
        is taken.
    instances
        How many tasks work on a batch. ``"auto"``: as many as it needs, and as the executors have
        cores at the time.
    on_null_time
        ``"error"`` stops the query at a row without event time, ``"drop"`` drops and counts it.

    >>> clicks = sk.deduplicate(clicks, by="click_id", time="at", within="10 minutes",
    ...                         late="1 minute")                            # doctest: +SKIP
    """
    drop_null_times = check_null_times(on_null_time)
    [this] = inputs = columns.inputs_of(df=df)
    keys = [KeyColumn(i, this.type_of(i)) for i in parse_by(this, by)]
    index = parse_time(this, time, why="the first row is the earliest")
    [late_us] = parse_lates(late, inputs, [index])
    rules = parse_clock_rules(idle_after, max_ahead, inputs, [index])
    side = columns.side_spec(this, keys, (), index, late_us)
    spec = DeduplicateSpec(side, parse_duration_us(within, "within"), drop_null_times)
    count = sizes(instances=instances)["instances"]

    def place(spec: DeduplicateSpec, cores: int) -> DeduplicateOperator:
        return DeduplicateOperator(spec, count or cores, elastic=count is None)

    named = named_columns(inputs, ("",), ("",))
    emitted = struct_of(inputs, named)
    taken = (this.every_column,)
    return Deduplicated((df,), taken, emitted, spec=spec, place=place, rules=rules, named=named)


@dataclass(frozen=True, eq=False, repr=False)
class Deduplicated(RowsResult[DeduplicateSpec]):
    """A deduplication that is described but not running: write it with `writeStream`, or, when the
    input is static, take the result with `dataframe`."""
