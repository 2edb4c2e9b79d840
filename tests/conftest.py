"""What all tests share: one Spark session, and the marker of the tests that use it."""

from __future__ import annotations

import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.s3 import S3Server

SPARK_TESTS = Path(__file__).parent / "spark"
LONG = {
    Path(__file__).parent / name
    for name in ("test_cli.py", "demo/test_demo.py", "frame/test_frame.py")
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Spark are marked as such. Of a test that is marked `quick(n)` only the first n cases
    are run by everybody, the others with the slow tests."""
    # Files are handed out in this order: long ones first, so that no worker is left with one alone.
    items.sort(key=lambda item: not (item.path.is_relative_to(SPARK_TESTS) or item.path in LONG))
    seen: Counter[tuple[Path, str]] = Counter()
    for item in items:
        if item.path.is_relative_to(SPARK_TESTS):
            item.add_marker(pytest.mark.spark)
        quick = item.get_closest_marker("quick")
        if quick is not None:
            case = (item.path, getattr(item, "originalname", item.name))
            seen[case] += 1
            if seen[case] > quick.args[0]:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _small_groups_are_for_all_instances() -> Iterator[None]:
    """Rows and segments are few here; compaction is to be shared, and to take several batches, and
    commits are to refer to manifests, as it is where they are many."""
    from skewless.state import compaction as compact
    from skewless.state import segment_set

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "PIECE_ROWS_MIN", 2)
        patch.setattr(compact, "PORTION_ROWS", 10)
        patch.setattr(segment_set, "MANIFEST_SEGMENTS", 3)
        yield


@pytest.fixture(scope="session", autouse=True)
def _power_is_not_lost() -> Iterator[None]:
    """Waiting for the disk after every file takes most of the time of a small batch."""
    from skewless.state.stores import local

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "SYNC", False)
        yield


@pytest.fixture(autouse=True)
def _where_small_batches_are_worked_on(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are small here. In every other test they are worked on as large ones are."""
    if request.node.get_closest_marker("spark") is not None:
        from skewless.spark import executor

        monkeypatch.setattr(executor, "NEVER_HERE", zlib.crc32(request.node.name.encode()) % 2 == 0)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server for all tests of this process."""
    from tests.s3 import s3_server

    with s3_server() as server:
        yield server


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of remote files that a test has for itself."""
    from skewless.state.stores import cache, remote

    monkeypatch.setenv("SKEWLESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "FILES", cache.FileCache())
    return tmp_path / "cache"


@pytest.fixture
def early_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two segments are enough to be made one."""
    monkeypatch.setattr("skewless.state.compaction.FAN_IN", 2)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores that leaves nothing behind in the working directory."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("skewless tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "localhost")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
