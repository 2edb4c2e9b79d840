"""Where results go: every kind of sink, and what other readers find there."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import skewless as sk
from tests.spark.support import (
    FileStream,
    Rows,
    assert_same,
    duck,
    file_stream,
    finish,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    multiset,
    read_parquet,
    run,
)

Pair = tuple[FileStream, FileStream]


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return keyed_pair(tmp_path_factory.mktemp("streams"), batches=2)


@pytest.fixture(scope="module")
def expected(streams: Pair) -> Rows:
    return keyed_oracle(*streams)


@pytest.fixture
def joined(spark: SparkSession, streams: Pair) -> sk.Joined:
    left, right = streams
    return keyed_join(left.read(spark), right.read(spark))


def all_files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def numbers(rows: Rows) -> Rows:
    """The numbers of the joined rows, which every format keeps."""
    return multiset((row[2], row[4]) for row in rows.elements())


# File formats ----------------------------------------------------------------------------------


@pytest.mark.quick(2)
@pytest.mark.parametrize("file_format", ["parquet", "json", "csv", "orc"])
def test_file_formats(
    spark: SparkSession, tmp_path: Path, joined: sk.Joined, expected: Rows, file_format: str
) -> None:
    out = tmp_path / "out"
    writer = joined.writeStream.format(file_format).option("header", "true").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.queryName(f"to_{file_format}").trigger(availableNow=True).start(str(out))
    assert isinstance(query, StreamingQuery)
    assert query.name == f"to_{file_format}"
    finish(query)
    reader = spark.read.schema(joined.schema).option("header", "true")
    found = reader.format(file_format).load(str(out)).select("a", "b").collect()
    assert_same(multiset(found), numbers(expected))
    pattern = rf"batch-\d{{12}}-part-\S+\.{file_format}"
    assert all(re.fullmatch(pattern, name) for name in all_files(out)), all_files(out)


def test_output_is_for_any_reader(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    """Nothing hidden, nothing temporary, nothing that only Spark or skewless would skip."""
    out = run(joined, tmp_path, compression="zstd")
    assert all(name.endswith(".zstd.parquet") for name in all_files(out))
    assert_same(read_parquet(out), expected)
    table = ds.dataset(out, format="parquet").to_table()
    assert_same(
        multiset(zip(*(table[c].to_pylist() for c in "ab"), strict=True)), numbers(expected)
    )
    assert (tmp_path / "checkpoint" / "skewless" / "staged").is_dir()
    assert all_files(tmp_path / "checkpoint" / "skewless" / "staged") == []


def test_partitions(spark: SparkSession, tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    out = tmp_path / "out"
    writer = joined.writeStream.format("parquet").partitionBy("k")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(out)))
    assert {Path(name).parts[0] for name in all_files(out)} == {f"k={row[0]}" for row in expected}
    select = "SELECT k, a, b FROM read_parquet($1, hive_partitioning = true)"
    found = duck().execute(select, [str(out / "**" / "*.parquet")]).fetchall()
    assert_same(multiset(found), multiset((row[0], row[2], row[4]) for row in expected.elements()))
    assert spark.read.parquet(str(out)).count() == expected.total()


@pytest.mark.quick(1)
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_partitions_of_odd_values(spark: SparkSession, tmp_path: Path, prefix: str) -> None:
    """Values that cannot be the name of a folder as they are."""
    left, right = keyed_pair(tmp_path, batches=1, keys=3)
    names = "element_at(array('a/b', 'c:d %', 'e#f?=g'), cast(k + 1 as int)) name"
    joined = keyed_join(left.read(spark).selectExpr("*", names), right.read(spark))
    out = tmp_path / "out"
    writer = joined.writeStream.format("parquet").partitionBy("name")
    writer = writer.option("checkpointLocation", f"{prefix}{tmp_path / 'checkpoint'}")
    finish(writer.trigger(availableNow=True).start(f"{prefix}{out}"))
    assert {len(Path(name).parts) for name in all_files(out)} == {2}
    rows = spark.read.parquet(str(out)).select("k", "name").distinct().collect()
    assert {tuple(row) for row in rows} == {(0, "a/b"), (1, "c:d %"), (2, "e#f?=g")}


@pytest.mark.quick(1)
@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_odd_paths(tmp_path: Path, joined: sk.Joined, expected: Rows, prefix: str) -> None:
    """A path or URI is taken as Spark takes it: nothing in it is decoded or cut off."""
    folder = tmp_path / "ein Ordner, ä%20 + #1?"
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{prefix}{folder}/checkpoint")
    finish(writer.start(f"{prefix}{folder}/out"))
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert {path.name for path in folder.iterdir()} == {"checkpoint", "out"}
    assert {"skewless", "offsets"} <= {path.name for path in (folder / "checkpoint").iterdir()}
    assert_same(read_parquet(folder / "out"), expected)
    assert len(sk.history(f"{prefix}{folder}/checkpoint")) == 2


def test_relative_paths(
    tmp_path: Path, joined: sk.Joined, expected: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output folder is the one meant when the query was started."""
    monkeypatch.chdir(tmp_path)
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start("out")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    finish(query)
    assert all_files(tmp_path / "elsewhere") == []
    assert_same(read_parquet(tmp_path / "out"), expected)


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than the temporary folders'."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    folder = Path(tempfile.mkdtemp(prefix="skewless-test-", dir=memory))
    yield folder
    shutil.rmtree(folder)


def test_output_on_another_disk(
    tmp_path: Path, other_disk: Path, joined: sk.Joined, expected: Rows
) -> None:
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.start(str(other_disk / "out")))
    assert_same(read_parquet(other_disk / "out"), expected)
    assert all(name.endswith(".parquet") for name in all_files(other_disk))


@pytest.mark.parametrize(("checkpoint", "out"), [("ckpt", "ckpt/out"), ("out/ckpt", "out")])
def test_output_and_checkpoint_within_each_other(
    tmp_path: Path, joined: sk.Joined, expected: Rows, checkpoint: str, out: str
) -> None:
    for _ in range(2):
        writer = joined.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        finish(writer.start(str(tmp_path / out)))
    found = duckdb.sql(f"SELECT a, b FROM '{tmp_path / out}/*.parquet'").fetchall()
    assert multiset(found) == numbers(expected)


@pytest.mark.slow
def test_output_folder_that_cannot_be_written(
    spark: SparkSession, tmp_path: Path, joined: sk.Joined, expected: Rows
) -> None:
    """The query stops after its commit; once the way is free, the files are shown."""
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(Exception, match="cannot move the output file"):
        run(joined, tmp_path)
    (tmp_path / "out").unlink()
    assert_same(read_parquet(run(joined, tmp_path)), expected)


# Other sinks -----------------------------------------------------------------------------------


def test_memory(spark: SparkSession, joined: sk.Joined, expected: Rows) -> None:
    writer = joined.writeStream.format("memory").queryName("pairs").trigger(availableNow=True)
    finish(writer.start())
    view = spark.table("pairs")
    assert view.schema == joined.schema
    assert_same(multiset(r.values() for r in view.toArrow().to_pylist()), expected)


@pytest.mark.slow
def test_memory_without_rows(spark: SparkSession, joined: sk.Joined) -> None:
    writer = joined.where("a < 0").writeStream.format("memory").queryName("no_pairs")
    finish(writer.trigger(availableNow=True).start())
    assert spark.table("no_pairs").schema == joined.schema
    assert spark.table("no_pairs").count() == 0


def test_console(joined: sk.Joined, capsys: pytest.CaptureFixture[str]) -> None:
    writer = joined.select("a", "b").writeStream.format("console").option("numRows", 3)
    finish(writer.trigger(availableNow=True).start())
    shown = capsys.readouterr().out
    assert re.search(r"Batch: 0\n-+\n\+-+\+-+\+\n\|\s*a\|\s*b\|", shown)
    assert "Batch: 1" in shown
    assert "only showing top 3 rows" in shown


def test_noop(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    writer = joined.writeStream.format("noop").option("checkpointLocation", checkpoint)
    finish(writer.trigger(availableNow=True).start())
    assert sum(r.matches for r in sk.history(checkpoint)) == expected.total()


@pytest.mark.quick(1)
@pytest.mark.parametrize("file_format", [None, "json"])
def test_table(
    spark: SparkSession, tmp_path: Path, joined: sk.Joined, expected: Rows, file_format: str | None
) -> None:
    name = f"pairs_{file_format or 'default'}"
    writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    query = writer.toTable(name, format=file_format) if file_format else writer.toTable(name)
    finish(query)
    assert_same(multiset(spark.table(name).select("a", "b").collect()), numbers(expected))
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
    assert described["Provider"].lower() == (file_format or "parquet")


def test_default_format(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(tmp_path / "out")))
    assert_same(read_parquet(tmp_path / "out"), expected)


def test_settings_given_to_start(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    writer = joined.writeStream.trigger(availableNow=True)
    query = writer.start(
        str(tmp_path / "out"),
        format="parquet",
        outputMode="append",
        partitionBy=["k"],
        queryName="by_start",
        checkpointLocation=str(tmp_path / "checkpoint"),
    )
    assert query.name == "by_start"
    finish(query)
    assert {name[:2] for name in all_files(tmp_path / "out")} == {"k="}
    assert_same(
        multiset(duck().execute(f"SELECT a, b FROM '{tmp_path}/out/**/*.parquet'").fetchall()),
        numbers(expected),
    )


def test_settings_left_open_in_start(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    """None stands for not given, as in PySpark."""
    writer = joined.writeStream.trigger(availableNow=True)
    query = writer.start(
        str(tmp_path / "out"),
        format=None,
        outputMode=None,
        partitionBy=None,
        queryName=None,
        checkpointLocation=str(tmp_path / "checkpoint"),
    )
    finish(query)
    assert_same(read_parquet(tmp_path / "out"), expected)


def test_checkpoint_location_of_the_session(
    spark: SparkSession, tmp_path: Path, streams: Pair, expected: Rows
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    joined = keyed_join(streams[0].read(session), streams[1].read(session))
    writer = joined.writeStream.format("parquet").queryName("mine").trigger(availableNow=True)
    finish(writer.start(str(tmp_path / "out")))
    assert_same(read_parquet(tmp_path / "out"), expected)
    assert len(sk.history(str(tmp_path / "all" / "mine"))) == 2


# foreachBatch ----------------------------------------------------------------------------------


def run_foreach_batch(joined: sk.Joined, tmp_path: Path, function: Any, **options: Any) -> None:
    writer = joined.writeStream.foreachBatch(function).options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(availableNow=True).start())


def test_foreach_batch(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    """A function may read the rows of a batch as often as it likes."""
    taken: dict[int, Rows] = {}
    counted: dict[int, int] = {}

    def take(rows: DataFrame, batch_id: int) -> None:
        counted[batch_id] = rows.count()
        taken[batch_id] = multiset(r.values() for r in rows.toArrow().to_pylist())

    run_foreach_batch(joined, tmp_path, take)
    assert list(taken) == [0, 1]
    assert counted == {batch: rows.total() for batch, rows in taken.items()}
    assert_same(taken[0] + taken[1], expected)


@pytest.mark.usefixtures("early_compaction")
def test_foreach_batch_that_takes_little(spark: SparkSession, tmp_path: Path) -> None:
    """What a function does not read is not lost to the state: later batches still join with it."""
    left, right = keyed_pair(tmp_path, batches=6, rows=30)
    joined = keyed_join(
        left.read(spark), right.read(spark), within="25 seconds", late="60 seconds", instances=3
    )
    taken: dict[int, Rows] = {}

    def take(rows: DataFrame, batch_id: int) -> None:
        if batch_id % 3 == 1:
            return
        if batch_id % 3 == 2:
            rows.take(1)
            return
        taken[batch_id] = multiset(r.values() for r in rows.toArrow().to_pylist())

    run_foreach_batch(joined, tmp_path, take)
    last = len(taken) and max(taken)
    assert list(taken) == [0, 3]
    before = [FileStream(s.folder, s.schema, s.tables[:last]) for s in (left, right)]
    after = [FileStream(s.folder, s.schema, s.tables[: last + 1]) for s in (left, right)]
    assert_same(taken[last], keyed_oracle(*after, 25) - keyed_oracle(*before, 25))


def test_foreach_batch_that_fails_once(
    spark: SparkSession, tmp_path: Path, joined: sk.Joined, expected: Rows
) -> None:
    """The batch comes again, under the same id and with the same rows."""
    seen: list[tuple[int, Rows]] = []

    def take(rows: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, multiset(r.values() for r in rows.toArrow().to_pylist())))
        if len(seen) == 2:
            raise RuntimeError("the cellar is full of water")

    with pytest.raises(Exception, match="the cellar is full of water"):
        run_foreach_batch(joined, tmp_path, take)
    run_foreach_batch(joined, tmp_path, take)
    assert [batch_id for batch_id, _ in seen] == [0, 1, 1]
    assert_same(seen[1][1], seen[2][1])
    assert_same(seen[0][1] + seen[2][1], expected)


# Triggers and options --------------------------------------------------------------------------


def test_trigger_once(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    writer = joined.writeStream.format("parquet").trigger(once=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.start(str(tmp_path / "out")))
    assert len(sk.history(str(tmp_path / "checkpoint"))) == 1
    assert_same(read_parquet(tmp_path / "out"), expected)


@pytest.mark.parametrize("trigger", [{"processingTime": "100 milliseconds"}, {}])
def test_running_query(
    tmp_path: Path, joined: sk.Joined, expected: Rows, trigger: dict[str, str]
) -> None:
    writer = joined.writeStream.format("parquet")
    writer = writer.trigger(**trigger) if trigger else writer
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start(str(tmp_path / "out"))
    query.processAllAvailable()
    assert query.isActive
    assert query.lastProgress is not None
    query.stop()
    assert_same(read_parquet(tmp_path / "out"), expected)


def test_start_that_fails_lets_go_of_the_checkpoint(
    tmp_path: Path, joined: sk.Joined, expected: Rows
) -> None:
    writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="Error parsing 'soon'"):
        writer.trigger(processingTime="soon").start(str(tmp_path / "out"))
    assert_same(read_parquet(run(joined, tmp_path)), expected)


@pytest.mark.slow
def test_kept_commits_and_reports(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path, batches=7, rows=10)
    joined = keyed_join(left.read(spark), right.read(spark))
    run(joined, tmp_path, **{"skewless.keepCommits": 3, "SKEWLESS.KEEPHISTORY": "4"})
    state = tmp_path / "checkpoint" / "skewless"
    assert all_files(state / "commits") == [f"{i:012d}-e1.json" for i in (4, 5, 6)]
    assert [r.batch_id for r in sk.history(str(tmp_path / "checkpoint"))] == [3, 4, 5, 6]


def test_queries_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [keyed_pair(tmp_path / str(i), batches=2, keys=3 + i) for i in range(2)]
    threads = []
    for i, (left, right) in enumerate(pairs):
        joined = keyed_join(left.read(spark), right.read(spark))
        threads.append(threading.Thread(target=run, args=(joined, tmp_path / str(i))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for i, pair in enumerate(pairs):
        assert_same(read_parquet(tmp_path / str(i) / "out"), keyed_oracle(*pair))


def test_select(spark: SparkSession, tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    shaped = joined.where("a > 3").selectExpr("a + b AS total", "k", "array(a, b) AS both")
    assert shaped.columns == ["total", "k", "both"]
    found = read_parquet(run(shaped, tmp_path))
    assert_same(
        found,
        multiset((a + b, k, (a, b)) for k, _, a, _, b in expected.elements() if a > 3),
    )


def test_files_beside_the_output_stay(tmp_path: Path, joined: sk.Joined, expected: Rows) -> None:
    """An output folder may be shared, if that is said: nothing in it is touched, nor is anything
    overwritten."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    run(joined, tmp_path, **{"skewless.existing": "append"})
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "out", other / "out")
    out = run(joined, other, **{"skewless.existing": "append"})
    assert (out / "notes.txt").read_text() == "mine"
    assert_same(read_parquet(out), expected + expected)


def test_stream_of_many_files(spark: SparkSession, tmp_path: Path, streams: Pair) -> None:
    """More input partitions than the session has cores."""
    left = file_stream(
        tmp_path / "left", [t.slice(i, 1) for t in streams[0].tables for i in range(20)]
    )
    right = file_stream(tmp_path / "right", streams[1].tables)
    session = spark.newSession()
    session.conf.set("spark.sql.files.openCostInBytes", str(128 << 20))
    joined = keyed_join(left.read(session, 100), right.read(session, 100))
    assert_same(read_parquet(run(joined, tmp_path)), keyed_oracle(left, right))
