"""`sk.join`: from arguments to a join that can be started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from skewless.arrays.keys import hash_of_value
from skewless.arrays.types import FAR_US, SIDES, SideSpec
from skewless.conditions import UNBOUNDED
from skewless.engine.operator import Arrival
from skewless.errors import ArgumentError
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.operators.two_way.ingest import ingest
from skewless.operators.two_way.operator import JoinRuntime
from skewless.placement.balancing import Auto, Balancing
from skewless.placement.routing import Routing
from skewless.spark.arguments import columns
from skewless.spark.arguments.times import parse_bounds, parse_lates
from skewless.spark.exchange import ARRIVAL_SCHEMA, arrivals_task
from skewless.spark.executor import BatchDriver, JoinDriver, matches_of
from skewless.spark.result import Described, numbered, parallelism, parse_size
from skewless.spark.sinks import Sink

HOWS = ("inner",)
NULL_TIMES = ("error", "drop")
SLOTS_PER_INSTANCE = 16
SLOTS_MIN, SLOTS_MAX = 64, 65_536


def join(
    left: DataFrame,
    right: DataFrame,
    on: object,
    *,
    left_time: str | None = None,
    right_time: str | None = None,
    within: object,
    late: object = None,
    how: str = "inner",
    where: str | Column | None = None,
    balance: Routing | Balancing | str = "auto",
    instances: int | None = None,
    slots: int | None = None,
    suffixes: tuple[str, str] = ("", "_right"),
    on_null_time: str = "error",
) -> Joined:
    """Join two streams (or two static DataFrames) on equal or near keys within a time bound.

    Parameters
    ----------
    left, right
        Two streaming DataFrames from any source, or two static ones.
    on
        ``"k"``, ``["k1", "k2"]``, ``[("left_k", "right_k")]``, ``sk.band("lx", "rx", width)``, or a
        list of these.
    left_time, right_time
        The event-time columns.
    within
        ``"10 minutes"``: the times differ by at most that. ``("-1 minute", "10 minutes")``:
        ``left_time - 1 minute <= right_time <= left_time + 10 minutes``. ``sk.UNBOUNDED``: any
        times; the state then grows for ever. A longer bound keeps more state.
    late
        How far a row may lie behind the latest of its side, ``"1 minute"`` or one per side. Longer
        waits for more stragglers and keeps more state. Later rows are dropped and counted. Default:
        "0 seconds", and for UNBOUNDED joins: no row is late.
    how
        ``"inner"``.
    where
        A further SQL condition over the output columns.
    balance
        Who works on which rows; the result is the same. ``"auto"`` or ``sk.Auto(...)`` moves work
        from busy to idle instances and splits hot keys; so do ``sk.FastJoin(...)`` and
        ``sk.LSStream(...)``. Fixed: ``sk.Hash()``, ``sk.ContRand(groups)``, ``sk.Broadcast()``.
    instances, slots
        How many tasks work on a batch, and into how many ranges the keys are divided. Default: the
        session's parallelism, and 16 slots per instance but at least 64.
    suffixes
        Added to the names of columns that both sides have.
    on_null_time
        ``"error"`` stops the query at a row without event time, ``"drop"`` drops and counts it.

    >>> joined = sk.join(orders, tracks, on="cell", left_time="ordered_at",
    ...                  right_time="seen_at", within="10 minutes")        # doctest: +SKIP
    """
    if how not in HOWS:
        raise ArgumentError("how", how, f"one of: {', '.join(map(repr, HOWS))}")
    if on_null_time not in NULL_TIMES:
        raise ArgumentError("on_null_time", on_null_time, "'error' or 'drop'")
    a, b = _inputs(left, right)
    conditions = columns.parse_on(on)
    output = columns.output_columns(a, b, conditions, suffixes)
    left_side, right_side = _sides(a, b, conditions, left_time, right_time, within, late)
    lower, upper = _parse_within(within)
    spec = JoinSpec(left_side, right_side, lower, upper, output, on_null_time == "drop")
    schema = _schema(a, b, output)
    count, ranges = parse_size("instances", instances), parse_size("slots", slots)
    routing = _parse_balance(balance, spec, count)
    matches = Joined(left, schema, (), right, spec, schema, routing, count, ranges)
    return matches if where is None else matches.where(where)


def _inputs(left: DataFrame, right: DataFrame) -> tuple[columns.Input, columns.Input]:
    a, b = columns.Input(left, "left"), columns.Input(right, "right")
    if left.isStreaming != right.isStreaming:
        static = "right" if left.isStreaming else "left"
        raise ArgumentError(static, "a static DataFrame", "streaming, as the other input is")
    return a, b


def _sides(
    a: columns.Input,
    b: columns.Input,
    conditions: Sequence[columns.Condition],
    left_time: str | None,
    right_time: str | None,
    within: object,
    late: object,
) -> tuple[SideSpec, SideSpec]:
    unbounded = within is UNBOUNDED
    left_keys, right_keys, left_bands, right_bands = columns.resolve_keys(a, b, conditions)
    times = _resolve_times(a, left_time, b, right_time, unbounded=unbounded)
    lates = _parse_late(late, unbounded=unbounded)
    return (
        columns.side_spec(a, left_keys, left_bands, times[0], lates[0]),
        columns.side_spec(b, right_keys, right_bands, times[1], lates[1]),
    )


def _schema(a: columns.Input, b: columns.Input, output: Sequence[OutputColumn]) -> StructType:
    fields = [(a if c.side == "left" else b).fields[c.index] for c in output]
    named = zip(output, fields, strict=True)
    return StructType([StructField(c.name, f.dataType) for c, f in named])


@dataclass(frozen=True)
class Joined(Described):
    """A join that is described but not running: write it with `writeStream`, or, when the inputs
    are static, take the result with `toDF`."""

    right: DataFrame
    spec: JoinSpec
    match_schema: StructType
    routing: Routing | Balancing
    instances: int | None
    slots: int | None

    output_modes_told = "'append': a join only ever adds rows"

    @property
    def left(self) -> DataFrame:
        return self.frame

    def _whole_result(self, root: str) -> DataFrame:
        runtime = self.runtime(root)
        runtime.open()
        arrivals = [Arrival.from_json(json.loads(r[0])) for r in self.arrivals(root).collect()]
        plan = runtime.plan(0, arrivals)
        return self.shaped(matches_of(self.sparkSession, self.spec, plan, self.match_schema))

    def arrivals(self, root: str) -> DataFrame:
        """The first half of a batch: both inputs sorted and stored, one row per segment. A side
        uses no more tasks than the session can run at once: more would only make more files."""
        tasks = parallelism(self.sparkSession)
        left, right = (numbered(f).coalesce(tasks) for f in (self.left, self.right))
        left, right = (
            frame.mapInArrow(
                arrivals_task(
                    self.spec.side(side).schema,
                    partial(ingest, spec=self.spec, side=side, root=root),
                ),
                ARRIVAL_SCHEMA,
            )
            for side, frame in zip(SIDES, (left, right), strict=True)
        )
        return left.unionAll(right)

    def runtime(self, root: str, **options: int) -> JoinRuntime:
        instances = self.instances or parallelism(self.sparkSession)
        wanted = self.routing.slots_wanted if isinstance(self.routing, Balancing) else None
        default = max(SLOTS_MIN, (wanted or SLOTS_PER_INSTANCE) * instances)
        slots = self.slots or min(default, SLOTS_MAX)
        return JoinRuntime(root, self.spec, self.routing, instances, slots, **options)

    def driver(self, root: str, sink: Sink, mode: str | None, **keeping: int) -> BatchDriver:
        runtime = self.runtime(root, **keeping)
        return JoinDriver(runtime, sink, self.match_schema, self.steps)


def _parse_within(within: object) -> tuple[int, int]:
    if within is UNBOUNDED:
        return -FAR_US, FAR_US
    return parse_bounds(within, "a duration, (lower, upper) or sk.UNBOUNDED")


def _parse_late(late: object, *, unbounded: bool) -> list[int]:
    if late is None and unbounded:
        return [FAR_US, FAR_US]
    return parse_lates(late, 2, "a duration, or two: (left, right)")


def _resolve_times(
    a: columns.Input, left: str | None, b: columns.Input, right: str | None, *, unbounded: bool
) -> tuple[int | None, int | None]:
    if unbounded and left is None and right is None:
        return None, None
    times = columns.resolve_time(a, left, "left_time"), columns.resolve_time(b, right, "right_time")
    if a.type_of(times[0]) != b.type_of(times[1]):
        told = f"{a.told(times[0])} and {b.told(times[1])}"
        raise ArgumentError("right_time", told, "of the same type as `left_time`; cast one of them")
    return times


def _parse_balance(balance: object, spec: JoinSpec, instances: int | None) -> Routing | Balancing:
    if isinstance(balance, Routing):
        return balance
    if balance == "auto":
        return Auto()
    if not isinstance(balance, Balancing):
        accepted = (
            "'auto', sk.Auto(...), sk.FastJoin(...), sk.LSStream(...), sk.NoBalancing(), "
            "sk.Hash(), sk.ContRand(groups=...) or sk.Broadcast()"
        )
        raise ArgumentError("balance", balance, accepted)
    for value, instance in balance.pinned:
        try:
            hash_of_value(value, spec.left)
        except (ValueError, TypeError, ArithmeticError) as error:
            names = [spec.left.schema.field(k.index).name for k in spec.left.keys]
            accepted = f"values of the key columns ({', '.join(names)}), without bands ({error})"
            raise ArgumentError("pin", {value: instance}, accepted) from error
        if instances is not None and instance >= instances:
            accepted = f"{{key: instance}}, instances from 0 to {instances - 1}"
            raise ArgumentError("pin", {value: instance}, accepted)
    return balance
