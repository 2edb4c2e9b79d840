"""`sk.join3`: from arguments to a three-way join that can be started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from skewless.conditions import Band, Equal
from skewless.durations import format_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.operators.pair import JoinSpec
from skewless.operators.three_way.ingest import ingest_stream
from skewless.operators.three_way.operator import ThreeRuntime
from skewless.operators.three_way.spec import (
    NAMES,
    STREAMS,
    Edge,
    OutputColumn,
    Stream,
    StreamArrival,
    ThreeSpec,
)
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree
from skewless.spark.arguments import columns
from skewless.spark.arguments.times import parse_bounds, parse_lates
from skewless.spark.exchange import ARRIVAL_SCHEMA, arrivals_task
from skewless.spark.executor import BatchDriver
from skewless.spark.join3_driver import ThreeWayDriver, pairs_made, triples_of
from skewless.spark.result import Described, numbered, parallelism, parse_size
from skewless.spark.sinks import Sink

BOUND_FORMS = "a duration, (lower, upper), or one per pair"
NULL_TIMES = ("error", "drop")
ON_FORM = (
    'conditions between two inputs each, such as [sk.equal("r.k", "s.k"), sk.band("s.x", "t.x", 5)]'
)
Condition = tuple[int, int, columns.Condition]  # of two streams, the lower number first


def join3(
    r: DataFrame,
    s: DataFrame,
    t: DataFrame,
    on: Sequence[Equal | Band],
    *,
    times: Sequence[str],
    within: object,
    late: object = None,
    where: str | Column | None = None,
    strategy: ThreeStrategy | str = "auto",
    instances: int | None = None,
    suffixes: Sequence[str] = ("_r", "_s", "_t"),
    on_null_time: str = "error",
) -> Joined3:
    """Join three streams (or three static DataFrames) at once.

    Parameters
    ----------
    r, s, t
        Three streaming DataFrames from any source, or three static ones.
    on
        A list of ``sk.equal("r.a", "s.a")`` and ``sk.band("s.b", "t.b", 5)``, whose columns begin
        with the input they are of. The inputs must hang together: conditions between two pairs make
        a chain, between all three a cycle. A pair may have several conditions.
    times
        The event-time column of each input.
    within
        How far the times of two rows that have a condition may be apart: ``"1 minute"``, or
        ``(lower, upper)`` for the later input's time minus the earlier's, or one per pair,
        ``{"rs": "1 minute", "st": ("0 seconds", "5 minutes")}``. Longer keeps more state.
    late
        How far a row may lie behind the latest of its input, ``"1 minute"`` or one per input.
        Later rows are dropped and counted. Default: "0 seconds".
    where
        A further SQL condition over the output columns.
    strategy
        How it is done; the result is the same. ``"auto"`` looks for partners along the way that has
        shown the fewest candidates, without broadcasting a row or keeping intermediate results;
        ``sk.TriJoin()`` keeps every pair, packed, until its third row comes; ``sk.Tree()`` joins
        two inputs first. A checkpoint goes on with what it was begun with.
    instances
        How many tasks work on a batch. Default: the session's parallelism.
    suffixes
        Added to the names of columns that several inputs have. Columns that are joined by equality
        under one name appear once.
    on_null_time
        ``"error"`` stops the query at a row without event time, ``"drop"`` drops and counts it.

    >>> deals = sk.join3(streamers, purchases, users,
    ...                  on=[sk.equal("r.stream", "s.stream"), sk.equal("s.user", "t.user")],
    ...                  times=("live_at", "bought_at", "seen_at"), within="1 minute")
    ... # doctest: +SKIP
    """
    if on_null_time not in NULL_TIMES:
        raise ArgumentError("on_null_time", on_null_time, "'error' or 'drop'")
    inputs = _inputs((r, s, t))
    conditions = _parse_on(inputs, on)
    _refuse_other_shapes(conditions)
    spec = _spec(inputs, conditions, times, within, late, suffixes, on_null_time)
    schema = StructType(
        [StructField(c.name, inputs[c.stream].fields[c.index].dataType) for c in spec.output]
    )
    how = _parse_strategy(strategy, spec)
    count = parse_size("instances", instances)
    joined = Joined3(r, schema, (), (r, s, t), spec, schema, how, count)
    return joined if where is None else joined.where(where)


def _inputs(frames: tuple[DataFrame, DataFrame, DataFrame]) -> list[columns.Input]:
    inputs = [columns.Input(frame, name) for frame, name in zip(frames, NAMES, strict=True)]
    streaming = [bool(frame.isStreaming) for frame in frames]
    if len(set(streaming)) > 1:
        odd = NAMES[streaming.index(False)]
        raise ArgumentError(odd, "a static DataFrame", "streaming, as another input is")
    return inputs


def _parse_on(inputs: list[columns.Input], on: object) -> list[Condition]:
    items = on if isinstance(on, list | tuple) else [on]
    found: list[Condition] = []
    for item in items:
        if not isinstance(item, Equal | Band):
            raise ArgumentError("on", on, ON_FORM)
        (a, left), (b, right) = _column(inputs, item.left), _column(inputs, item.right)
        if a == b:
            accepted = f"a condition between two inputs; this one is on {NAMES[a]} alone"
            raise ArgumentError("on", item, accepted)
        if a > b:
            a, b, left, right = b, a, right, left
        pair = Band(left, right, item.width) if isinstance(item, Band) else (left, right)
        found.append((a, b, pair))
    if not found:
        raise ArgumentError("on", on, ON_FORM)
    return found


def _column(inputs: list[columns.Input], name: object) -> tuple[int, str]:
    prefix, dot, rest = name.partition(".") if isinstance(name, str) else ("", "", "")
    if not dot or prefix not in NAMES:
        raise ArgumentError("on", name, 'a column with its input in front: "r.k", "s.k" or "t.k"')
    stream = NAMES.index(prefix)
    inputs[stream].index(rest, "on")
    return stream, rest


def _refuse_other_shapes(conditions: list[Condition]) -> None:
    if len({(a, b) for a, b, _ in conditions}) < 2:
        accepted = (
            "conditions that link all three inputs, as a chain (two pairs) or a cycle (three "
            f"pairs). Understood was:\n{drawing(conditions)}\n"
        )
        raise ArgumentError("on", [_told(c) for c in conditions], accepted)


def drawing(conditions: Sequence[Condition]) -> str:
    """What joins which inputs, one line per pair."""
    lines = []
    for a, b in ((0, 1), (1, 2), (0, 2)):
        mine = [_told(c) for c in conditions if (c[0], c[1]) == (a, b)]
        link = f"── {' and '.join(mine)} ──" if mine else "   (no condition)   "
        lines.append(f"    {NAMES[a]} {link} {NAMES[b]}")
    return "\n".join(lines)


def _told(condition: Condition) -> str:
    a, b, pair = condition
    if isinstance(pair, Band):
        return f"|{NAMES[a]}.{pair.left} - {NAMES[b]}.{pair.right}| <= {pair.width}"
    return f"{NAMES[a]}.{pair[0]} = {NAMES[b]}.{pair[1]}"


def _spec(
    inputs: list[columns.Input],
    conditions: list[Condition],
    times: object,
    within: object,
    late: object,
    suffixes: object,
    on_null_time: str,
) -> ThreeSpec:
    time_columns = _parse_times(inputs, times)
    lates = parse_lates(late, 3, "a duration, or three: (r, s, t)")
    pairs = sorted({(a, b) for a, b, _ in conditions})
    bounds = _parse_within(within, pairs)
    edges = []
    for a, b in pairs:
        mine = [c for x, y, c in conditions if (x, y) == (a, b)]
        keys_a, keys_b, bands_a, bands_b = columns.resolve_keys(inputs[a], inputs[b], mine)
        left = columns.side_spec(inputs[a], keys_a, bands_a, time_columns[a], lates[a])
        right = columns.side_spec(inputs[b], keys_b, bands_b, time_columns[b], lates[b])
        edges.append(Edge(a, b, JoinSpec(left, right, *bounds[a, b], ())))
    r, s, t = (Stream(inputs[x].plain_schema, time_columns[x], lates[x]) for x in STREAMS)
    output = _output_columns(inputs, conditions, suffixes)
    return ThreeSpec((r, s, t), tuple(edges), output, on_null_time == "drop")


def _parse_times(inputs: list[columns.Input], times: object) -> list[int]:
    if (
        not isinstance(times, list | tuple)
        or len(times) != 3
        or any(name is None for name in times)
    ):
        raise ArgumentError("times", times, "the event-time columns of r, s and t")
    found = [columns.resolve_time(this, n, "times") for this, n in zip(inputs, times, strict=True)]
    kinds = {str(this.type_of(i)) for this, i in zip(inputs, found, strict=True)}
    if len(kinds) > 1:
        told = ", ".join(this.told(i) for this, i in zip(inputs, found, strict=True))
        raise ArgumentError("times", told, "columns of one type; cast some of them")
    return found


def _parse_within(
    within: object, pairs: list[tuple[int, int]]
) -> dict[tuple[int, int], tuple[int, int]]:
    if not isinstance(within, Mapping):
        bound = parse_bounds(within, BOUND_FORMS)
        return dict.fromkeys(pairs, bound)
    names = {f"{NAMES[a]}{NAMES[b]}": (a, b) for a, b in pairs}
    given = {"".join(map(str, key)) if isinstance(key, tuple) else key: value
             for key, value in within.items()}  # fmt: skip
    if set(given) != set(names):
        accepted = f"one bound for each pair that has a condition: {', '.join(sorted(names))}"
        raise ArgumentError("within", within, accepted)
    return {names[name]: parse_bounds(value, BOUND_FORMS) for name, value in given.items()}


def _output_columns(
    inputs: list[columns.Input], conditions: list[Condition], suffixes: object
) -> tuple[OutputColumn, ...]:
    """All columns of r, s and t; one that equals a column of the same name of an earlier input is
    left out, and names that are there several times get suffixes."""
    if (
        not isinstance(suffixes, tuple | list)
        or len(suffixes) != 3
        or not all(isinstance(suffix, str) for suffix in suffixes)
    ):
        raise ArgumentError("suffixes", suffixes, 'three strings, such as ("_r", "_s", "_t")')
    merged = {
        (b, pair[1].lower())
        for a, b, pair in conditions
        if not isinstance(pair, Band) and pair[0].lower() == pair[1].lower()
    }
    kept = [
        (x, i, name)
        for x in STREAMS
        for i, name in enumerate(inputs[x].names)
        if (x, name.lower()) not in merged
    ]
    lowered = [name.lower() for _, _, name in kept]
    output = tuple(
        OutputColumn(x, i, name + suffixes[x] if lowered.count(name.lower()) > 1 else name)
        for x, i, name in kept
    )
    names = [c.name.lower() for c in output]
    twice = sorted({c.name for c in output if names.count(c.name.lower()) > 1})
    if twice:
        accepted = f"such that no output column appears twice: {twice}"
        raise ColumnError("suffixes", tuple(suffixes), accepted)
    return output


def _parse_strategy(strategy: object, spec: ThreeSpec) -> ThreeStrategy:
    if strategy == "auto":
        return AutoThree()
    if not isinstance(strategy, ThreeStrategy):
        accepted = "'auto', sk.TriJoin(packing=True) or sk.Tree(order=None)"
        raise ArgumentError("strategy", strategy, accepted)
    if isinstance(strategy, Tree) and strategy.order is not None:
        a, b = (NAMES.index(name) for name in strategy.order[:2])
        if spec.edge(a, b) is None:
            linked = ", ".join(e.name for e in spec.edges)
            accepted = f"begun with two inputs that have a condition: one of {linked}"
            raise ArgumentError("order", strategy.order, accepted)
    return strategy


@dataclass(frozen=True)
class Joined3(Described):
    """A three-way join that is described but not running: write it with `writeStream`, or, when the
    inputs are static, take the result with `toDF`."""

    frames: tuple[DataFrame, DataFrame, DataFrame]
    spec: ThreeSpec
    match_schema: StructType
    strategy: ThreeStrategy
    instances: int | None

    output_modes_told = "'append': a join only ever adds rows"

    def __str__(self) -> str:
        """The inputs, and what joins them."""
        lines = []
        for edge in self.spec.edges:
            two = edge.pair.fingerprint()
            bounds = [format_duration_us(us) for us in (edge.pair.lower_us, edge.pair.upper_us)]
            lines.append(f"{NAMES[edge.a]} ── {two['left keys']} with {two['right keys']}, "
                         f"{' to '.join(bounds)} ── {NAMES[edge.b]}")  # fmt: skip
        return "\n".join(lines)

    def arrivals(self, root: str) -> DataFrame:
        """The first step of a batch: all inputs sorted and stored. An input uses no more tasks than
        the session can run at once: more would only make more files."""
        tasks = parallelism(self.sparkSession)
        r, s, t = (
            numbered(frame)
            .coalesce(tasks)
            .mapInArrow(
                arrivals_task(
                    self.spec.streams[x].schema,
                    partial(ingest_stream, spec=self.spec, stream=x, root=root),
                ),
                ARRIVAL_SCHEMA,
            )
            for x, frame in enumerate(self.frames)
        )
        return r.unionAll(s).unionAll(t)

    def runtime(self, root: str, **options: int) -> ThreeRuntime:
        instances = self.instances or parallelism(self.sparkSession)
        return ThreeRuntime(root, self.spec, self.strategy, instances, **options)

    def driver(self, root: str, sink: Sink, mode: str | None, **keeping: int) -> BatchDriver:
        runtime = self.runtime(root, **keeping)
        return ThreeWayDriver(runtime, sink, self.match_schema, self.steps)

    def _whole_result(self, root: str) -> DataFrame:
        runtime = self.runtime(root)
        runtime.open()
        session = self.sparkSession
        arrived = [StreamArrival.from_json(json.loads(r[0])) for r in self.arrivals(root).collect()]
        plan = runtime.plan(0, arrived)
        if runtime.has_first_step(plan):
            plan = runtime.with_pairs(plan, pairs_made(session, self.spec, plan, self.strategy))
        found = triples_of(session, self.spec, plan, self.strategy, self.match_schema)
        return self.shaped(found)
