"""Two real drivers on one checkpoint, on machines that share a folder, but no locks."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tests.spark.killed import Story, a_query, last_commit
from tests.spark.processes import child, wait_for
from tests.spark.query_kits import JOIN, JOIN_AGGREGATE, QueryKit, add_batches


def family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def wait_until_ended(process: psutil.Popen) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert process.poll() is not None, "the first driver goes on"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kit", [JOIN, JOIN_AGGREGATE], ids=[JOIN.name, JOIN_AGGREGATE.name])
@pytest.mark.parametrize("moment_s", [0.0, 0.3, 0.7])
def test_a_driver_that_only_seemed_dead(
    spark: SparkSession, tmp_path: Path, moment_s: float, kit: QueryKit
) -> None:
    """The first is stopped in the midst of its batches, the second takes over and works to the end;
    then the first comes back."""
    story = Story(kit, spark, tmp_path / "query")
    add_batches(story.streams, 8)
    query = a_query(kit, story.folder, story.way(0))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    def told(name: str) -> dict[str, object]:
        return {"folder": str(tmp_path / name), "queries": [query], "host": name}

    with child(told("one")) as first:
        while last_commit(story.folder) < 1:
            assert first.poll() is None
            time.sleep(0.02)
        time.sleep(moment_s)
        stopped = family(first)
        for member in stopped:
            with suppress(psutil.NoSuchProcess):  # workers come and go
                member.suspend()
        assert not (story.folder / "done").exists()
        with child(told("two")) as second:
            wait_for(story.folder / "done", second)
            for member in stopped:
                with suppress(psutil.NoSuchProcess):  # who goes on first may end others
                    member.resume()
            wait_until_ended(first)
    log = (tmp_path / "one" / "child.log").read_text()
    # Where it stood before a batch, it is Spark's own log that refuses it.
    assert "CheckpointInUseError" in log or "Multiple streaming queries are concurrently" in log
    story.finish()
