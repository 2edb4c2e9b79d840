"""Deduplication of real streams: as Spark's own where both mean the same, as a plain loop says
elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.engine.pipeline import IngestTask
from skewless.errors import ArgumentError, CheckpointMismatchError, ColumnError
from skewless.spark import executor
from skewless.spark.exchange import ArrowFunction, ingest_function
from tests.spark.query_kits import firsts
from tests.spark.support import (
    TIMESTAMP,
    FileStream,
    Rows,
    assert_same,
    at,
    canonical,
    file_stream,
    finish,
    mixed,
    multiset,
    read_parquet,
    run,
)

SCHEMA = pa.schema(
    [
        ("word", pa.string()),
        ("number", pa.float64()),
        ("at", TIMESTAMP),
        ("id", pa.int64()),
    ]
)
WORDS = ("a", "a", "", None, "a\0", "ä")
NUMBERS = (0.0, -0.0, math.nan, 1.5, None)
FAR_S = 1_000_000

Row = tuple[Any, Any, float | None]  # word, number, seconds


def tables(batches: Sequence[Sequence[Row]]) -> list[pa.Table]:
    made, count = [], 0
    for rows in batches:
        columns = [
            [word for word, _, _ in rows],
            [number for _, number, _ in rows],
            [None if seconds is None else at(seconds) for _, _, seconds in rows],
            range(count, count + len(rows)),
        ]
        count += len(rows)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        made.append(pa.Table.from_arrays(arrays, schema=SCHEMA))
    return made


def stream_of(folder: Path, *batches: Sequence[Row]) -> FileStream:
    return file_stream(folder / "in", tables(batches))


def closing(seconds: float = FAR_S) -> list[Row]:
    """A row that tells that all others are past."""
    return [("the end", 0.0, seconds)]


def mixed_rows(batch: int, count: int = 60) -> list[Row]:
    """Rows of ten seconds in disorder, of few keys, some of which are null."""
    return [
        (WORDS[k % len(WORDS)], NUMBERS[k // len(WORDS)], seconds)
        for k, seconds in mixed(batch, count, len(WORDS) * len(NUMBERS), 3)
    ]


def expected_of(stream: FileStream, *by: str) -> Rows:
    """The first rows within six seconds, but for the one that closes the stream."""
    rows = [row for table in stream.tables[:-1] for row in table.to_pylist()]

    def key(row: dict[str, Any]) -> Any:
        return canonical([row[name] for name in by])

    return firsts(rows, key, "at")


def deduplicated(df: DataFrame, by: Any = ("word", "number"), **more: Any) -> sk.Deduplicated:
    settings: dict[str, Any] = {"time": "at", "within": "6 seconds", "late": "10 seconds"}
    by = list(by) if isinstance(by, tuple) else by
    return sk.deduplicate(df, by, **(settings | more))


# What comes out -----------------------------------------------------------------------------------


def test_spark_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Rows in order, all duplicates within the bound. Spark gives a row at once and forgets it when
    the watermark has passed it by the bound; here it comes when no earlier one can come."""
    batches = [
        [
            (f"{copy_of % 8 if copy_of % 5 else 'hot'}-{copy_of // 8}", 1.5, 10 * b + i / 10)
            for i, copy_of in enumerate(8 * b + n // 3 for n in range(90))
        ]
        for b in range(4)
    ]
    stream = stream_of(tmp_path, *batches, closing())
    native = stream.read(spark).withWatermark("at", "30 seconds")
    native = native.dropDuplicatesWithinWatermark(["word"])
    writer = native.writeStream.format("parquet").option("path", str(tmp_path / "native"))
    writer = writer.option("checkpointLocation", str(tmp_path / "native-checkpoint"))
    finish(writer.trigger(availableNow=True).start())
    expected = read_parquet(tmp_path / "native") - multiset(
        row.values() for row in stream.tables[-1].to_pylist()
    )
    assert 30 < expected.total() < 100

    bounds = {"within": "30 seconds", "late": "30 seconds"}
    out = run(deduplicated(stream.read(spark), "word", **bounds), tmp_path / "ours")
    assert_same(read_parquet(out), expected)


@pytest.mark.quick(1)
@pytest.mark.usefixtures("early_compaction")
@pytest.mark.parametrize("by", [(), ("word",), ("number",), ("word", "number")], ids=" ".join)
def test_keys(spark: SparkSession, tmp_path: Path, by: tuple[str, ...]) -> None:
    """Nulls, NaN and zeros of either sign are keys as in `dropDuplicates`."""
    stream = stream_of(tmp_path, *(mixed_rows(b) for b in range(4)), closing())
    out = run(deduplicated(stream.read(spark), by, instances=3), tmp_path)
    expected = expected_of(stream, *by)
    assert expected.total() >= 5
    assert_same(read_parquet(out), expected)


def ingest_badly(task: IngestTask, *, packets: bool) -> ArrowFunction:
    """Two hashes for all keys. The function goes to the workers as it is."""
    ingest = ingest_function(task, packets=packets)

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np

        from skewless.operators.deduplicate import operator

        hash_well = operator.hash_groups  # type: ignore[attr-defined]
        operator.hash_groups = lambda *given: hash_well(*given) & np.uint64(1)  # type: ignore
        try:
            yield from ingest(batches)
        finally:
            operator.hash_groups = hash_well  # type: ignore[attr-defined]

    return function


def test_colliding_keys(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "ingest_function", ingest_badly)
    stream = stream_of(tmp_path, *(mixed_rows(b) for b in range(3)), closing())
    out = run(deduplicated(stream.read(spark)), tmp_path)
    assert_same(read_parquet(out), expected_of(stream, "word", "number"))


@pytest.mark.slow
def test_a_hot_key(spark: SparkSession, tmp_path: Path) -> None:
    """Almost all rows are of one key, and it is no more work than others."""
    batches = [
        [("hot" if i % 50 else f"k{i % 7}", 1.0, 10 * b + i / 2000) for i in range(20_000)]
        for b in range(3)
    ]
    stream = stream_of(tmp_path, *batches, closing())
    out = run(deduplicated(stream.read(spark), "word"), tmp_path)
    assert_same(read_parquet(out), expected_of(stream, "word"))
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert reports[1].heavy_keys[0].value == "hot"
    assert sum(report.matches for report in reports) == read_parquet(out).total() < 60
    assert [report.rows for report in reports[:3]] == [{"input": 20_000}] * 3


def test_late_rows_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """A row is late when it is older than the watermark before its batch; one that is just as old
    is not."""
    stream = stream_of(
        tmp_path,
        [("a", 0.0, 100), ("b", 0.0, 101)],
        [("c", 0.0, 90.9), ("c", 0.0, 91), ("a", 0.0, 95), ("a", 0.0, 50)],
        closing(),
    )
    out = run(deduplicated(stream.read(spark), "word"), tmp_path)
    assert {(row[0], row[3]) for row in read_parquet(out)} == {("c", 3), ("a", 4), ("b", 1)}
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert [report.late for report in reports] == [0, 2, 0]
    assert [report.dropped for report in reports] == [{}, {"late": 2}, {}]


def test_ties_go_to_whichever_came_first(spark: SparkSession, tmp_path: Path) -> None:
    same = [("a", 0.0, 100.0)] * 3
    stream = stream_of(tmp_path, same, [*same, ("b", 1.0, 100.0)], same, closing())
    out = run(deduplicated(stream.read(spark), "word", instances=3), tmp_path)
    assert {(row[0], row[3]) for row in read_parquet(out)} == {("a", 0), ("b", 6)}


@pytest.mark.slow
@pytest.mark.usefixtures("early_compaction")
def test_restart_with_other_instances(spark: SparkSession, tmp_path: Path) -> None:
    everything = tables([*(mixed_rows(b) for b in range(6)), closing()])
    stream = file_stream(tmp_path / "in", everything[:2])
    for instances, more in ((3, everything[2:4]), (1, everything[4:]), (4, [])):
        out = run(deduplicated(stream.read(spark), instances=instances), tmp_path)
        stream.add(*more)
    assert_same(read_parquet(out), expected_of(stream, "word", "number"))
    instances_told = [len(r.instances) for r in sk.history(str(tmp_path / "checkpoint"))]
    assert instances_told == [3, 3, 1, 1, 4, 4, 4]


def test_restart_with_another_bound(spark: SparkSession, tmp_path: Path) -> None:
    stream = stream_of(tmp_path, mixed_rows(0))
    run(deduplicated(stream.read(spark)), tmp_path)
    with pytest.raises(CheckpointMismatchError, match=r"within.*6 seconds.*7 seconds"):
        run(deduplicated(stream.read(spark), within="7 seconds"), tmp_path)
    with pytest.raises(CheckpointMismatchError, match="by"):
        run(deduplicated(stream.read(spark), "word"), tmp_path)


def test_static_input(spark: SparkSession, tmp_path: Path) -> None:
    """To the end: no row has to close it."""
    stream = stream_of(tmp_path, *(mixed_rows(b) for b in range(3)), [])
    found = deduplicated(stream.read_static(spark)).dataframe(str(tmp_path / "work"))
    assert found.columns == SCHEMA.names
    assert_same(multiset(found.collect()), expected_of(stream, "word", "number"))


def test_rows_without_time(spark: SparkSession, tmp_path: Path) -> None:
    stream = stream_of(tmp_path, [("a", 0.0, None), ("b", 0.0, 1), ("c", 0.0, None)], closing())
    with pytest.raises(StreamingQueryException, match="2 rows of the input without event time"):
        run(deduplicated(stream.read(spark), "word"), tmp_path / "stopped")
    out = run(deduplicated(stream.read(spark), "word", on_null_time="drop"), tmp_path)
    assert {row[0] for row in read_parquet(out)} == {"b"}
    assert [r.dropped for r in sk.history(str(tmp_path / "checkpoint"))] == [{"null times": 2}, {}]


# What is refused ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return stream_of(tmp_path_factory.mktemp("stream"), closing()).read(spark)


BAD: dict[str, tuple[dict[str, Any], type[Exception], tuple[str, ...]]] = {
    "by unknown": ({"by": "words"}, ColumnError, ("by", "words", "word, number, at, id")),
    "by number": ({"by": 3}, ArgumentError, ("by", "3")),
    "by None": ({"by": None}, ArgumentError, ("by", "None")),
    "by twice": ({"by": ["word", "WORD"]}, ArgumentError, ("by", "WORD")),
    "no time": ({"time": None}, ArgumentError, ("time", "the event-time column")),
    "time unknown": ({"time": "when"}, ColumnError, ("time", "when", "a column of `df`")),
    "time no time": ({"time": "id"}, ColumnError, ("time", "id (bigint)", "timestamp")),
    "within": ({"within": "soon"}, ArgumentError, ("within", "soon")),
    "within negative": ({"within": "-1 second"}, ArgumentError, ("within", "-1 second")),
    "unbounded": ({"within": sk.UNBOUNDED}, ArgumentError, ("within",)),
    "late": ({"late": "-1 second"}, ArgumentError, ("late", "-1 second")),
    "late of two": ({"late": ("1 second", "2 seconds")}, ArgumentError, ("late", "2 seconds")),
    "instances": ({"instances": 0}, ArgumentError, ("instances", "0", "from 1 to 65536")),
    "null times": ({"on_null_time": "keep"}, ArgumentError, ("on_null_time", "keep", "'drop'")),
}


@pytest.mark.parametrize(("changed", "kind", "told"), BAD.values(), ids=list(BAD))
def test_bad_arguments(
    frame: DataFrame, changed: dict[str, Any], kind: type[Exception], told: tuple[str, ...]
) -> None:
    with pytest.raises(kind) as caught:
        deduplicated(frame, **({"by": "word"} | changed))
    for part in told:
        assert part in str(caught.value)


def test_what_is_no_dataframe(frame: DataFrame) -> None:
    with pytest.raises(ArgumentError, match=r"df.*DataFrame, or the result of another operator"):
        deduplicated([1, 2], "word")  # type: ignore[arg-type]


def test_output_modes(frame: DataFrame) -> None:
    deduplicated(frame).writeStream.outputMode("update")
    with pytest.raises(ArgumentError, match="'append' or 'update'"):
        deduplicated(frame).writeStream.outputMode("complete")
