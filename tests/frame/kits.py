"""All kits: one for every operator, and some for operators on one another. A new operator needs a
kit here; `test_frame.py` then runs everything on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import pyarrow as pa

from skewless.arrays.types import BandColumn
from skewless.engine.pipeline import Pipeline
from skewless.operators.aggregate.accumulators.named import NAMED
from skewless.operators.aggregate.operator import AggregateOperator
from skewless.operators.aggregate.spec import Aggregate, AggregateSpec
from skewless.operators.aggregate.windows import Window
from skewless.operators.asof.operator import AsofOperator
from skewless.operators.asof.spec import AsofSpec, Direction
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from skewless.operators.join_type import JOIN_TYPES
from skewless.operators.pair import JoinSpec
from skewless.operators.pair import OutputColumn as SideColumn
from skewless.operators.similarity.metrics import METRICS
from skewless.operators.similarity.operator import SimilarityOperator
from skewless.operators.similarity.spec import SimilaritySpec, VectorSide
from skewless.operators.similarity.strategies import (
    S3J,
    AutoSimilarity,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from skewless.operators.three_way.operator import ThreeWayOperator
from skewless.operators.three_way.spec import STREAMS, Edge, OutputColumn, Stream, ThreeSpec
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.balancing import Auto
from skewless.placement.grouping import BatchAware, Grouping, PdStream, ShuffleGrouping
from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.placement.strategy import PlacementStrategy
from tests.frame.kit import Kit, chained
from tests.frame.specs import WITHIN_S, join_spec, side_spec
from tests.frame.streams import LATE_S, SECOND_US, Rows, asked, schema_of
from tests.frame.streams import Stream as Arriving

WINDOW_S = 4
REPEATED_S = 2
NEAR = 1.0
Placed = tuple[PlacementStrategy, int]
PLACED: tuple[Placed, ...] = (
    (Hash(), 2),
    (ContRand(2), 4),
    (Auto(floor_ms=0, noise=0, patience=1), 3),
    (Broadcast(), 1),
)


def joined(left: JoinSpec | str, right: str, key: str, time: str) -> JoinSpec:
    """A stream, or the rows of a join, with another stream."""
    schema = left.output_schema() if isinstance(left, JoinSpec) else schema_of(left)
    return join_spec(
        side_spec(schema, [key], time),
        side_spec(schema_of(right), [f"{right}_k"], f"{right}_t"),
    )


def join(spec: JoinSpec, setup: Placed) -> JoinOperator:
    strategy, instances = setup
    return JoinOperator(spec, strategy, instances, slots=8)


def near(a: str, b: str) -> str:
    return f"{a}_k = {b}_k AND abs({a}_t - {b}_t) <= {WITHIN_S * SECOND_US}"


# One operator -----------------------------------------------------------------------------------

TWO_WAY = Kit(
    "join",
    ("a", "b"),
    PLACED,
    lambda setup: Pipeline.of(join(joined("a", "b", "a_k", "a_t"), setup)),
    lambda streams: asked(f"SELECT * FROM a JOIN b ON {near('a', 'b')}", streams),
)


def of_type(how: str) -> JoinSpec:
    """The streams a and b, joined otherwise."""
    spec, kind = joined("a", "b", "a_k", "a_t"), JOIN_TYPES[how]
    shown = tuple(column for column in spec.output if column.side in kind.shown)
    return replace(spec, how=kind, output=shown)


def join_kit(how: str, sql: str) -> Kit:
    return Kit(
        f"{how} join",
        ("a", "b"),
        PLACED,
        lambda setup: Pipeline.of(join(of_type(how), setup)),
        lambda streams: asked(f"SELECT * FROM a {sql} b ON {near('a', 'b')}", streams),
    )


def band_spec(how: str) -> JoinSpec:
    """The streams a and b, joined by key and by a value that is near."""
    spec = of_type(how)
    left, right = (
        replace(side, bands=(BandColumn(2, pa.float64(), NEAR),))
        for side in (spec.left, spec.right)
    )
    return replace(spec, left=left, right=right)


def band_kit(how: str, sql: str) -> Kit:
    return Kit(
        f"{how} band join",
        ("a", "b"),
        PLACED,
        lambda setup: Pipeline.of(join(band_spec(how), setup)),
        lambda streams: asked(
            f"SELECT * FROM a {sql} b ON {near('a', 'b')} AND abs(a_x - b_x) <= {NEAR}", streams
        ),
    )


def asof_spec(direction: Direction, how: str) -> AsofSpec:
    """The streams a and b, each row of a with the nearest of b."""
    pair = joined("a", "b", "a_k", "a_t")
    return AsofSpec.of(
        pair.left, pair.right, direction, WITHIN_S * SECOND_US, pair.output, how=JOIN_TYPES[how]
    )


def asof_join(spec: AsofSpec, setup: Placed) -> AsofOperator:
    strategy, instances = setup
    return AsofOperator(spec, strategy, instances, slots=8)


# DuckDB knows no order among rows of one time: of those of b, the greatest is chosen before. Nor
# does it know a tolerance: what is too far away is nothing.
ONE_B = (
    "(SELECT * FROM b QUALIFY row_number() OVER (PARTITION BY b_k, b_t "
    "ORDER BY b_x DESC NULLS LAST, b_id DESC) = 1) b"
)


def asof_sql(direction: Direction, how: str) -> str:
    ordered = {"backward": "a_t >= b_t", "forward": "a_t <= b_t"}[direction]
    near = (
        f"SELECT a_id AS i, b.* FROM a ASOF JOIN {ONE_B} ON a_k = b_k AND {ordered} "
        f"WHERE abs(a_t - b_t) <= {WITHIN_S * SECOND_US}"
    )
    return f"SELECT a.*, b.* EXCLUDE (i) FROM a {how} JOIN ({near}) b ON a_id = i"


def asof_kit(direction: Direction, how: str) -> Kit:
    return Kit(
        f"asof_join {direction}, {how}",
        ("a", "b"),
        PLACED,
        lambda setup: Pipeline.of(asof_join(asof_spec(direction, how), setup)),
        lambda streams: asked(asof_sql(direction, how), streams),
    )


def aggregation(schema: pa.Schema, key: str, time: str, value: str) -> AggregateSpec:
    taken = pa.schema([schema.field(name) for name in (key, time, value)])
    sums = NAMED["sum"]([taken.field(2).type])
    return AggregateSpec(
        side_spec(taken, [key], time),
        (Aggregate("n", NAMED["count"]([]), ()), Aggregate("total", sums, (2,))),
        Window(WINDOW_S * SECOND_US, WINDOW_S * SECOND_US),
    )


def aggregate(spec: AggregateSpec, setup: tuple[Grouping, int]) -> AggregateOperator:
    return AggregateOperator(spec, *setup, "append")


def windows_of(source: str, key: str, time: str, value: str) -> str:
    size = WINDOW_S * SECOND_US
    return (
        f"SELECT {time} // {size} * {size} AS w, {key}, count(*), sum({value}) FROM {source} "
        f"GROUP BY ALL"
    )


GROUPED: tuple[tuple[Grouping, int], ...] = (
    (BatchAware(), 2),
    (PdStream(expected="auto"), 3),
    (ShuffleGrouping(), 4),
)


def aggregated(setup: tuple[Grouping, int]) -> Pipeline:
    """The operator takes three of the four columns."""
    operator = aggregate(aggregation(schema_of("a"), "a_k", "a_t", "a_x"), setup)
    [node] = Pipeline.of(operator).nodes
    return Pipeline((type(node)(node.name, operator, (type(node.feeds[0])((0, 1, 2), stream=0),)),))


AGGREGATE = Kit(
    "aggregate",
    ("a",),
    GROUPED,
    aggregated,
    lambda streams: asked(windows_of("a", "a_k", "a_t", "a_x"), streams),
)


def three_spec() -> ThreeSpec:
    edges = tuple(
        Edge(a, b, join_spec(*(side_spec(schema_of("rst"[x]), [f"{'rst'[x]}_k"], f"{'rst'[x]}_t")
                               for x in (a, b))))
        for a, b in ((0, 1), (1, 2))
    )  # fmt: skip
    schemas = [schema_of(name) for name in "rst"]
    r, s, t = (Stream(schema, 1, LATE_S * SECOND_US) for schema in schemas)
    output = tuple(OutputColumn(x, i, n) for x in STREAMS for i, n in enumerate(schemas[x].names))
    return ThreeSpec((r, s, t), edges, output)


def three_way(strategy: ThreeStrategy) -> Kit:
    return Kit(
        f"join3 by {type(strategy).__name__}",
        ("r", "s", "t"),
        (2, 4, 1),  # a checkpoint goes on with the strategy it was begun with
        lambda instances: Pipeline.of(ThreeWayOperator(three_spec(), strategy, instances)),
        lambda streams: asked(
            f"SELECT * FROM r JOIN s ON {near('r', 's')} JOIN t ON {near('s', 't')}", streams
        ),
    )


def similar_spec() -> SimilaritySpec:
    left, right = (VectorSide(schema_of(name), (2,), 1, LATE_S * SECOND_US) for name in ("a", "b"))
    output = tuple(
        SideColumn(side, i, name)
        for side, of in (("left", left), ("right", right))
        for i, name in enumerate(of.schema.names)
    )
    within = WITHIN_S * SECOND_US
    return SimilaritySpec(left, right, METRICS["euclidean"], NEAR, -within, within, None, output)


ALIKE = (
    f"SELECT a.*, b.*, abs(a_x - b_x) AS distance FROM a JOIN b ON abs(a_x - b_x) <= {NEAR} "
    f"AND abs(a_t - b_t) <= {WITHIN_S * SECOND_US}"
)


def similarity(strategy: SimilarityStrategy) -> Kit:
    return Kit(
        f"similarity_join by {strategy!r}",
        ("a", "b"),
        (2, 3, 1),
        lambda instances: Pipeline.of(SimilarityOperator(similar_spec(), strategy, instances)),
        lambda streams: asked(ALIKE, streams),
    )


def similarity_alone(strategy: SimilarityStrategy) -> Kit:
    """Rows of one stream. Of two at one time either may come first, so only times are told."""
    output = (SideColumn("left", 1, "first_t"), SideColumn("right", 1, "then_t"))
    spec = replace(similar_spec(), right=None, output=output)
    return Kit(
        f"similarity_join of one stream by {strategy!r}",
        ("a",),
        (2, 3, 1),
        lambda instances: Pipeline.of(SimilarityOperator(spec, strategy, instances)),
        lambda streams: asked(
            "SELECT least(a.a_t, b.a_t), greatest(a.a_t, b.a_t), abs(a.a_x - b.a_x) FROM a JOIN a "
            f"AS b ON a.a_id < b.a_id AND abs(a.a_x - b.a_x) <= {NEAR} "
            f"AND abs(a.a_t - b.a_t) <= {WITHIN_S * SECOND_US}",
            streams,
        ),
    )


def first_of_each(streams: Sequence[Arriving]) -> Rows:
    """Row by row, in the order of time and arrival."""
    [stream] = streams
    numbers = stream.table().column("a_id").to_pylist()
    numbered = [(k, t, n, x) for n, (k, t, x) in zip(numbers, stream.rows[:-1], strict=False)]
    found = []
    for _, same in groupby(sorted(numbered), key=lambda row: row[0]):
        last = None
        for key, time, number, value in same:
            if last is None or time > last + REPEATED_S:
                found.append((key, time * SECOND_US, value, number))
                last = time
    return Counter(found)


def deduplicated(instances: int) -> Pipeline:
    side = side_spec(schema_of("a"), ["a_k"], "a_t", LATE_S)
    return Pipeline.of(
        DeduplicateOperator(DeduplicateSpec(side, REPEATED_S * SECOND_US), instances)
    )


DEDUPLICATE = Kit("deduplicate", ("a",), (2, 3, 1), deduplicated, first_of_each)

# Operators on one another -----------------------------------------------------------------------


def join_then_aggregate(setup: tuple[Placed, tuple[Grouping, int]]) -> Pipeline:
    spec = joined("a", "b", "a_k", "a_t")
    above = aggregation(spec.output_schema(), "a_k", "b_t", "a_x")
    return chained(join(spec, setup[0]), aggregate(above, setup[1]))


JOIN_AGGREGATE = Kit(
    "join → aggregate",
    ("a", "b"),
    tuple(zip(PLACED, GROUPED, strict=False)),
    join_then_aggregate,
    lambda streams: asked(
        windows_of(f"(SELECT * FROM a JOIN b ON {near('a', 'b')})", "a_k", "b_t", "a_x"), streams
    ),
)


def left_join_then_aggregate(setup: tuple[Placed, tuple[Grouping, int]]) -> Pipeline:
    spec = of_type("left")
    above = aggregation(spec.output_schema(), "b_k", "a_t", "a_x")
    return chained(join(spec, setup[0]), aggregate(above, setup[1]))


LEFT_JOIN_AGGREGATE = Kit(
    "left join → aggregate",
    ("a", "b"),
    tuple(zip(PLACED, GROUPED, strict=False)),
    left_join_then_aggregate,
    lambda streams: asked(
        windows_of(f"(SELECT * FROM a LEFT JOIN b ON {near('a', 'b')})", "b_k", "a_t", "a_x"),
        streams,
    ),
)


def asof_join_in_the_middle(setup: tuple[Placed, tuple[Grouping, int]]) -> Pipeline:
    """Below is an outer join, whose rows without a partner come late. Above, windows go by the time
    of c, which lies behind that of a, which lies behind the watermark."""
    below = of_type("left")
    left = side_spec(below.output_schema(), ["a_k"], "a_t")
    right = side_spec(schema_of("c"), ["c_k"], "c_t")
    output = join_spec(left, right).output
    asof = AsofSpec.of(left, right, "nearest", WITHIN_S * SECOND_US, output)
    above = aggregation(asof.output_schema(), "b_k", "c_t", "c_x")
    return chained(join(below, setup[0]), asof_join(asof, setup[0]), aggregate(above, setup[1]))


ASOF_JOIN_IN_THE_MIDDLE = Kit(
    "left join → asof_join → aggregate",
    ("a", "b", "c"),
    tuple(zip(PLACED, GROUPED, strict=False)),
    asof_join_in_the_middle,
    lambda streams: asked(
        "WITH ab AS (SELECT *, row_number() OVER () AS i FROM a LEFT JOIN b "
        f"ON {near('a', 'b')}), near AS (SELECT * FROM ab JOIN c ON a_k = c_k "
        f"AND abs(a_t - c_t) <= {WITHIN_S * SECOND_US} QUALIFY row_number() OVER (PARTITION BY i "
        "ORDER BY abs(a_t - c_t), c_t, c_x DESC NULLS LAST, c_id DESC) = 1) "
        + windows_of("near", "b_k", "c_t", "c_x"),
        streams,
    ),
)


def four_streams(setup: Placed) -> Pipeline:
    """The second join goes by the time of b, the third again by that of a."""
    first = joined("a", "b", "a_k", "a_t")
    second = joined(first, "c", "b_k", "b_t")
    third = joined(second, "d", "c_k", "a_t")
    return chained(join(first, setup), join(second, setup), join(third, setup))


FOUR_STREAMS = Kit(
    "join → join → join",
    ("a", "b", "c", "d"),
    PLACED,
    four_streams,
    lambda streams: asked(
        f"SELECT * FROM a JOIN b ON {near('a', 'b')} JOIN c ON {near('b', 'c')} JOIN d "
        f"ON c_k = d_k AND abs(a_t - d_t) <= {WITHIN_S * SECOND_US}",
        streams,
    ),
)


def similarity_then_join(setup: Placed) -> Pipeline:
    spec = similar_spec()
    left = side_spec(spec.output_schema(), ["b_k"], "a_t")
    right = side_spec(schema_of("c"), ["c_k"], "c_t")
    below = SimilarityOperator(spec, AutoSimilarity(), setup[1])
    return chained(below, join(join_spec(left, right), setup))


SIMILARITY_JOIN = Kit(
    "similarity_join → join",
    ("a", "b", "c"),
    PLACED,
    similarity_then_join,
    lambda streams: asked(
        f"SELECT * FROM ({ALIKE}) JOIN c ON b_k = c_k AND abs(a_t - c_t) <= {WITHIN_S * SECOND_US}",
        streams,
    ),
)

KITS = {
    kit.name: kit
    for kit in (
        TWO_WAY,
        join_kit("left", "LEFT JOIN"),
        join_kit("full", "FULL JOIN"),
        join_kit("left_semi", "SEMI JOIN"),
        join_kit("left_anti", "ANTI JOIN"),
        band_kit("inner", "JOIN"),
        band_kit("full", "FULL JOIN"),
        band_kit("left_semi", "SEMI JOIN"),
        asof_kit("forward", "left"),
        AGGREGATE,
        three_way(AutoThree()),
        three_way(TriJoin()),
        three_way(Tree()),
        similarity(AutoSimilarity()),
        similarity(S3J(tolerance=0.0, migration_cost=0.0)),
        similarity(S3J(partitions=4, tolerance=0.0)),
        similarity(ClusterJoin(3)),
        similarity_alone(S3J(partitions=2, tolerance=0.0, migration_cost=0.0)),
        similarity(BruteForce()),
        DEDUPLICATE,
        JOIN_AGGREGATE,
        LEFT_JOIN_AGGREGATE,
        ASOF_JOIN_IN_THE_MIDDLE,
        FOUR_STREAMS,
        SIMILARITY_JOIN,
    )
}
