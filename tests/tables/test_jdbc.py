"""The JDBC sink on a database that comes with Spark; PostgreSQL is in test_kills.py."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.errors import ArgumentError, CheckpointInUseError, StateError
from skewless.spark.sinks import SourceSink
from skewless.spark.tables.choosing import Asked, for_source
from skewless.spark.tables.database import ATTEMPT, KEPT, PART, Database
from skewless.spark.tables.jdbc import JdbcSink, matched, schema_of
from skewless.state.epochs import OWNER, Ownership
from skewless.state.files import Folder
from skewless.state.identity import forget_id, query_id
from skewless.state.tries import last_try
from tests.spark.support import finish, keyed_join, keyed_oracle, keyed_pair, multiset

pytestmark = pytest.mark.spark


@pytest.fixture
def url(spark: SparkSession, tmp_path: Path) -> str:
    return f"jdbc:derby:memory:{tmp_path.name};create=true"


@pytest.fixture
def owner(tmp_path: Path) -> Ownership:
    return owner_of(tmp_path / "state")


def owner_of(state: Path) -> Ownership:
    (state / OWNER).mkdir(parents=True, exist_ok=True)
    ownership = Ownership(Folder(str(state)))
    ownership.take(0, lambda: -1)
    return ownership


def sink_of(url: str, owner: Ownership, table: str = "pairs", **options: Any) -> JdbcSink:
    return JdbcSink(owner, {"url": url, "dbtable": table} | options)


def read(spark: SparkSession, url: str, table: str = "pairs") -> list[Any]:
    frame = spark.read.format("jdbc").option("url", url).option("dbtable", table).load()
    return sorted(tuple(row) for row in frame.collect())


def numbers(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, 3).select("id", (F.col("id") % 3).cast("string").alias("K"))


def tables(spark: SparkSession, url: str) -> set[str]:
    """The tables of the user, as the database lists them."""
    names = read(spark, url, "(SELECT tablename FROM sys.systables WHERE tabletype = 'T') t")
    return {name.lower() for (name,) in names}


class Counting:
    """Counts how often the rows of a DataFrame are made, task by task."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def seen_in(self, frame: DataFrame) -> DataFrame:
        folder = self._folder

        def note(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import uuid

            Path(folder, uuid.uuid4().hex).touch()
            yield from batches

        return frame.mapInArrow(note, frame.schema)

    @property
    def tasks(self) -> int:
        return len(list(Path(self._folder).iterdir()))


def test_a_repeated_batch_is_neither_read_nor_written(
    spark: SparkSession, url: str, owner: Ownership, tmp_path: Path
) -> None:
    (tmp_path / "seen").mkdir()
    counting = Counting(tmp_path / "seen")
    rows = [(n, str(n % 3)) for n in range(7)]
    sink_of(url, owner).write(counting.seen_in(numbers(spark, 0, 7)), 0)
    assert read(spark, url) == rows and counting.tasks == 3
    owner = owner_of(Path(owner.folder.root))
    again = sink_of(url, owner)
    again.write(counting.seen_in(numbers(spark, 0, 7)), 0)
    assert read(spark, url) == rows and counting.tasks == 3
    again.write(numbers(spark, 7, 9), 1)
    assert read(spark, url) == [(n, str(n % 3)) for n in range(9)]
    assert tables(spark, url) == {"pairs", "skewless_batches"}


def test_two_queries_and_others_write_to_one_table(
    spark: SparkSession, url: str, owner: Ownership, tmp_path: Path
) -> None:
    other = owner_of(tmp_path / "other")
    for number in range(2):
        sink_of(url, owner).write(numbers(spark, 0, 2), number)
        sink_of(url, other).write(numbers(spark, 0, 2), number)
        frame = numbers(spark, 5, 6).write.format("jdbc").option("url", url).mode("append")
        frame.option("dbtable", "pairs").save()
    assert [id for id, _ in read(spark, url)] == [0] * 4 + [1] * 4 + [5] * 2


def test_after_a_rollback_batches_are_others(
    spark: SparkSession, url: str, owner: Ownership
) -> None:
    sink_of(url, owner).write(numbers(spark, 0, 2), 4)
    forget_id(owner.folder)
    sink_of(url, owner).write(numbers(spark, 0, 3), 4)
    assert [id for id, _ in read(spark, url)] == [0, 0, 1, 1, 2]


def test_few_marks_are_kept(spark: SparkSession, url: str, owner: Ownership) -> None:
    sink = sink_of(url, owner)
    for number in range(KEPT + 3):
        sink.write(numbers(spark, 0, 1), number)
    kept = read(spark, url, "skewless_batches")
    assert [(query, batch) for query, batch, _ in kept] == [
        (query_id(owner.folder), number) for number in range(2, KEPT + 3)
    ]


def test_rows_of_tasks_that_ran_twice_count_once(spark: SparkSession, url: str) -> None:
    """As Spark's writer leaves them if a task is lost after its own commit."""
    options = {"url": url, "dbtable": "pairs"}
    spark.range(0).write.format("jdbc").options(**options).mode("append").save()
    with Database(spark, options) as database:
        database.make_marks("marks")
        database.make_stage("stage", "pairs", ["id"])
        # id, part, attempt: part 1 was written three times, part 2 and 3 once.
        rows = [(1, 1, 7), (2, 1, 7), (1, 1, 9), (2, 1, 9), (2, 1, 12), (1, 1, 12), (1, 2, 8)]
        for row in [*rows, (1, 3, 10)]:
            database.run(f'INSERT INTO stage ("id", {PART}, {ATTEMPT}) VALUES (?, ?, ?)', *row)
        with database.transaction():
            assert database.take_in("stage", "pairs", ["id"], "marks", "q", 0) == 4
    assert read(spark, url) == [(1,), (1,), (1,), (2,)]


def test_rows_and_mark_come_together_or_not_at_all(spark: SparkSession, url: str) -> None:
    options = {"url": url, "dbtable": "pairs"}
    spark.range(0).write.format("jdbc").options(**options).mode("append").save()
    with Database(spark, options) as database:
        database.make_marks("marks")
        database.make_stage("stage", "pairs", ["id"])
        database.run(f'INSERT INTO stage ("id", {PART}, {ATTEMPT}) VALUES (1, 1, 1)')
        with pytest.raises(RuntimeError), database.transaction():
            database.take_in("stage", "pairs", ["id"], "marks", "q", 0)
            raise RuntimeError
        assert not database.has_mark("marks", "q", 0) and read(spark, url) == []
        with database.transaction():
            database.take_in("stage", "pairs", ["id"], "marks", "q", 0)
        # Another driver, which did not know of it, cannot do so again.
        with pytest.raises(Py4JJavaError), database.transaction():
            database.take_in("stage", "pairs", ["id"], "marks", "q", 0)
        assert database.has_mark("marks", "q", 0) and not database.has_mark("marks", "q", 1)
    assert read(spark, url) == [(1,)]


def test_a_driver_that_comes_back_long_after_writes_nothing(
    spark: SparkSession, url: str, owner: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not see that it was overtaken, and the mark of its batch is gone."""
    fill = JdbcSink._fill

    def late(sink: JdbcSink, stage: str, result: DataFrame) -> int:
        monkeypatch.setattr(JdbcSink, "_fill", fill)
        other = sink_of(url, owner)
        for number in (3, 4 + KEPT):
            other.write(numbers(spark, 0, 1), number)
        return fill(sink, stage, result)

    sink_of(url, owner).write(numbers(spark, 9, 9), 0)
    monkeypatch.setattr(JdbcSink, "_fill", late)
    sink_of(url, owner).write(numbers(spark, 0, 1), 2)
    assert [id for id, _ in read(spark, url)] == [0, 0]


def test_a_driver_that_was_overtaken_writes_nothing(
    spark: SparkSession, url: str, owner: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, fill = sink_of(url, owner), JdbcSink._fill

    def overtaken(sink: JdbcSink, stage: str, result: DataFrame) -> int:
        owner_of(Path(owner.folder.root))
        return fill(sink, stage, result)

    monkeypatch.setattr(JdbcSink, "_fill", overtaken)
    with pytest.raises(CheckpointInUseError):
        sink.write(numbers(spark, 0, 3), 0)
    assert read(spark, url) == [] == read(spark, url, "skewless_batches")


def test_a_stage_that_lost_rows_is_refused_and_later_removed(
    spark: SparkSession, url: str, owner: Ownership, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = JdbcSink._fill

    def losing(sink: JdbcSink, stage: str, result: DataFrame) -> int:
        return fill(sink, stage, result.where("id <> 1")) + 1

    with monkeypatch.context() as patch:
        patch.setattr(JdbcSink, "_fill", losing)
        with pytest.raises(StateError, match="batch 0 has 3 rows, but 2 are in the staging table"):
            sink_of(url, owner).write(numbers(spark, 0, 3), 0)
    left = last_try(owner.folder)
    assert left is not None and left.facts["stage"] in tables(spark, url)
    assert read(spark, url) == []
    owner = owner_of(Path(owner.folder.root))
    sink_of(url, owner).write(numbers(spark, 0, 3), 0)
    assert [id for id, _ in read(spark, url)] == [0, 1, 2]
    assert tables(spark, url) == {"pairs", "skewless_batches"}


def test_a_table_with_other_columns_and_types(
    spark: SparkSession, url: str, owner: Ownership
) -> None:
    with Database(spark, {"url": url, "dbtable": "wide"}) as database:
        database.run("CREATE SCHEMA shop")
        database.run(
            "CREATE TABLE shop.wide (k VARCHAR(5), more INTEGER DEFAULT 9, id INTEGER NOT NULL)"
        )
    sink_of(url, owner, "shop.wide").write(numbers(spark, 0, 3), 0)
    assert read(spark, url, "shop.wide") == [("0", 9, 0), ("1", 9, 1), ("2", 9, 2)]
    assert len(read(spark, url, "shop.skewless_batches")) == 1


def test_a_query_from_beginning_to_end(spark: SparkSession, url: str, tmp_path: Path) -> None:
    streams = keyed_pair(tmp_path)
    for _ in range(2):  # the second has nothing to do
        joined = keyed_join(*(stream.read(spark) for stream in streams))
        writer = joined.writeStream.format("jdbc").option("url", url).option("dbtable", "pairs")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        finish(writer.trigger(availableNow=True).start())
    assert multiset(read(spark, url)) == keyed_oracle(*streams)


def test_arguments(spark: SparkSession, url: str, owner: Ownership) -> None:
    for options, wrong in [
        ({"dbtable": "t"}, "`url`"),
        ({"url": url}, "`dbtable`"),
        ({"url": url, "dbtable": "t", "isolationLevel": "none"}, "`isolationLevel`"),
    ]:
        with pytest.raises(ArgumentError, match=wrong):
            JdbcSink(owner, options)


def test_unknown_databases_are_at_least_once_and_say_so(
    owner: Ownership, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"url": "jdbc:teradata://host/db", "dbtable": "t"}
    asked = Asked(SourceSink("jdbc", options, [], None), "", options, owner)
    with caplog.at_level(logging.WARNING, "skewless"):
        assert for_source("jdbc", asked) is None
    assert "rows go to teradata databases at least once" in caplog.text


def test_names() -> None:
    assert schema_of('a."b.c".`d`') == 'a."b.c".'
    assert schema_of("[my schema].[my.table]") == "[my schema]."
    assert matched(["a", "B", "c"], ["C", "b", "a", "A"]) == ["a", "b", "C"]
