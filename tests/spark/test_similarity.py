"""`sk.similarity_join` on real streams, compared with every pair taken one at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from tests.operators.similarity.oracle import Answer, Pair, Question, answers
from tests.spark.support import (
    SECOND_US,
    TIMESTAMP,
    FileStream,
    at,
    file_stream,
    finish,
    mixed,
    read_parquet,
    run,
)

COMPARED = {
    "v": pa.list_(pa.float64()),
    "f": pa.list_(pa.float32()),
    "i": pa.list_(pa.int32()),
    "tags": pa.list_(pa.int64()),
    "lat": pa.float64(),
    "lon": pa.float32(),
}
LEFT = pa.schema([("a", pa.int64()), ("at", TIMESTAMP), *COMPARED.items()])
RIGHT = pa.schema([("b", pa.int64()), ("seen", TIMESTAMP), *COMPARED.items()])
WITHIN_S, LATE_S = 4, 10
Streams = tuple[FileStream, FileStream]


def table(side: str, rows: Iterable[dict[str, Any]]) -> pa.Table:
    schema = {"left": LEFT, "right": RIGHT}[side]
    number, time = schema.names[:2]
    made = [{**row, number: row["n"], time: row["at"]} for row in rows]
    return pa.Table.from_pylist(made, schema)


def some_rows(side: str, batch: int, count: int = 24) -> list[dict[str, Any]]:
    """Rows of ten seconds, all of whose values are alike in small groups. Numbers are quarters:
    their sums and differences are exact."""
    chance = random.Random(f"{side} {batch}")
    rows = []
    for i, (_, seconds) in enumerate(mixed(batch, count, 4, len(side))):
        center = chance.choice([[0, 0, 2], [5, -5, 1], [-9, 3, 8]])
        vector = [c + chance.randrange(-4, 5) / 4 for c in center]
        rows.append(
            {
                "n": 1000 * batch + i, "at": at(seconds), "v": vector, "f": vector,
                "i": [round(x) for x in vector],
                "tags": [chance.randrange(7) for _ in range(chance.randrange(5))],
                "lat": 52.5 + chance.randrange(60) / 4096,
                "lon": 13.25 + chance.randrange(60) / 4096,
            }
        )  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Streams:
    folder = tmp_path_factory.mktemp("similarity")
    left, right = (
        file_stream(folder / side, [table(side, some_rows(side, b)) for b in range(3)])
        for side in ("left", "right")
    )
    return left, right


def similar(frames: Sequence[DataFrame], **more: Any) -> sk.Similar:
    settings: dict[str, Any] = {"on": "v", "threshold": 1.0, "left_time": "at", "instances": 3}
    if "window" not in more:
        settings["within"] = f"{WITHIN_S} seconds"
    if len(frames) == 2:
        settings["right_time"] = "seen"
    if frames[0].isStreaming:
        settings["late"] = f"{LATE_S} seconds"
    return sk.similarity_join(*frames, **(settings | more))


def microseconds(moment: datetime) -> int:
    return round((moment - at(0)).total_seconds() * SECOND_US)


def answers_of(
    tables: Sequence[Sequence[pa.Table]],
    metric: str = "euclidean",
    threshold: float = 1.0,
    on: str | Sequence[str] = "v",
    window_s: int | None = None,
) -> list[Answer]:
    """By nested loops, for tables of [left, right] or [left], batch by batch."""
    window = None if window_s is None else window_s * SECOND_US
    bound, late = WITHIN_S * SECOND_US, LATE_S * SECOND_US
    question = Question(metric, threshold, (-bound, bound), window, (late, late), len(tables) == 1)
    batches = []
    for parts in zip(*tables, strict=True):
        sides = []
        for part in parts:
            number, time = part.column_names[:2]
            rows = [
                (r[number], microseconds(r[time]), r[on] if isinstance(on, str)
                 else [r[name] for name in on])
                for r in part.to_pylist()
            ]  # fmt: skip
            sides.append(rows)
        batches.append(sides)
    return answers(question, batches)


def assert_right(
    found: Iterable[Pair], expected: Sequence[Answer], *, alone: bool = False, least: int = 20
) -> None:
    """Every pair once, none that should not be there, and enough of them to tell."""
    pairs = [(min(p), max(p)) if alone else p for p in found]
    assert len(pairs) == len(set(pairs)), "a pair came twice"
    certain = set().union(*(answer.certain for answer in expected))
    assert len(certain) >= least
    assert certain <= set(pairs) <= set().union(*(answer.possible for answer in expected))


def pairs_in(out: Path) -> list[Pair]:
    return [(a, b) for a, b in read_parquet(out).elements()]


def history(folder: Path) -> sk.History:
    return sk.history(str(folder / "checkpoint"))


# Streams ---------------------------------------------------------------------------------------

STRATEGIES = ("auto", sk.S3J(), sk.ClusterJoin(partitions=4), sk.BruteForce())


@pytest.mark.quick(2)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_every_strategy_gives_the_same_pairs(
    spark: SparkSession, tmp_path: Path, streams: Streams, strategy: Any
) -> None:
    joined = similar([stream.read(spark) for stream in streams], strategy=strategy)
    columns = ["a", "at", *(f"{c}_left" for c in COMPARED), "b", "seen"]
    assert joined.columns == [*columns, *(f"{c}_right" for c in COMPARED), "distance"]
    out = run(joined, tmp_path)
    rows = spark.read.parquet(str(out)).select("a", "b", "v_left", "v_right", "distance").collect()
    expected = answers_of([stream.tables for stream in streams])
    assert_right([(r.a, r.b) for r in rows], expected)
    for row in rows:
        apart = np.linalg.norm(np.subtract(row.v_left, row.v_right))
        assert row.distance == pytest.approx(apart, rel=1e-12)
    reports = history(tmp_path)
    assert sum(r.matches for r in reports) == len(rows)
    assert [(r.rows_left, r.rows_right, r.late) for r in reports] == [(24, 24, 0)] * 3
    assert [list(report.phases_ms) for report in reports] == phases_by(strategy)
    for report in reports:
        counted = report.comparisons
        assert counted["compared"] + counted["inner"] >= report.matches
        assert counted["inner"] == 0 or isinstance(strategy, sk.S3J | str)
    compared = sum(r.comparisons["compared"] + r.comparisons["inner"] for r in reports)
    in_time = pairs_in_time([stream.tables for stream in streams])
    if isinstance(strategy, sk.BruteForce | str):  # "auto" compares so few rows with all
        assert compared == in_time
    else:
        assert len(rows) <= compared < 0.9 * in_time


def phases_by(strategy: Any) -> list[list[str]]:
    """What is done in three batches: where the space is divided, that is done with the first."""
    first = ["partition"] if isinstance(strategy, sk.S3J | sk.ClusterJoin) else []
    form = ["form"] if isinstance(strategy, sk.S3J) else []
    rest = [*form, "join and write"]
    return [["ingest", "plan", *first, *rest]] + [["ingest", "plan", *rest]] * 2


def pairs_in_time(tables: Sequence[Sequence[pa.Table]]) -> int:
    times = [[t for part in parts for t in part.column(1).to_pylist()] for parts in tables]
    apart = [abs((a - b).total_seconds()) <= WITHIN_S for a in times[0] for b in times[1]]
    return sum(apart)


def own_metric() -> Callable[[Any, Any], Any]:
    """A user's function: Spark carries it to the workers by value."""

    def city_block(a: Any, b: Any) -> Any:
        return np.abs(a - b).sum(axis=1)

    return city_block


# metric: (what is compared, threshold, the oracle's name of the metric)
METRICS: dict[str, tuple[Any, float, str]] = {
    "euclidean": ("v", 1.1, "euclidean"),
    "angular": ("v", 0.1, "angular"),
    "haversine": (["lat", "lon"], 400, "haversine"),
    "jaccard": ("tags", 0.5, "jaccard"),
    "isolated": ("v", 1.25, "manhattan"),
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("metric", METRICS)
def test_a_stream_with_itself(
    spark: SparkSession, tmp_path: Path, streams: Streams, metric: str
) -> None:
    on, threshold, name = METRICS[metric]
    measure = own_metric() if metric == "isolated" else metric
    joined = similar([streams[0].read(spark)], on=on, threshold=threshold, metric=measure,
                     check_metric=True)  # fmt: skip
    out = run(joined.select("a_left", "a_right"), tmp_path)
    expected = answers_of([streams[0].tables], name, threshold, on)
    found = pairs_in(out)
    assert_right(found, expected, alone=True)
    times = {r["a"]: r["at"] for t in streams[0].tables for r in t.to_pylist()}
    assert all(times[a] <= times[b] for a, b in found), "the earlier row comes first"


@pytest.mark.quick(1)
@pytest.mark.parametrize("metric", ["angular", "haversine", "jaccard", "isolated"])
def test_two_streams(spark: SparkSession, tmp_path: Path, streams: Streams, metric: str) -> None:
    """With steps behind: where is of the pair and its distance."""
    on, threshold, name = METRICS[metric]
    measure = own_metric() if metric == "isolated" else metric
    frames = [stream.read(spark) for stream in streams]
    joined = similar(frames, on=on, threshold=2 * threshold, metric=measure, where="a > 2")
    far = joined.where(F.col("distance") <= threshold)
    shaped = far.select("a", F.col("b").alias("second"))
    assert shaped.columns == ["a", "second"]
    out = run(shaped, tmp_path)
    expected = [
        Answer(*(frozenset(p for p in pairs if p[0] > 2) for pairs in (e.certain, e.possible)), 0)
        for e in answers_of([stream.tables for stream in streams], name, threshold, on)
    ]
    assert_right(pairs_in(out), expected)
    assert sum(r.matches for r in history(tmp_path)) > len(pairs_in(out))


@pytest.mark.parametrize("alone", [True, False], ids=["one stream", "two streams"])
def test_windows_and_foreach_batch(
    spark: SparkSession, tmp_path: Path, streams: Streams, alone: bool
) -> None:
    """Batches may be read twice or not at all: state does not depend on it."""
    taken: dict[int, list[Pair]] = {}
    names = ("a_left", "a_right") if alone else ("a", "b")

    def take(rows: DataFrame, batch_id: int) -> None:
        if batch_id:
            taken[batch_id] = [(r[0], r[1]) for r in rows.select(*names).collect()]
            assert rows.count() == len(taken[batch_id])

    used = streams[:1] if alone else streams
    joined = similar([stream.read(spark) for stream in used], window="7 seconds")
    writer = joined.writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(availableNow=True).start())
    # Windows begin at the epoch; the beginning of time here is in the midst of one.
    first = int(at(0).timestamp()) % 7
    assert first > 0
    shifted = [[in_windows(t, first) for t in stream.tables] for stream in used]
    expected = answers_of(shifted, window_s=7)
    assert sorted(taken) == [1, 2]
    for number, pairs in taken.items():
        assert_right(pairs, expected[number : number + 1], alone=alone, least=5)
    assert [r.matches for r in history(tmp_path)][1:] == [len(taken[1]), len(taken[2])]


def in_windows(part: pa.Table, seconds: int) -> pa.Table:
    """Rows with times as they are counted from the begin of a window."""
    moved = [t + (at(seconds) - at(0)) for t in part.column(1).to_pylist()]
    return part.set_column(1, part.field(1), pa.array(moved, TIMESTAMP))


@pytest.mark.slow
@pytest.mark.usefixtures("early_compaction")
def test_restarts_with_other_instances(spark: SparkSession, tmp_path: Path) -> None:
    made = [[table(side, some_rows(side, b)) for b in range(4)] for side in ("left", "right")]
    streams = [file_stream(tmp_path / side, tables[:2])
               for side, tables in zip(("left", "right"), made, strict=True)]  # fmt: skip
    for instances, strategy in ((4, sk.S3J(partitions=3)), (1, sk.S3J(partitions=3, seed=1))):
        if instances == 1:
            for stream, tables in zip(streams, made, strict=True):
                stream.add(*tables[2:])
        frames = [stream.read(spark) for stream in streams]
        joined = similar(frames, strategy=strategy, instances=instances)
        out = run(joined.select("a", "b"), tmp_path)
        assert len(history(tmp_path)[-1].instances) == instances
    assert_right(pairs_in(out), answers_of(made))


# Static inputs ---------------------------------------------------------------------------------


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("on", "metric", "threshold"),
    [
        ("f", "manhattan", 1.25),
        ("i", "hamming", 0.34),
        (["lat", "lon"], "euclidean", 0.004),
        (("f", "v"), "euclidean", 1.1),
    ],
    ids=["array<float>", "array<int>", "two columns", "two names"],
)
def test_static_inputs(
    spark: SparkSession, streams: Streams, on: Any, metric: str, threshold: float
) -> None:
    frames = [stream.read_static(spark) for stream in streams]
    joined = similar(frames, on=on, metric=metric, threshold=threshold, suffixes=("_l", ""))
    found = joined.where("distance >= 0").toDF()
    assert found.columns == joined.columns
    assert found.columns[2] == "v_l"
    whole = [[pa.concat_tables(stream.tables)] for stream in streams]
    name = on[0] if isinstance(on, tuple) else on
    expected = answers_of(whole, metric, threshold, name)
    assert_right([(r.a, r.b) for r in found.collect()], expected)


def test_static_input_with_itself(spark: SparkSession, streams: Streams) -> None:
    joined = similar([streams[0].read_static(spark)], on="tags", metric="jaccard", threshold=0.6)
    whole = [[pa.concat_tables(streams[0].tables)]]
    expected = answers_of(whole, "jaccard", 0.6, "tags")
    assert_right([(r.a_left, r.a_right) for r in joined.toDF().collect()], expected, alone=True)


# Rows that cannot be compared ------------------------------------------------------------------


def vectors(side: str, rows: Iterable[tuple[float | None, Any]], first: int = 0) -> pa.Table:
    return table(
        side,
        [{"n": first + i, "at": None if t is None else at(t), "v": v}
         for i, (t, v) in enumerate(rows)],
    )  # fmt: skip


NAN, INF = float("nan"), float("inf")


def test_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    left = [vectors("left", [(0, [1, 0]), (1, [NAN, 0]), (1, None), (2, [1, 2, 3]), (2, [0, 0])]),
            vectors("left", [(3, [1, 1]), (3, [None, 1]), (3, [1]), (3, [])], 10)]  # fmt: skip
    right = [vectors("right", [(0, [2, 0]), (1, [INF, 0]), (1, None)]),
             vectors("right", [(3, [3, 0]), (3, [0, 1])], 10)]  # fmt: skip
    streams = [file_stream(tmp_path / "left", left), file_stream(tmp_path / "right", right)]
    frames = [stream.read(spark) for stream in streams]
    wanted: dict[str, Any] = {"metric": "angular", "threshold": 0.2}
    told = r"3 rows of the left input cannot be compared by .*angular.* \(v\): a number that is"
    with pytest.raises(StreamingQueryException, match=told) as stopped:
        run(similar(frames, **wanted), tmp_path)
    assert 'on_bad="drop"' in str(stopped.value)
    assert len(history(tmp_path)) == 0
    out = run(similar(frames, on_bad="drop", **wanted).select("a", "b"), tmp_path)
    assert sorted(pairs_in(out)) == [(0, 0), (0, 10)]
    first, second = history(tmp_path)
    assert (first.rows_left, first.rows_right) == (5, 3)
    assert (first.null_keys, first.nan_bands, first.matches) == (2, 4, 1)
    assert (second.null_keys, second.nan_bands, second.matches) == (0, 3, 1)


def test_vectors_of_another_dimension(spark: SparkSession, tmp_path: Path) -> None:
    stream = file_stream(
        tmp_path / "left", [vectors("left", [(0, [1, 0]), (0, [1, 0, 0]), (0, [1, 0, 1])])]
    )
    frames = [stream.read(spark)]
    with pytest.raises(StreamingQueryException, match="2 rows of the left input cannot be comp"):
        run(similar(frames), tmp_path)
    joined = similar(frames, dimension=3, on_bad="drop").select("a_left", "a_right", "distance")
    out = run(joined, tmp_path)
    assert list(read_parquet(out)) == [(1, 2, 1.0)]
    assert history(tmp_path)[0].nan_bands == 1


def test_rows_without_event_time(spark: SparkSession, tmp_path: Path) -> None:
    stream = file_stream(tmp_path / "left", [vectors("left", [(0, [1]), (None, [1]), (1, [1])])])
    frames = [stream.read(spark)]
    told = r"1 row of the left input without event time \(column 'at' is null\)"
    with pytest.raises(StreamingQueryException, match=told):
        run(similar(frames), tmp_path)
    out = run(similar(frames, on_null_time="drop").select("a_left", "a_right"), tmp_path)
    assert pairs_in(out) == [(0, 2)]
    assert (history(tmp_path)[0].null_times, history(tmp_path)[0].matches) == (1, 1)


def test_a_function_that_is_no_metric(spark: SparkSession, tmp_path: Path) -> None:
    def squared(a: Any, b: Any) -> Any:
        return ((a - b) ** 2).sum(axis=1)

    rows = [(0, [x / 2, 0]) for x in range(12)]
    stream = file_stream(tmp_path / "left", [vectors("left", rows)])
    frames = [stream.read(spark)]
    with pytest.raises(StreamingQueryException, match="squared is no metric: the way over"):
        run(similar(frames, metric=squared, check_metric=True), tmp_path)


# What a query tells ----------------------------------------------------------------------------


@pytest.mark.slow
def test_history(spark: SparkSession, tmp_path: Path) -> None:
    """Sixty places of unequal rows, which no four instances share evenly from the first; then rows
    that are too late."""
    tables = []
    for batch in range(3):
        places = [p for p in range(60) for _ in range(2 + p % 5)]
        rows = [(20 * batch + i / 40, [100 * p, i % 4 / 4]) for i, p in enumerate(places)]
        late = [(5, [0, 0]), (20, [0, 0]), (39, [0, 0])] if batch == 2 else []
        tables.append(vectors("left", [*rows, *late], 1000 * batch))
    stream = file_stream(tmp_path / "left", tables)
    strategy = sk.S3J(tolerance=0.0, migration_cost=0.0)
    joined = similar([stream.read(spark)], strategy=strategy, instances=4, late="5 seconds")
    run(joined, tmp_path)
    reports = history(tmp_path)
    # 240 rows of six seconds: the watermark of the last batch is 25.975 - 5 seconds.
    assert [r.late for r in reports] == [0, 0, 2]
    assert [r.rows_left for r in reports] == [240, 240, 243]
    assert [r.rows_right for r in reports] == [0, 0, 0]
    decisions = [d for r in reports for d in r.decisions]
    assert decisions
    for decision in decisions:
        assert (decision.kind, decision.accepted) == ("move", True)
        assert decision.subject.startswith("workset ")
        assert decision.source != decision.target
        assert "pairs there, where the mean is" in decision.reason
    for report in reports:
        assert len(report.instances) == 4
        assert report.comparisons["probes"] >= 240
        met = sum(load.pairs for load in report.instances)
        assert report.comparisons["compared"] + report.comparisons["inner"] == met
        assert report.comparisons["inner"] > 0
        assert report.matches == sum(load.matches for load in report.instances)
    told = reports.toDF(spark).select("counters").collect()[0][0]
    assert told == reports[0].counters
    assert told.items() >= (reports[0].comparisons | {"matches": reports[0].matches}).items()
    assert min(told["memberships"], told["sent"]) >= 240, "every row is at home somewhere"
