"""Several executors, in processes of their own, one of which may die; and tasks that run twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyspark
import pytest

from skewless.state.commits import CommitLog
from skewless.state.files import Folder
from tests.spark.killed import a_query, last_commit
from tests.spark.processes import child, kill_tree, wait_for
from tests.spark.query_kits import FOUR_STREAMS, JOIN, JOIN_AGGREGATE, QueryKit, add_batches, close
from tests.spark.support import FileStream, assert_same, read_parquet

CLUSTER = {
    "master": "local-cluster[2,1,1024]",
    "settings": {"spark.executor.memory": "1g", "spark.executor.cores": "1"},
}
FAILED = {
    JOIN.name: {"join takes left in", "join takes right in", "join 0", "join 1", "join 2"},
    JOIN_AGGREGATE.name: {
        "join-1 takes left in", "join-1 takes right in", "join-1 0", "join-1 1", "join-1 2",
        "aggregate-2 takes input in", "aggregate-2 0", "aggregate-2 1", "aggregate-2 2",
    },
    FOUR_STREAMS.name: {
        "join-1 takes left in", "join-1 takes right in", "join-2 takes right in",
        "join-3 takes left in", "join-3 takes right in",
        *(f"join-{operator} {instance}" for operator in (1, 2, 3) for instance in range(3)),
    },
}  # fmt: skip


def spark_home(folder: Path) -> str:
    """Spark as installed, but with a work folder that may be written to."""
    home = folder / "spark"
    home.mkdir()
    for part in Path(pyspark.__path__[0]).iterdir():
        (home / part.name).symlink_to(part)
    return str(home)


def streams_of(kit: QueryKit, folder: Path, batches: int) -> list[FileStream]:
    streams = kit.sources(folder)
    add_batches(streams, batches)
    return streams


def check_output(kit: QueryKit, folder: Path, streams: list[FileStream]) -> None:
    expected = kit.expected(streams)
    assert expected.total() > kit.more_than
    assert_same(read_parquet(folder / "out"), expected)


def executors(process: psutil.Popen) -> list[psutil.Process]:
    return [member for member in process.children(recursive=True) if is_executor(member)]


def is_executor(process: psutil.Process) -> bool:
    try:
        command = " ".join(process.cmdline())
        return process.name() == "java" and "CoarseGrainedExecutorBackend" in command
    except psutil.NoSuchProcess:
        return False


def is_paused(process: psutil.Process) -> bool:
    """Whether a Python worker under a process sleeps, rather than waits for work."""
    for worker in process.children(recursive=True):
        try:
            if "nanosleep" in Path(f"/proc/{worker.pid}/wchan").read_text():
                return True
        except OSError:
            continue
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    "kit",
    [
        pytest.param(JOIN, id=JOIN.name),
        pytest.param(JOIN_AGGREGATE, id=JOIN_AGGREGATE.name, marks=pytest.mark.slow),
        pytest.param(FOUR_STREAMS, id=FOUR_STREAMS.name, marks=pytest.mark.slow),
    ],
)
def test_cluster(tmp_path: Path, kit: QueryKit) -> None:
    """Two executors; tasks that fail when their work is done run again, maybe on the other. What
    their first attempts wrote exists, but does not count."""
    streams = streams_of(kit, tmp_path, batches=6)
    close(streams)
    markers = tmp_path / "markers"
    markers.mkdir()
    config = {
        "folder": str(tmp_path),
        "queries": [a_query(kit, tmp_path, "Chaos")],
        "fail_once": str(markers),
        **CLUSTER,
    }
    with child(config, SPARK_HOME=spark_home(tmp_path)) as process:
        wait_for(tmp_path / "checkpoint" / "skewless" / "commits" / f"{0:012d}-e1.json", process)
        assert len(executors(process)) == 2
        wait_for(tmp_path / "done", process)
    assert {file.name for file in markers.iterdir()} == FAILED[kit.name]
    check_output(kit, tmp_path, streams)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kit", [JOIN, JOIN_AGGREGATE, FOUR_STREAMS], ids=lambda kit: kit.name)
def test_cluster_as_on_a_remote_store(tmp_path: Path, kit: QueryKit) -> None:
    """Rows go through Spark's shuffle into segments of one range each; tasks fail once."""
    streams = streams_of(kit, tmp_path, batches=6)
    close(streams)
    markers = tmp_path / "markers"
    markers.mkdir()
    config = {
        "folder": str(tmp_path),
        "queries": [a_query(kit, tmp_path, "Chaos")],
        "fail_once": str(markers),
        **CLUSTER,
    }
    environment = {"SPARK_HOME": spark_home(tmp_path), "SKEWLESS_EXCHANGE": "always"}
    with child(config, **environment) as process:
        wait_for(tmp_path / "done", process)
    assert {file.name for file in markers.iterdir()} == FAILED[kit.name]
    check_output(kit, tmp_path, streams)
    log = CommitLog(Folder(str(tmp_path / "checkpoint" / "skewless")))
    # The last rows close everything: earlier commits have segments.
    stored = [segment for batch in log.batch_ids() for segment in log.read(batch).segments]
    assert stored
    assert all(segment.parts for segment in stored)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_instances_stay_where_they_were(tmp_path: Path) -> None:
    """Three executors: every instance goes where it was, whatever runs in between."""
    script = Path(__file__).parent / "places_child.py"
    environment = {**os.environ, "SPARK_HOME": spark_home(tmp_path)}
    found = tmp_path / "places.json"
    subprocess.run([sys.executable, str(script), str(found)], env=environment, check=True)
    places = json.loads(found.read_text())
    assert len(places) == 6
    assert len({tuple(of) for of in places if len(of) == 3}) == 1
    assert len({tuple(of) for of in places if len(of) == 5}) == 1
    assert all(len(set(of)) == 3 for of in places), "all executors are used"


@pytest.mark.slow
@pytest.mark.parametrize("kit", [JOIN, JOIN_AGGREGATE], ids=[JOIN.name, JOIN_AGGREGATE.name])
@pytest.mark.parametrize("point", ["segment.written", "instance.worked", "compaction.written"])
def test_cluster_whose_executor_is_killed(tmp_path: Path, point: str, kit: QueryKit) -> None:
    """A task is stopped in the middle of a batch, and its executor killed with all it runs."""
    streams = streams_of(kit, tmp_path, batches=3)
    config = {"folder": str(tmp_path), "queries": [a_query(kit, tmp_path, "Chaos")]}
    with child(config) as process:
        wait_for(tmp_path / "done", process)
    assert last_commit(tmp_path) == 2
    add_batches(streams, 3)
    close(streams)
    marker = tmp_path / "marker"
    environment = {"SPARK_HOME": spark_home(tmp_path), "SKEWLESS_PAUSE_AT": f"{point}={marker}"}
    with child(config | CLUSTER, **environment) as process:
        wait_for(marker, process)
        time.sleep(0.2)
        both = executors(process)
        assert len(both) == 2
        victims = [executor for executor in both if is_paused(executor)] or both
        for victim in victims:
            kill_tree(victim)
        wait_for(tmp_path / "done", process)
    check_output(kit, tmp_path, streams)
