"""Sinks of Delta and Iceberg tables, batch by batch. Run by test_lake.py, with another Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.engine.executor import Sink
from skewless.engine.lifecycle import Query
from skewless.errors import ArgumentError, StateError
from skewless.spark import executor
from skewless.spark.sinks import SourceSink, TableSink
from skewless.spark.tables.choosing import Asked, CatalogSink, for_source
from skewless.state.epochs import Ownership
from skewless.state.identity import forget_id, query_id
from tests.documents import DOCS
from tests.spark.support import file_stream, keyed_tables
from tests.spark.test_docs import STREAMS, places_of, table
from tests.tables import lake
from tests.tables.postgres import postgres
from tests.tables.test_jdbc import Counting, owner_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("lake")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    own = {
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in (lake.settings(folder / "lake") | own).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.sql("CREATE NAMESPACE lake.db")
    yield session
    session.stop()


@pytest.fixture
def owner(tmp_path: Path) -> Ownership:
    return owner_of(tmp_path / "state")


def table_sink(name: str, owner: Ownership, by: Sequence[str] = (), **options: Any) -> CatalogSink:
    """As after a restart: a new sink of the same checkpoint."""
    table = TableSink(name, options.pop("format", None), options, list(by))
    return CatalogSink(Asked(table, name, options, owner), table)


def source_sink(source: str, place: str, owner: Ownership, **options: Any) -> Sink[DataFrame]:
    target = SourceSink(source, options, [], place)
    sink = for_source(source, Asked(target, place, options, owner))
    assert sink is not None
    return sink


def rows(session: SparkSession, *ids: int) -> DataFrame:
    return session.createDataFrame([(i, i % 2) for i in ids], "id int, odd int")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("id").collect())


def heads(session: SparkSession, table: str) -> int:
    return int(session.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").first()[0])


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_of_the_catalog(
    session: SparkSession, owner: Ownership, tmp_path: Path, kind: str
) -> None:
    """Made if there is none, with its partitions; repeated batches are neither read nor written."""
    name = {"delta": "pairs", "iceberg": "lake.db.pairs"}[kind]
    made = {"format": "delta"} if kind == "delta" else {}
    (tmp_path / "seen").mkdir()
    counting = Counting(tmp_path / "seen")
    table_sink(name, owner, ["odd"], **made).write(rows(session, 1, 2), 0)
    for number in range(3):
        again = table_sink(name, owner, ["odd"], **made)
        before = counting.tasks
        again.write(counting.seen_in(rows(session, 3)), 1)
        assert (counting.tasks > before) == (number == 0)
        assert ids(session.table(name)) == sorted([1, 2, 3] + [9] * number)
        rows(session, 9).write.mode("append").format(kind).saveAsTable(name)
    again.write(rows(session, 4), 2)
    other = owner_of(tmp_path / "other")
    table_sink(name, other).write(rows(session, 1), 2)
    assert ids(session.table(name)) == [1, 1, 2, 3, 4, 9, 9, 9]
    told = session.sql(f"DESCRIBE TABLE {name}").collect()
    assert [row[0] for row in told if row[0].startswith("# P") or row[0] == "odd"][-2:] == [
        "# Partition Information",
        "odd",
    ]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_after_a_rollback_batches_are_others(
    session: SparkSession, owner: Ownership, kind: str
) -> None:
    """The table was restored to what it was after the batch that was gone back to."""
    name = {"delta": "gone_back", "iceberg": "lake.db.gone_back"}[kind]
    made = {"format": "delta"} if kind == "delta" else {}
    sink = table_sink(name, owner, **made)
    sink.write(rows(session, 1), 0)
    if kind == "iceberg":
        restore = f"CALL lake.system.rollback_to_snapshot('db.gone_back', {heads(session, name)})"
    else:
        version = session.sql(f"DESCRIBE HISTORY {name}").agg({"version": "max"}).first()[0]
        restore = f"RESTORE TABLE {name} TO VERSION AS OF {version}"
    sink.write(rows(session, 2), 1)
    sink.write(rows(session, 3), 2)
    session.sql(restore)
    forget_id(owner.folder)
    sink = table_sink(name, owner, **made)
    sink.write(rows(session, 2, 3), 1)
    sink.write(rows(session, 4), 2)
    assert ids(session.table(name)) == [1, 2, 3, 4]


def test_delta_by_path(session: SparkSession, owner: Ownership, tmp_path: Path) -> None:
    path = str(tmp_path / "delta")
    for _ in range(2):
        source_sink("delta", path, owner).write(rows(session, 1, 2), 0)
        source_sink("Delta", path, owner, mergeSchema="true").write(
            rows(session, 3).selectExpr("*", "1 AS more"), 1
        )
    found = session.read.format("delta").load(path)
    assert ids(found) == [1, 2, 3] and "more" in found.columns


def test_delta_options_that_are_ours(owner: Ownership) -> None:
    with pytest.raises(ArgumentError, match="`txnappid`"):
        source_sink("delta", "/x", owner, txnappid="mine")
    with pytest.raises(ArgumentError, match="`txnVersion`"):
        table_sink("x", owner, txnVersion="1")


def test_iceberg_by_name_and_by_branch(session: SparkSession, owner: Ownership) -> None:
    name = "lake.db.by_name"
    session.sql(f"CREATE TABLE {name} (id int, odd int) USING iceberg")
    for _ in range(2):
        source_sink("iceberg", name, owner).write(rows(session, 1), 0)
    session.sql(f"ALTER TABLE {name} CREATE BRANCH audit")
    for _ in range(2):
        table_sink(f"{name}.branch_audit", owner).write(rows(session, 2), 1)
        rows(session, 7).writeTo(name).append()  # to the main branch, of somebody else
    assert ids(session.table(name)) == [1, 7, 7]
    assert ids(session.table(f"{name}.branch_audit")) == [1, 2]


def test_iceberg_by_folder(session: SparkSession, owner: Ownership, tmp_path: Path) -> None:
    session.sql("CREATE TABLE lake.db.by_folder (id int, odd int) USING iceberg")
    warehouse = session.conf.get("spark.sql.catalog.lake.warehouse")
    for _ in range(2):
        source_sink("iceberg", f"{warehouse}/db/by_folder", owner).write(rows(session, 1), 0)
    session.sql("REFRESH TABLE lake.db.by_folder")
    assert ids(session.table("lake.db.by_folder")) == [1]


def test_iceberg_with_expired_snapshots(
    session: SparkSession, owner: Ownership, tmp_path: Path
) -> None:
    """Whether the batch was written can be told as long as snapshots since then are there."""
    name, other = "lake.db.expired", owner_of(tmp_path / "other")
    expire = (
        "CALL lake.system.expire_snapshots(table => 'db.expired', retain_last => {}, "
        "older_than => TIMESTAMP '2999-01-01 00:00:00')"
    )
    table_sink(name, owner).write(rows(session, 1), 0)
    table_sink(name, owner).write(rows(session, 2), 1)
    rows(session, 9).writeTo(name).append()
    session.sql(expire.format(2))
    table_sink(name, owner).write(rows(session, 2), 1)
    assert ids(session.table(name)) == [1, 2, 9]
    rows(session, 9).writeTo(name).append()
    session.sql(expire.format(1))
    with pytest.raises(StateError, match="nobody can tell whether batch 1 was written"):
        table_sink(name, owner).write(rows(session, 2), 1)
    # A batch that was not begun before is surely not in there, whatever was expired.
    table_sink(name, other).write(rows(session, 5), 1)
    assert ids(session.table(name)) == [1, 2, 5, 9, 9]


def test_iceberg_tables_that_were_rolled_back_by_others(
    session: SparkSession, owner: Ownership
) -> None:
    """Between the kill and the restart somebody took the batch out: it is written again."""
    name = "lake.db.taken_out"
    table_sink(name, owner).write(rows(session, 1), 0)
    head = heads(session, name)
    table_sink(name, owner).write(rows(session, 2), 1)
    session.sql(f"CALL lake.system.rollback_to_snapshot('db.taken_out', {head})")
    for _ in range(2):
        table_sink(name, owner).write(rows(session, 2), 1)
    assert ids(session.table(name)) == [1, 2]


def test_iceberg_rows_that_are_put_aside_are_refused(
    session: SparkSession, owner: Ownership
) -> None:
    own = session.newSession()
    own.conf.set("spark.wap.branch", "audit")
    own.sql("CREATE TABLE lake.db.aside (id int, odd int) USING iceberg")
    with pytest.raises(ArgumentError, match=r"`spark.wap.branch`"):
        table_sink("lake.db.aside", owner).write(rows(own, 1), 0)


def test_snapshots_name_query_and_batch(session: SparkSession, owner: Ownership) -> None:
    name = "lake.db.named"
    table_sink(name, owner).write(rows(session, 1), 7)
    last = session.sql(
        f"SELECT summary['skewless.query'], summary['skewless.batch'] FROM {name}.snapshots "
        "ORDER BY committed_at DESC LIMIT 1"
    ).first()
    assert tuple(last) == (query_id(owner.folder), "7")


def test_other_tables_are_at_least_once_and_say_so(
    session: SparkSession, owner: Ownership, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        table_sink("plain", owner, format="parquet").write(rows(session, 1), 0)
    assert ids(session.table("plain")) == [1, 1]
    assert "rows go to the table plain at least once" in caplog.text


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_batch_that_the_table_has_is_reported_all_the_same(
    session: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends between the table's commit and ours. The next one adds no row, and tells
    what the batch had."""
    monkeypatch.setattr(executor, "NEVER_HERE", True)  # tasks, of which some would read nothing
    name = {"delta": "had_it", "iceberg": "lake.db.had_it"}[kind]
    sides = [[[(key, 1.0) for key in range(20)]], [[(key, 2.0) for key in range(10, 40)]]]
    left, right = (
        file_stream(tmp_path / side, keyed_tables(side, batches)).read(session)
        for side, batches in zip(("left", "right"), sides, strict=True)
    )
    joined = sk.join(
        left, right, on="k", time=("at", "seen"), within="5 seconds", late="1 minute", instances=2
    )

    def run() -> None:
        writer = joined.writeStream.format(kind).option("checkpointLocation", str(tmp_path / "c"))
        query = writer.toTable(name)
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    with monkeypatch.context() as patch:
        patch.setattr(Query, "commit", Mock(side_effect=RuntimeError("the end")))
        with pytest.raises(StreamingQueryException, match="the end"):
            run()
    assert session.table(name).count() == 10
    assert sk.history(str(tmp_path / "c")) == []
    run()
    assert session.table(name).count() == 10
    [report] = sk.history(str(tmp_path / "c"))
    assert report.matches == 10
    assert sum(load.matches for load in report.instances) == 10
    assert all(load.rows for load in report.instances)


@pytest.mark.parametrize("heading", ["Delta", "Iceberg", "JDBC"])
def test_what_the_document_shows(session: SparkSession, tmp_path: Path, heading: str) -> None:
    """Each block of docs/sinks.md, with the streams of the other documents."""
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    [snippet] = places_of(DOCS / "sinks.md")[heading]
    block = snippet.source
    streams = {
        name: file_stream(tmp_path / name, [table(STREAMS[name], b) for b in range(2)]).read(
            session
        )
        for name in ("orders", "tracks")
    }
    within = {"within": "10 minutes", "late": "1 minute"}
    joined = sk.join(**dict(zip(("left", "right"), streams.values(), strict=True)),
                     on="cell", time=("ordered_at", "seen_at"), **within)  # fmt: skip
    with postgres() as server:
        for name in ("ckpt", "out"):
            block = block.replace(f'"{name}"', repr(str(tmp_path / name)))
        block = block.replace("jdbc:postgresql://localhost/shop?user=app", server.url)
        names: dict[str, Any] = {"joined": joined}
        exec(compile(block, heading, "exec"), names)
        names["query"].processAllAvailable()
        names["query"].stop()
        found = {
            "Delta": lambda: session.read.format("delta").load(str(tmp_path / "out")).count(),
            "Iceberg": lambda: session.table("lake.db.rides").count(),
            "JDBC": lambda: int(server.ask("SELECT count(*) FROM rides")[0][0]),
        }[heading]()
    assert found == sum(report.matches for report in sk.history(str(tmp_path / "ckpt"))) > 0
