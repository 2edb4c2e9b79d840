"""`sk.join3`: from arguments to a three-way join that can be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skewless.arrays.types import BandColumn, KeyColumn
from skewless.conditions import Band, Comparison, Equal
from skewless.errors import ArgumentError
from skewless.operators.naming import merged_keys, named_columns
from skewless.operators.pair import JoinSpec
from skewless.operators.three_way.operator import ThreeWayOperator
from skewless.operators.three_way.spec import (
    NAMES,
    Edge,
    OutputColumn,
    Stream,
    ThreeSpec,
)
from skewless.operators.three_way.strategies import ThreeStrategy
from skewless.spark.arguments import columns
from skewless.spark.arguments.clock_rules import parse_clock_rules
from skewless.spark.arguments.kinds import (
    Auto,
    Condition,
    ErrorOrDrop,
    Late,
    Name,
    Source,
    Time,
    Within,
)
from skewless.spark.arguments.naming import struct_of
from skewless.spark.arguments.times import (
    ANY_TIMES,
    BOUND_FORMS,
    check_null_times,
    parse_bounds,
    parse_lates,
    parse_times,
)
from skewless.spark.result import RowsResult, sizes
from skewless.strategies import choose_strategy

SUFFIXES = ("_r", "_s", "_t")
PER_PAIR = f'{BOUND_FORMS}; or one per pair, such as {{"rs": "1 minute", "st": "5 minutes"}}'
ON_FORM = (
    'conditions between two inputs each, such as [sk.equal("r.k", "s.k"), sk.band("s.x", "t.x", 5)]'
)
Pair = tuple[int, int]  # two streams, the lower number first
Linked = tuple[int, int, columns.Condition]
Compared = tuple[list[KeyColumn], list[KeyColumn], list[BandColumn], list[BandColumn]]


def join3(
    r: Source,
    s: Source,
    t: Source,
    on: Sequence[Comparison],
    *,
    time: Time | None = None,
    times: Sequence[Name] | None = None,
    within: Within | Mapping[str, Within],
    late: Late | None = None,
    idle_after: Late | None = None,
    max_ahead: Late | None = None,
    where: Condition | None = None,
    strategy: ThreeStrategy | Auto | None = None,
    instances: int | Auto = "auto",
    suffixes: Sequence[str] = SUFFIXES,
    on_null_time: ErrorOrDrop = "error",
) -> Joined3:
    """Join three streams (or three static DataFrames) at once.

    Parameters
    ----------
    r, s, t
        Three streaming DataFrames from any source, or three static ones; or results of other
        operators, which are then part of the same query.
    on
        A list of ``sk.equal("r.a", "s.a")`` (with ``null_safe=True`` a null equals a null) and
        ``sk.band("s.b", "t.b", 5)``, whose columns begin
        with the input they are of. The inputs must hang together: conditions between two pairs make
        a chain, between all three a cycle. A pair may have several conditions.
    time
        The event-time column: one name for all inputs, or one for each. Where it is left out, that
        of the input's ``withWatermark``. ``within=sk.UNBOUNDED`` needs none.
    times
        Another name of `time`.
    within
        How far the times of two rows that have a condition may be apart: ``"1 minute"``, or
        ``(lower, upper)`` for the later input's time minus the earlier's, or one per pair,
        ``{"rs": "1 minute", "st": ("0 seconds", "5 minutes")}``. Longer keeps more state;
        ``sk.UNBOUNDED``, for all or for a pair: any times; the state then grows for ever, unless
        two other pairs are bounded.
    late
        How far a row may lie behind the latest of its input, ``"1 minute"`` or one per input.
        Later rows are dropped and counted. Default: the delay of the input's ``withWatermark``, or
        else "0 seconds"; and where `within` lets the state grow for ever: no row is late. In a
        result nothing is late.
    idle_after, max_ahead
        As for `sk.join`: one duration, or one per input.
    where
        A further SQL condition over the output columns.
    strategy
        How it is done; the result is the same. ``"auto"`` looks for partners along the way that has
        shown the fewest candidates, without broadcasting a row or keeping intermediate results;
        ``sk.TriJoin()`` keeps every pair, packed, until its third row comes; ``sk.Tree()`` joins
        two inputs first. A checkpoint goes on with what it was begun with.
    instances
        How many tasks work on a batch. ``"auto"``: as many as it needs, and as the executors have
        cores at the time.
    suffixes
        Added to the names of columns that several inputs have. Columns that are joined by equality
        under one name appear once.
    on_null_time
        ``"error"`` stops the query at a row without event time, ``"drop"`` drops and counts it.

    >>> deals = sk.join3(streamers, purchases, users,
    ...                  on=[sk.equal("r.stream", "s.stream"), sk.equal("s.user", "t.user")],
    ...                  time=("live_at", "bought_at", "seen_at"), within="1 minute")
    ... # doctest: +SKIP
    """
    drop_null_times = check_null_times(on_null_time)
    inputs = columns.inputs_of(r=r, s=s, t=t)
    conditions = _parse_on(inputs, on)
    _refuse_other_shapes(conditions)
    named = named_columns(inputs, suffixes, SUFFIXES, merged_keys(conditions))
    output = tuple(OutputColumn(c.input, c.index, c.name) for c in named)
    bounds = _parse_within(within, sorted({(a, b) for a, b, _ in conditions}))
    bounded = sum(bound != ANY_TIMES for bound in bounds.values())
    when = parse_times(inputs, time, {"times": times}, unbounded=not bounded)
    # Two bounded pairs bound all three times. With fewer of them nothing expires.
    lates = parse_lates(late, inputs, when, unbounded=bounded < 2)
    rules = parse_clock_rules(idle_after, max_ahead, inputs, when)
    # Before the streams are described: keys may need columns that Spark casts.
    compared = _compared(inputs, conditions)
    streams = (
        Stream(inputs[0].plain_schema, when[0], lates[0]),
        Stream(inputs[1].plain_schema, when[1], lates[1]),
        Stream(inputs[2].plain_schema, when[2], lates[2]),
    )
    edges = _edges(inputs, compared, streams, bounds)
    spec = ThreeSpec(streams, edges, output, drop_null_times)
    chosen = _parse_strategy(strategy, spec)
    count = sizes(instances=instances)["instances"]

    def place(spec: ThreeSpec, cores: int) -> ThreeWayOperator:
        return ThreeWayOperator(spec, chosen, count or cores, elastic=count is None)

    taken = tuple(this.every_column for this in inputs)
    sources = tuple(this.source for this in inputs)
    emitted = struct_of(inputs, named)
    joined = Joined3(sources, taken, emitted, spec=spec, place=place, rules=rules, named=named)
    return joined if where is None else joined.where(where)


def _parse_on(inputs: list[columns.Input], on: object) -> list[Linked]:
    items = on if isinstance(on, list | tuple) else [on]
    found: list[Linked] = []
    for item in items:
        if not isinstance(item, Equal | Band):
            raise ArgumentError("on", on, ON_FORM)
        (a, left), (b, right) = _column(inputs, item.left), _column(inputs, item.right)
        if a == b:
            accepted = f"a condition between two inputs; this one is on {NAMES[a]} alone"
            raise ArgumentError("on", item, accepted)
        if a > b:
            a, b, left, right = b, a, right, left
        found.append((a, b, replace(item, left=left, right=right)))
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


def _refuse_other_shapes(conditions: list[Linked]) -> None:
    if len({(a, b) for a, b, _ in conditions}) < 2:
        accepted = (
            "conditions that link all three inputs, as a chain (two pairs) or a cycle (three "
            f"pairs). Understood was:\n{drawing(conditions)}\n"
        )
        raise ArgumentError("on", [_written(c) for c in conditions], accepted)


def drawing(conditions: Sequence[Linked]) -> str:
    """What joins which inputs, one line per pair."""
    lines = []
    for a, b in ((0, 1), (1, 2), (0, 2)):
        mine = [_written(c) for c in conditions if (c[0], c[1]) == (a, b)]
        link = f"── {' and '.join(mine)} ──" if mine else "   (no condition)   "
        lines.append(f"    {NAMES[a]} {link} {NAMES[b]}")
    return "\n".join(lines)


def _written(condition: Linked) -> str:
    a, b, pair = condition
    if isinstance(pair, Band):
        return f"|{NAMES[a]}.{pair.left} - {NAMES[b]}.{pair.right}| <= {pair.width}"
    sign = "<=>" if pair.null_safe else "="
    return f"{NAMES[a]}.{pair.left} {sign} {NAMES[b]}.{pair.right}"


def _compared(inputs: list[columns.Input], conditions: list[Linked]) -> dict[Pair, Compared]:
    """The columns that the conditions of each pair compare."""
    return {
        (a, b): columns.resolve_keys(
            inputs[a], inputs[b], [c for x, y, c in conditions if (x, y) == (a, b)]
        )
        for a, b in sorted({(a, b) for a, b, _ in conditions})
    }


def _edges(
    inputs: list[columns.Input],
    compared: Mapping[Pair, Compared],
    streams: Sequence[Stream],
    bounds: Mapping[Pair, tuple[int, int]],
) -> tuple[Edge, ...]:
    edges = []
    for (a, b), bound in bounds.items():
        keys_a, keys_b, bands_a, bands_b = compared[a, b]
        left, right = (
            columns.side_spec(inputs[x], keys, bands, streams[x].time, streams[x].late_us)
            for x, keys, bands in ((a, keys_a, bands_a), (b, keys_b, bands_b))
        )
        edges.append(Edge(a, b, JoinSpec(left, right, *bound, ())))
    return tuple(edges)


def _parse_within(
    within: object, pairs: list[tuple[int, int]]
) -> dict[tuple[int, int], tuple[int, int]]:
    if not isinstance(within, Mapping):
        bound = parse_bounds(within, PER_PAIR)
        return dict.fromkeys(pairs, bound)
    names = {f"{NAMES[a]}{NAMES[b]}": (a, b) for a, b in pairs}
    given = {"".join(map(str, key)) if isinstance(key, tuple) else key: value
             for key, value in within.items()}  # fmt: skip
    if set(given) != set(names):
        accepted = f"one bound for each pair that has a condition: {', '.join(sorted(names))}"
        raise ArgumentError("within", within, accepted)
    return {pair: parse_bounds(given[name], BOUND_FORMS) for name, pair in names.items()}


def _parse_strategy(strategy: object, spec: ThreeSpec) -> ThreeStrategy:
    chosen: ThreeStrategy = choose_strategy("join3", strategy)
    chosen.check(spec)
    return chosen


@dataclass(frozen=True, eq=False, repr=False)
class Joined3(RowsResult[ThreeSpec]):
    """A three-way join that is described but not running: write it with `writeStream`, or, when the
    inputs are static, take the result with `dataframe`."""

    def __str__(self) -> str:
        """The inputs, and what joins them."""
        lines = []
        for edge in self.spec.edges:
            two = edge.pair.fingerprint()
            lines.append(f"{NAMES[edge.a]} ── {two['left keys']} with {two['right keys']}, "
                         f"{two['within']} ── {NAMES[edge.b]}")  # fmt: skip
        return "\n".join(lines)
