"""All queries that the tests of kills and of composed queries run: a stream each for every letter,
how the query is built, in which ways it can work, and what must come of it. A query that is added
to `KITS` is killed everywhere without another line.

A `way` is how a query works, a strategy or a number of instances; a process that takes over may
work in another way than the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.operators.similarity.strategies import SimilarityStrategy
from skewless.operators.three_way.strategies import ThreeStrategy
from skewless.spark.arguments.kinds import Auto
from skewless.spark.result import Result
from tests.chaos import Chaos
from tests.spark.support import (
    TIMESTAMP,
    FileStream,
    Rows,
    at,
    bound,
    duck,
    mixed,
    multiset,
    run,
)

WITHIN_S, LATE_S, FAR_S = 6, 10, 10_000_000
WITHIN, LATE = f"{WITHIN_S} seconds", f"{LATE_S} seconds"
ROWS, KEYS = 18, 5
THRESHOLD = 1.6
SIZE_S, SLIDE_S = 20, 10

Frames = Sequence[DataFrame]


# Streams ------------------------------------------------------------------------------------------


def schema_of(name: str) -> pa.Schema:
    """The columns of a stream; its name is part of theirs."""
    return pa.schema(
        [
            (f"{name}_k", pa.int64()),
            (f"{name}_t", TIMESTAMP),
            (f"{name}_x", pa.float64()),
            (f"{name}_y", pa.float64()),
            (f"{name}_id", pa.int64()),
        ]
    )


def table_of(name: str, batch: int) -> pa.Table:
    """A batch of ten seconds: few keys, one of them hot; places around which rows lie, in whole
    numbers; times in disorder, but no row is late."""
    salt = 1 + ord(name) - ord("a")
    rows = [
        (1 if i % 3 == 0 else k, at(t), 20.0 * (k % 3) + i % 3, float(i // 3 % 2), 1000 * batch + i)
        for i, (k, t) in enumerate(mixed(batch, ROWS, KEYS, salt))
    ]
    return _table(name, rows)


def closing_table(name: str) -> pa.Table:
    """One row that matches nothing: it only tells that all others are past."""
    return _table(name, [(None, at(FAR_S), 1000.0 * ord(name), 0.0, -1)])


def rows_at(name: str, seconds: float, count: int) -> pa.Table:
    """Rows of one moment. An oracle does not see them, nor those that close streams."""
    return _table(name, [(1, at(seconds), 0.0, 0.0, -1) for _ in range(count)])


def _table(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema_of(name), strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema_of(name))


# A query ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QueryKit:
    """A query over some streams. `asks` is what DuckDB is asked about all their rows, or a plain
    loop over them. More than `more_than` rows must come of six batches."""

    name: str
    streams: str
    ways: Mapping[str, Any]
    build: Callable[[Frames, Any], Result]
    asks: str | Callable[[Sequence[FileStream]], Rows]
    more_than: int = 100
    decides: bool = False
    """Whether it moves work about between batches."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those of its session."""

    def sources(self, folder: Path) -> list[FileStream]:
        """The streams, without any files yet."""
        return [FileStream(folder / name, schema_of(name)) for name in self.streams]

    def result(
        self,
        session: SparkSession,
        folder: Path,
        way: str,
        read: Callable[[FileStream, SparkSession], DataFrame] = FileStream.read,
    ) -> Result:
        if self.settings:
            session = session.newSession()
            for name, value in self.settings.items():
                session.conf.set(name, value)
        frames = [read(source, session) for source in self.sources(folder)]
        return self.build(frames, self.ways[way])

    def run_all(
        self, session: SparkSession, folder: Path, way: str, columns: bool = False, **options: Any
    ) -> Path:
        """Work on all files there are, which may be read as columns; the folder of the results."""
        read = FileStream.read_columns if columns else FileStream.read
        result = self.result(session, folder, way, read)
        return run(result, folder, **options)  # type: ignore[arg-type]

    def expected(self, streams: Sequence[FileStream]) -> Rows:
        """What must come of all rows but those that close the streams."""
        if callable(self.asks):
            return self.asks(streams)
        connection = duck()
        for name, stream in zip(self.streams, streams, strict=True):
            connection.register(f"all_{name}", pa.concat_tables(stream.tables))
            connection.execute(f"CREATE VIEW {name} AS FROM all_{name} WHERE {name}_id >= 0")
        return multiset(connection.execute(self.asks).fetchall())


def add_batches(streams: Sequence[FileStream], count: int) -> None:
    """So many more batches of every stream."""
    for stream in streams:
        first = len(stream.tables)
        stream.add(*(table_of(stream.folder.name, b) for b in range(first, first + count)))


def close(streams: Sequence[FileStream]) -> None:
    """The last batch of every stream."""
    for stream in streams:
        stream.add(closing_table(stream.folder.name))


# One operator -------------------------------------------------------------------------------------

INSTANCES = {"three": 3, "one": 1, "two": 2}
# Placements change at random after every batch: kills come in the midst of decisions.
PLACED: dict[str, dict[str, Any]] = {
    "Chaos": {"strategy": Chaos(seed=5), "instances": 3},
    "Hash": {"strategy": sk.Hash(), "instances": 2},
    "ContRand": {"strategy": sk.ContRand(groups=2), "instances": 4},
    "another Chaos": {"strategy": Chaos(seed=1), "instances": 3},
}


def join(left: DataFrame | Result, right: DataFrame, on: tuple[str, str], time: str,
         way: Mapping[str, Any]) -> sk.Joined:  # fmt: skip
    """With a stream, whose name begins its columns' names."""
    times = (time, f"{on[1][0]}_t")
    return sk.join(left, right, [on], time=times, within=WITHIN, late=LATE, slots=8, **way)


# Some rows of either stream have no partner in the other then.
FEW_A = "a_id < 0 OR a_k <> 3"
FEW_B = "b_id < 0 OR b_k = 3 OR b_id % 7 = 1"


def few(frames: Frames) -> Frames:
    return [frame.where(kept) for frame, kept in zip(frames, (FEW_A, FEW_B), strict=True)]


def of_type(how: Any, sql: str, more_than: int) -> QueryKit:
    """Few rows of the streams a and b, joined otherwise."""

    def build(frames: Frames, way: Mapping[str, Any]) -> sk.Joined:
        return joined(few(frames), {**way, "how": how})

    shown = "a.*" if sql in ("SEMI", "ANTI") else "a.*, b.*"
    sides = f"(FROM a WHERE {FEW_A}) a {sql} JOIN (FROM b WHERE {FEW_B}) b"
    asks = f"SELECT {shown} FROM {sides} ON a_k = b_k AND {near('a_t', 'b_t')}"
    return QueryKit(f"{how} join", "ab", PLACED, build, asks, more_than, decides=True)


def joined(frames: Frames, way: Mapping[str, Any]) -> sk.Joined:
    """The streams a and b."""
    return join(frames[0], frames[1], ("a_k", "b_k"), "a_t", way)


def near(a: str, b: str) -> str:
    return bound(-WITHIN_S, WITHIN_S, a, b)


A_WITH_B = f"SELECT a.*, b.* FROM a JOIN b ON a_k = b_k AND {near('a_t', 'b_t')}"

JOIN = QueryKit("join", "ab", PLACED, joined, A_WITH_B, decides=True)


def asof(frames: Frames, way: Mapping[str, Any], **more: Any) -> sk.AsofJoined:
    """Rows of a, each with the nearest of few of b."""
    given = {"direction": "nearest", "how": "left", "tolerance": WITHIN} | more
    times = {"time": ("a_t", "b_t"), "late": LATE, "slots": 8}
    left, right = frames[0], frames[1].where(FEW_B)
    return sk.asof_join(left, right, [("a_k", "b_k")], **times, **given, **way)  # type: ignore[arg-type]


NEAREST_B = f"""
    SELECT a.*, b.* EXCLUDE (i) FROM a LEFT JOIN (
        SELECT a_id AS i, b.* FROM a JOIN b ON a_k = b_k AND {near("a_t", "b_t")} AND ({FEW_B})
        QUALIFY row_number() OVER (PARTITION BY a_id ORDER BY
            abs(epoch_us(a_t) - epoch_us(b_t)), b_t, b_x DESC, b_y DESC, b_id DESC) = 1
    ) b ON a_id = i
"""

ASOF_JOIN = QueryKit("asof_join", "ab", PLACED, asof, NEAREST_B, more_than=80, decides=True)


AGGS: dict[str, object] = {
    "n": "count",
    "total": ("sum", "a_id"),
    "middle": ("quantile", "a_id", 0.5),
    "different": ("approx_distinct", "a_id"),
}
GROUPED = {name: getattr(sk, name)() for name in ("PdStream", "BatchAware", "ShuffleGrouping")}


def aggregated(frames: Frames, way: Any) -> Result:
    window = (f"{SIZE_S} seconds", f"{SLIDE_S} seconds")
    result = sk.aggregate(
        frames[0], "a_k", AGGS, time="a_t", window=window, late=LATE, strategy=way, instances=3
    )
    return result.select("window.start", "a_k", *AGGS)


WINDOWS = f"""
    SELECT make_timestamptz(1000000 * {SLIDE_S} * (epoch_us(a_t) // 1000000 // {SLIDE_S} - back)),
           a_k, count(*), sum(a_id), quantile_disc(a_id, 0.5), count(DISTINCT a_id)
    FROM a, range({SIZE_S // SLIDE_S}) AS slid(back) GROUP BY ALL
"""

AGGREGATE = QueryKit("aggregate", "a", GROUPED, aggregated, WINDOWS, more_than=25)


def three_way(strategy: ThreeStrategy | Auto) -> QueryKit:
    """A checkpoint goes on with the strategy it was begun with."""

    def build(frames: Frames, way: int) -> Result:
        r, s, t = frames
        return sk.join3(
            r, s, t,
            on=[sk.equal("r.a_k", "s.b_k"), sk.equal("s.b_k", "t.c_k")],
            time=("a_t", "b_t", "c_t"),
            within=WITHIN,
            late=LATE,
            strategy=strategy,
            instances=way,
        )  # fmt: skip

    name = strategy if isinstance(strategy, str) else type(strategy).__name__
    asks = f"FROM ({A_WITH_B}) JOIN c ON b_k = c_k AND {near('b_t', 'c_t')}"
    return QueryKit(f"join3 by {name}", "abc", INSTANCES, build, asks, more_than=500)


ALIKE = f"""
    SELECT a.*, b.*, sqrt((a_x - b_x)**2 + (a_y - b_y)**2) AS distance
    FROM a JOIN b ON {near("a_t", "b_t")} AND (a_x - b_x)**2 + (a_y - b_y)**2 <= {THRESHOLD**2}
"""


def similar(frames: Frames, strategy: SimilarityStrategy | Auto, instances: int) -> sk.Similar:
    return sk.similarity_join(
        *frames[:2],
        on=(["a_x", "a_y"], ["b_x", "b_y"]),
        threshold=THRESHOLD,
        time=("a_t", "b_t"),
        within=WITHIN,
        late=LATE,
        strategy=strategy,
        instances=instances,
    )


def similarity(name: str, strategy: SimilarityStrategy | Auto, decides: bool = False) -> QueryKit:
    def build(frames: Frames, way: int) -> Result:
        return similar(frames, strategy, way)

    kit = f"similarity_join by {name}"
    return QueryKit(kit, "ab", INSTANCES, build, ALIKE, more_than=200, decides=decides)


def first_of_each(streams: Sequence[FileStream]) -> Rows:
    """Row by row, in the order of time and arrival."""
    rows = [row for table in streams[0].tables for row in table.to_pylist() if row["a_id"] >= 0]
    return firsts(rows, lambda row: row["a_k"], "a_t")


def firsts(rows: Sequence[dict[str, Any]], key: Callable[[Any], Any], time: str) -> Rows:
    """The rows that are no duplicates of an earlier one, which was none itself."""
    last: dict[Any, Any] = {}
    found = []
    for row in sorted(rows, key=lambda row: row[time]):
        before = last.get(key(row))
        if before is None or (row[time] - before).total_seconds() > WITHIN_S:
            last[key(row)] = row[time]
            found.append(row.values())
    return multiset(found)


def deduplicated(frames: Frames, way: int) -> Result:
    return sk.deduplicate(frames[0], "a_k", time="a_t", within=WITHIN, late=LATE, instances=way)


DEDUPLICATE = QueryKit("deduplicate", "a", INSTANCES, deduplicated, first_of_each, more_than=20)


# Operators on one another -------------------------------------------------------------------------


def join_then_aggregate(frames: Frames, way: Mapping[str, Any]) -> Result:
    """With steps of Catalyst in between."""
    pairs = joined(frames, way).where("a_id % 7 <> 3").withColumn("both", F.expr("a_x + b_x"))
    grouped = pairs.groupBy("a_k", time="b_t", window="10 seconds", instances=way["instances"])
    return grouped.agg(n="count", total=("sum", "both")).select("window.start", "a_k", "n", "total")


JOIN_AGGREGATE = QueryKit(
    "join → aggregate",
    "ab",
    PLACED,
    join_then_aggregate,
    f"SELECT time_bucket(INTERVAL 10 SECONDS, b_t), a_k, count(*), sum(a_x + b_x) "
    f"FROM ({A_WITH_B}) WHERE a_id % 7 <> 3 GROUP BY ALL",
    more_than=25,
    decides=True,
)


def four_streams(frames: Frames, way: Mapping[str, Any]) -> Result:
    """The second join takes the rows of the first as they are; what goes from the second to the
    third is shaped before. The second goes by the time of b, the third again by that of a."""
    first = joined(frames, way)
    second = join(first, frames[2], ("b_k", "c_k"), "b_t", way)
    narrow = second.selectExpr("c_k AS key", "a_t", "a_id", "b_id", "c_id").where("a_id <> b_id")
    return join(narrow, frames[3], ("key", "d_k"), "a_t", way).drop("d_x", "d_y")


FOUR_STREAMS = QueryKit(
    "join → join → join",
    "abcd",
    PLACED,
    four_streams,
    f"SELECT c_k, a_t, a_id, b_id, c_id, d_k, d_t, d_id FROM ({A_WITH_B}) JOIN c ON b_k = c_k AND "
    f"{near('b_t', 'c_t')} JOIN d ON c_k = d_k AND {near('a_t', 'd_t')} WHERE a_id <> b_id",
    more_than=1000,
    decides=True,
)


def similarity_then_join(frames: Frames, way: Mapping[str, Any]) -> Result:
    pairs = similar(frames, "auto", way["instances"]).withColumnRenamed("b_k", "key")
    pairs = pairs.where("distance > 0").select("key", "a_t", "a_id", "b_id", "distance")
    return join(pairs, frames[2], ("key", "c_k"), "a_t", way)


SIMILARITY_JOIN = QueryKit(
    "similarity_join → join",
    "abc",
    PLACED,
    similarity_then_join,
    f"SELECT b_k, a_t, a_id, b_id, distance, c.* FROM ({ALIKE}) JOIN c ON b_k = c_k "
    f"AND {near('a_t', 'c_t')} WHERE distance > 0",
    more_than=200,
    decides=True,
)


def aggregate_then_join(frames: Frames, way: Mapping[str, Any]) -> Result:
    """Each window meets the rows of b near its end."""
    totals = sk.aggregate(
        frames[0], "a_k", {"n": "count"}, time="a_t", window="10 seconds", late=LATE
    )
    ended = totals.withColumn("end", F.col("window.end")).drop("window")
    return join(ended, frames[1], ("a_k", "b_k"), "end", way)


AGGREGATE_JOIN = QueryKit(
    "aggregate → join",
    "ab",
    PLACED,
    aggregate_then_join,
    f"SELECT a_k, n, ended, b.* FROM (SELECT a_k, count(*) AS n, time_bucket(INTERVAL 10 SECONDS, "
    f"a_t) + INTERVAL 10 SECONDS AS ended FROM a GROUP BY ALL) JOIN b ON a_k = b_k AND "
    f"{near('ended', 'b_t')}",
    decides=True,
)


def deduplicate_then_join(frames: Frames, way: Mapping[str, Any]) -> Result:
    """The rows go as they are from the one to the other."""
    return join(deduplicated(frames, way["instances"]), frames[1], ("a_k", "b_k"), "a_t", way)


def firsts_with_b(streams: Sequence[FileStream]) -> Rows:
    first = [
        dict(zip(schema_of("a").names, row, strict=True)) for row in first_of_each(streams[:1])
    ]
    others = [row for table in streams[1].tables for row in table.to_pylist()]
    return multiset(
        [*a.values(), *b.values()]
        for a in first
        for b in others
        if a["a_k"] == b["b_k"]
        and abs(a["a_t"] - b["b_t"].replace(tzinfo=None)).total_seconds() <= WITHIN_S
    )


DEDUPLICATE_JOIN = QueryKit(
    "deduplicate → join",
    "ab",
    PLACED,
    deduplicate_then_join,
    firsts_with_b,
    more_than=50,
    decides=True,
)


def join_then_deduplicate(frames: Frames, way: Mapping[str, Any]) -> Result:
    """One pair of each row of a: the rows of one a are all of one time."""
    pairs = joined(frames, way).select("a_id", "a_t", "a_k")
    return sk.deduplicate(
        pairs, ["a_id", "a_k"], time="a_t", within=WITHIN, instances=way["instances"]
    )


JOIN_DEDUPLICATE = QueryKit(
    "join → deduplicate",
    "ab",
    PLACED,
    join_then_deduplicate,
    f"SELECT DISTINCT a_id, a_t, a_k FROM ({A_WITH_B})",
    more_than=50,
    decides=True,
)

# Behind stateful operators of Spark's own ---------------------------------------------------------

STORES = {
    name: {
        "spark.sql.streaming.stateStore.providerClass": (
            f"org.apache.spark.sql.execution.streaming.state.{provider}"
        ),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # batches are files
        "spark.sql.session.timeZone": "UTC",
    }
    for name, provider in (
        ("HDFS", "HDFSBackedStateStoreProvider"),
        ("RocksDB", "RocksDBStateStoreProvider"),
    )
}


def different_seconds(frames: Frames, way: Mapping[str, Any]) -> sk.Joined:
    """Spark's deduplication before a join."""
    a = frames[0].select("a_k", F.date_trunc("second", "a_t").alias("a_t"))
    different = a.withWatermark("a_t", LATE).dropDuplicates(["a_k", "a_t"])
    return joined([different, frames[1]], way)


DIFFERENT_SECONDS = f"""
    SELECT a.*, b.* FROM (SELECT DISTINCT a_k, date_trunc('second', a_t) AS a_t FROM a) AS a
    JOIN b ON a_k = b_k AND {near("a.a_t", "b_t")}
"""


def counted_windows(frames: Frames, way: Mapping[str, Any]) -> sk.Joined:
    """Spark's aggregation before a join."""
    windows = (
        frames[0]
        .withWatermark("a_t", LATE)
        .groupBy(F.window("a_t", f"{SLIDE_S} seconds"), "a_k")
        .agg(F.count("*").alias("n"))
        .select("a_k", F.col("window.start").alias("a_t"), "n")
    )
    return joined([windows, frames[1]], way)


# Spark emits a window in the batch after its watermark has passed it.
COUNTED_WINDOWS = f"""
    WITH rows_in AS (SELECT a_k, time_bucket(INTERVAL {SLIDE_S} seconds, a_t) AS start FROM a),
    windows AS (
        SELECT a_k, start AS a_t, count(*) AS n FROM rows_in
        WHERE epoch(start) <= (SELECT max(epoch(a_t)) FROM a) - {SLIDE_S + LATE_S} GROUP BY ALL
    )
    SELECT windows.*, b.* FROM windows JOIN b ON a_k = b_k AND {near("windows.a_t", "b_t")}
"""

BEHIND_SPARKS = tuple(
    QueryKit(f"Spark's {name} in {store} → join", "ab", PLACED, build, asks, 50, True, settings)
    for store, settings in STORES.items()
    for name, build, asks in (
        ("dropDuplicates", different_seconds, DIFFERENT_SECONDS),
        ("groupBy", counted_windows, COUNTED_WINDOWS),
    )
)

SINGLE = (
    JOIN,
    of_type("full", "FULL", 100),
    of_type("left_semi", "SEMI", 50),
    ASOF_JOIN,
    AGGREGATE,
    three_way(sk.TriJoin()),
    three_way(sk.Tree()),
    three_way("auto"),
    # Places change after every batch that was not perfectly even: kills come in the midst of moves.
    similarity("S3J", sk.S3J(partitions=1, tolerance=0.0, migration_cost=0.0), decides=True),
    similarity("ClusterJoin", sk.ClusterJoin(partitions=4)),
    similarity("auto", "auto"),
    DEDUPLICATE,
)
COMPOSED = (
    JOIN_AGGREGATE,
    FOUR_STREAMS,
    SIMILARITY_JOIN,
    AGGREGATE_JOIN,
    DEDUPLICATE_JOIN,
    JOIN_DEDUPLICATE,
)
KITS = {kit.name: kit for kit in (*SINGLE, *COMPOSED, *BEHIND_SPARKS)}
