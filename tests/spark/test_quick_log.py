"""The setting of Spark's log is there while a query opens its logs, and not before or after."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skewless.spark.quick_log import SETTING, QuickLog
from tests.spark.support import keyed_join, keyed_pair, run


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


def test_while_several_are_about_to(session: SparkSession) -> None:
    first, second = QuickLog(session), QuickLog(session)
    assert session.conf.get(SETTING).endswith("FileSystemBasedCheckpointFileManager")  # type: ignore[union-attr]
    first.opened()
    first.opened()
    assert session.conf.get(SETTING, None)
    second.opened()
    assert session.conf.get(SETTING, None) is None


def test_what_users_have_chosen_stays(session: SparkSession) -> None:
    session.conf.set(SETTING, "mine")
    log = QuickLog(session)
    assert session.conf.get(SETTING) == "mine"
    log.opened()
    assert session.conf.get(SETTING) == "mine"


def test_threads(session: SparkSession) -> None:
    def often() -> None:
        for _ in range(10):
            QuickLog(session).opened()

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.conf.get(SETTING, None) is None


def test_after_a_query(session: SparkSession, tmp_path: Path) -> None:
    """The session is what it was."""
    left, right = keyed_pair(tmp_path)
    run(keyed_join(left.read(session), right.read(session)), tmp_path)
    assert session.conf.get(SETTING, None) is None
    offsets = [file.name for file in (tmp_path / "checkpoint" / "offsets").iterdir()]
    assert {"0", "1", "2"} <= set(offsets)


def test_a_query_that_does_not_start(session: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path)
    result = keyed_join(left.read(session), right.read(session))
    writer = result.writeStream.format("noop").queryName("twice")
    query = writer.option("checkpointLocation", str(tmp_path / "one")).start()
    with pytest.raises(Exception, match="twice"):
        writer.option("checkpointLocation", str(tmp_path / "two")).start()
    query.processAllAvailable()
    query.stop()
    assert session.conf.get(SETTING, None) is None
