"""What a repeated batch is known by, without any table: notes in the checkpoint, options of writes,
and who is chosen for what."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from skewless.errors import ArgumentError, StateDamagedError
from skewless.spark.tables import choosing
from skewless.spark.tables.choosing import Asked, for_source
from skewless.spark.tables.database import kind_of
from skewless.spark.tables.delta import DeltaSink
from skewless.spark.tables.iceberg import IcebergSink
from skewless.state.epochs import Ownership
from skewless.state.files import Folder
from skewless.state.identity import forget_id, query_id
from skewless.state.tries import NOTE, Try, last_try, note_try

ROWS = cast(DataFrame, object())


class Noting:
    """Stands for a table."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def append(self, result: DataFrame, options: Any) -> None:
        self.seen.append(("written", dict(options)))


@pytest.fixture
def owner(tmp_path: Path) -> Ownership:
    return Ownership(Folder(str(tmp_path)))


def test_a_try_is_repeated_by_the_same_batch_of_the_same_query(owner: Ownership) -> None:
    folder = owner.folder
    assert last_try(folder) is None
    assert not Try("a", 3).repeats(None)
    note_try(folder, Try("a", 3, {"head": 17}))
    assert last_try(folder) == Try("a", 3, {"head": 17})
    assert Try("a", 3).repeats(last_try(folder))
    assert not Try("a", 4).repeats(last_try(folder))
    assert not Try("b", 3).repeats(last_try(folder))
    Path(folder.path(NOTE)).write_text("{}")
    with pytest.raises(StateDamagedError):
        last_try(folder)


def test_delta_gets_query_and_batch(owner: Ownership) -> None:
    table = Noting()

    def marks(batch: int) -> tuple[str, Any]:
        return "written", {"txnAppId": f"skewless-{query_id(owner.folder)}", "txnVersion": batch}

    def write(batch: int) -> None:
        DeltaSink(table, owner, {}).write(ROWS, batch)

    write(0)
    write(1)
    assert table.seen == [marks(0), marks(1)]
    write(1)  # Delta skips it
    assert table.seen[2:] == [marks(1)]
    before = marks(1)
    forget_id(owner.folder)
    write(1)
    assert table.seen[3:] == [marks(1)] != [before]


def test_formats_choose_sinks(owner: Ownership) -> None:
    asked = Asked(Noting(), "lake.db.t", {}, owner)
    assert isinstance(for_source("DELTA", asked), DeltaSink)
    assert isinstance(for_source("iceberg", asked), IcebergSink)
    assert for_source("noop", asked) is None
    assert set(choosing.PROVIDERS) <= set(choosing.SOURCES)
    with pytest.raises(ArgumentError, match="`url`"):
        for_source("jdbc", asked)


def test_spark_connect_has_no_transactions(
    owner: Ownership, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"URL": "jdbc:postgresql://host/db", "dbtable": "t"}
    assert for_source("jdbc", Asked(Noting(), "", options, owner, is_remote=True)) is None
    assert "Spark Connect" in caplog.text
    assert for_source("jdbc", Asked(Noting(), "", options, owner)) is not None


def test_kinds_of_databases() -> None:
    assert [kind_of(url) for url in ("jdbc:derby:memory:x", "jdbc:H2:mem", "", "x")] == [
        "derby",
        "h2",
        "",
        "",
    ]
