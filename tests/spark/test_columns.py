"""Files that are read as columns and written as columns: the same rows as by Spark, to the last."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.engine.reading import ReadTask
from skewless.errors import ArgumentError
from skewless.spark import executor, followed
from skewless.spark.file_streams import file_stream
from tests.spark.query_kits import (
    A_WITH_B,
    FOUR_STREAMS,
    JOIN,
    JOIN_AGGREGATE,
    QueryKit,
    add_batches,
    close,
    joined,
)
from tests.spark.support import (
    FileStream,
    assert_same,
    duck,
    keyed_join,
    keyed_pair,
    multiset,
    read_parquet,
    run,
)

Steps = Callable[[DataFrame], DataFrame]


@pytest.fixture(params=["small", "apart"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small batches are worked on in the driver, or as large ones are."""
    monkeypatch.setattr(executor, "NEVER_HERE", request.param == "apart")
    return str(request.param)


def all_of(kit: QueryKit, streams: list[FileStream]) -> Any:
    add_batches(streams, 4)
    close(streams)
    return kit.expected(streams)


@pytest.mark.quick(4)
@pytest.mark.parametrize("kit", [JOIN, JOIN_AGGREGATE, FOUR_STREAMS], ids=lambda kit: kit.name)
def test_files_read_as_columns(
    spark: SparkSession, tmp_path: Path, kit: QueryKit, where: str
) -> None:
    expected = all_of(kit, kit.sources(tmp_path))
    out = kit.run_all(spark, tmp_path, "Chaos", columns=True)
    assert_same(read_parquet(out), expected)


def test_who_reads_may_change(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint goes on, whoever has read its files so far."""
    streams = JOIN.sources(tmp_path)
    for columns in (False, True, False):
        add_batches(streams, 2)
        JOIN.run_all(spark, tmp_path, "Hash", columns)
    close(streams)
    assert_same(read_parquet(JOIN.run_all(spark, tmp_path, "Hash", True)), JOIN.expected(streams))
    assert len(sk.history(str(tmp_path / "checkpoint"))) == 7


def test_progress_counts_rows(
    spark: SparkSession, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the plan of a batch tells its files or a job does: in the last batch one stream has
    none, and then nobody but a job knows whose the others are."""
    left, right = keyed_pair(tmp_path, batches=3)
    left.add(left.tables[-1])
    asked = []
    files_of = executor.files_of

    def noted(*arguments: Any) -> Any:
        asked.append(files_of(*arguments))
        return asked[-1]

    monkeypatch.setattr(executor, "files_of", noted)
    pairs = keyed_join(left.read_columns(spark), right.read_columns(spark))
    writer = pairs.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.start()
    query.processAllAvailable()
    told = [[source["numInputRows"] for source in p["sources"]] for p in query.recentProgress]
    query.stop()
    rows = [[t.num_rows for t in stream.tables] for stream in (left, right)]
    assert told == [list(batch) for batch in zip_longest(*rows, fillvalue=0)]
    assert [found is not None for found in asked] == [True, True, True, False]


def test_plans_that_do_not_tell_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark's plans are called inside may change: then a job tells the files."""
    expected = all_of(JOIN, JOIN.sources(tmp_path))
    monkeypatch.setattr(followed, "SCAN", "SomethingElse")
    assert_same(read_parquet(JOIN.run_all(spark, tmp_path, "Hash", columns=True)), expected)


def test_a_stream_with_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Its files are followed once, whoever reads them."""
    left, _ = keyed_pair(tmp_path, batches=4)
    expected = None
    for name, read in (("rows", FileStream.read), ("columns", FileStream.read_columns)):
        frame = read(left, spark)
        pairs = sk.join(frame, frame, "k", time="at", within="4 seconds", late="10 seconds")
        found = read_parquet(run(pairs, tmp_path / name))
        expected = found if expected is None else expected
        assert_same(found, expected)
        assert len(list((tmp_path / name / "checkpoint" / "sources").iterdir())) == 1
    assert expected is not None and expected.total() > 100


def test_through_the_shuffle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On remote stores rows go on as packets."""
    monkeypatch.setenv("SKEWLESS_EXCHANGE", "always")
    expected = all_of(JOIN, JOIN.sources(tmp_path))
    assert_same(read_parquet(JOIN.run_all(spark, tmp_path, "Hash", columns=True)), expected)


def test_one_side_is_read_by_spark(spark: SparkSession, tmp_path: Path, where: str) -> None:
    streams = JOIN.sources(tmp_path)
    expected = all_of(JOIN, streams)
    frames = [streams[0].read(spark), streams[1].read_columns(spark)]
    out = run(joined(frames, {"strategy": sk.Hash(), "instances": 2}), tmp_path)
    assert_same(read_parquet(out), expected)


SHAPES: dict[str, tuple[Steps, str]] = {
    "renamed and moved": (
        lambda a: a.select("a_id", F.col("a_t").alias("a_t"), F.col("a_k").alias("a_k")),
        "SELECT a_id, a_t, a_k FROM a",
    ),
    "filtered": (
        lambda a: a.where("a_x < 21 AND a_id % 2 = 0"),
        "FROM a WHERE a_x < 21 AND a_id % 2 = 0",
    ),
    "computed": (
        lambda a: a.withColumn("twice", F.col("a_x") * 2).drop("a_x").filter("twice > 3"),
        "SELECT * FROM (SELECT * EXCLUDE (a_x), a_x * 2 AS twice FROM a) WHERE twice > 3",
    ),
    "with a watermark": (lambda a: a.withWatermark("a_t", "10 seconds").alias("x"), "FROM a"),
}  # fmt: skip


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_done_to_rows_before(spark: SparkSession, tmp_path: Path, name: str) -> None:
    steps, asks = SHAPES[name]
    streams = JOIN.sources(tmp_path)
    all_of(JOIN, streams)
    frame = steps(streams[0].read_columns(spark))
    assert file_stream(frame) is not None
    way = {"strategy": sk.Hash(), "instances": 2}
    out = run(joined([frame, streams[1].read_columns(spark)], way), tmp_path)
    connection = duck()
    for letter, stream in zip("ab", streams, strict=True):
        connection.register(letter, pa.concat_tables(stream.tables))
    query = A_WITH_B.replace("FROM a JOIN", f"FROM ({asks}) AS a JOIN")
    assert_same(read_parquet(out), multiset(connection.execute(query).fetchall()))


@pytest.mark.parametrize(
    "steps",
    [
        lambda frame: frame.withColumn("now", F.current_timestamp()),
        lambda frame: frame.withColumn("x", F.udf(lambda k: k, "bigint")("k")),
        lambda frame: frame.dropDuplicates(["k"]),
        lambda frame: frame.union(frame),
        lambda frame: frame.select("*", "_metadata.file_name"),
    ],
    ids=["now", "udf", "deduplicated", "union", "files"],
)
def test_what_only_spark_can_do(spark: SparkSession, tmp_path: Path, steps: Steps) -> None:
    left, _ = keyed_pair(tmp_path)
    assert file_stream(steps(left.read_columns(spark))) is None


def test_explain_tells_who_reads(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = keyed_pair(tmp_path)
    keyed_join(left.read_columns(spark), right.read(spark)).explain()
    told = capsys.readouterr().out
    assert "left: stream 0 (files, read as columns)\n" in told
    assert "right: stream 1\n" in told


def test_only_what_is_asked_for_is_read(spark: SparkSession, tmp_path: Path) -> None:
    left, _ = keyed_pair(tmp_path)
    frame = left.read_columns(spark).where("a > 3").select("k", "at")
    found = file_stream(frame)
    assert found is not None
    assert found.reading(None, (1,)).columns == (1, 2)  # type: ignore[arg-type]
    assert found.reading(None, (0, 1)).columns == (0, 1, 2)  # type: ignore[arg-type]
    assert file_stream(left.read(spark)) is None


def test_large_files_are_divided(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path)
    path = next(left.folder.glob("*.parquet"))
    found = file_stream(left.read_columns(spark))
    assert found is not None
    readings = {("join", "left"): found.reading(None, (0, 1, 2))}  # type: ignore[arg-type]
    files = {("join", "left"): [executor.FileRef(f"file:{path}", 64 << 20)]}
    shares = ReadTask.of(readings, files, 4).shares
    assert len(shares) == 4
    assert [split.begin for _, (split,) in shares] == [n * (16 << 20) for n in range(4)]
    del right


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["csv", "orc", "json"])
def test_other_formats(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """In folders that tell a column, as Spark wrote them."""
    left, right = keyed_pair(tmp_path)
    for stream in (left, right):
        rows = spark.read.parquet(str(stream.folder)).withColumn("odd", F.expr("k % 2 = 1"))
        writer = rows.coalesce(1).write.partitionBy("odd").format(name)
        writer.option("header", True).save(str(tmp_path / name / stream.folder.name))
    schemas = {"left": "k long, at timestamp, a long, odd boolean",
               "right": "k long, seen timestamp, b long, odd boolean"}  # fmt: skip
    frames = []
    for side, schema in schemas.items():
        reader = sk.readStream(spark).format(name).schema(schema)
        reader = reader.option("header", True) if name == "csv" else reader
        frames.append(reader.load(str(tmp_path / name / side)))
    assert all(file_stream(frame) is not None for frame in frames)
    out = run(keyed_join(*frames, condition="odd = odd_right").select("a", "b"), tmp_path)
    plain = run(keyed_join(left.read(spark), right.read(spark)), tmp_path / "plain")
    expected = spark.read.parquet(str(plain)).select("a", "b")
    assert_same(read_parquet(out), multiset(expected.collect()))


# Writing ----------------------------------------------------------------------------------------


def test_results_are_written_by_the_instances(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    """By partitions; with expressions of the last steps. What is little becomes one file."""
    left, right = (s.read(spark) for s in keyed_pair(tmp_path))
    result = keyed_join(left, right, instances=3).where("a % 5 <> 2")
    result = result.selectExpr("k", "at", "a + b AS both", "k % 2 AS `odd or even`")
    writer = result.writeStream.partitionBy("odd or even").format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    plain = run(keyed_join(left, right).where("a % 5 <> 2"), tmp_path / "plain")
    found = spark.read.parquet(str(tmp_path / "out")).select("k", "at", "both", "odd or even")
    again = spark.read.parquet(str(plain)).selectExpr("k", "at", "a + b", "k % 2")
    assert multiset(found.collect()) == multiset(again.collect())
    assert found.schema.simpleString() == result.schema.simpleString().replace(
        "odd or even:bigint", "odd or even:int"
    )
    files = [file.relative_to(tmp_path / "out") for file in (tmp_path / "out").rglob("*.parquet")]
    per_batch = {(str(file.parent), file.name[:18]) for file in files}
    assert len(per_batch) == len(files) == 6
    assert {_maker(tmp_path / "out" / file)[:11] for file in files} == {"parquet-cpp"}


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("name", "codec", "ending"),
    [
        ("json", "gzip", "json.gz"),
        ("parquet", "gzip", "gz.parquet"),
        ("csv", "gzip", "csv.gz"),
        ("orc", "zlib", "zlib.orc"),
    ],
)
def test_files_of_few_rows(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    codec: str,
    ending: str,
) -> None:
    left, right = (s.read(spark) for s in keyed_pair(tmp_path))
    writer = keyed_join(left, right, instances=1).writeStream.format(name)
    writer = writer.option("maxRecordsPerFile", 7).option("compression", codec)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with caplog.at_level(logging.INFO, "skewless"):
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert "Spark writes" not in caplog.text
    plain = run(keyed_join(left, right), tmp_path / "plain")
    files = [file for file in (tmp_path / "out").iterdir() if not file.name.startswith((".", "_"))]
    assert {file.name.partition(".")[2] for file in files} == {ending}
    schema = keyed_join(left, right).schema
    counts = [spark.read.format(name).schema(schema).load(str(file)).count() for file in files[:5]]
    assert max(counts) <= 7
    found = spark.read.format(name).schema(schema).load(str(tmp_path / "out"))
    assert multiset(found.collect()) == multiset(spark.read.parquet(str(plain)).collect())


def _maker(file: Path) -> str:
    return str(pq.ParquetFile(file).metadata.created_by)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("options", "said"),
    [({"parquet.block.size": "1048576"}, "parquet.block.size"), ({"compression": "lzo"}, "lzo")],
)
def test_what_is_left_to_spark(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    said: str,
) -> None:
    left, right = (s.read(spark) for s in keyed_pair(tmp_path))
    writer = keyed_join(left, right).writeStream.format("parquet").options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with caplog.at_level(logging.INFO, "skewless"):
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    assert said in caplog.text
    if "lzo" not in said:
        query.awaitTermination()
        makers = {_maker(file)[:10] for file in (tmp_path / "out").rglob("*.parquet")}
        assert makers == {"parquet-mr"}
    query.stop()


def test_values_that_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Arrow writes no parts of a second before 1970 to ORC, which only shows when they come. All
    rows are there once."""
    left, right = (s.read(spark) for s in keyed_pair(tmp_path, batches=2))
    moved = "{} - interval 60 years + interval 1 microsecond"
    joined = keyed_join(
        left.withColumn("at", F.expr(moved.format("at"))),
        right.withColumn("seen", F.expr(moved.format("seen"))),
        instances=3,
    )
    writer = joined.writeStream.format("orc").option("checkpointLocation", str(tmp_path / "c"))
    with caplog.at_level(logging.INFO, "skewless"):
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert "Spark writes the files of batch 0: times before 1970" in caplog.text
    plain = run(joined, tmp_path / "plain")
    found, expected = spark.read.orc(str(tmp_path / "out")), spark.read.parquet(str(plain))
    assert multiset(found.collect()) == multiset(expected.collect())
    assert found.count() > 20


def test_the_first_batch_shows_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path, batches=1, rows=4, keys=1)
    result = keyed_join(left.read(spark), right.read(spark)).where("a < 0")
    out = run(result, tmp_path)
    assert spark.read.parquet(str(out)).columns == result.columns
    assert read_parquet(out).total() == 0


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda s: sk.readStream(3), "`spark`"),
        (lambda s: sk.readStream(s).format("kafka"), "`format`.*parquet.*kafka"),
        (lambda s: sk.readStream(s).schema(3), "`schema`"),
        (lambda s: sk.readStream(s).schema("k long, at timestamp").load(), "`path`"),
        (lambda s: sk.readStream(s).schema("nonsense !!"), "`schema`"),
        (lambda s: sk.readStream(s).parquet("/tmp/x"), "`schema`"),
        (
            lambda s: sk.readStream(s).schema("k long").option("no.such", 1).parquet("/tmp/x"),
            "no.such",
        ),
    ],
)
def test_bad_arguments(spark: SparkSession, call: Callable[[Any], Any], match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        call(spark)
