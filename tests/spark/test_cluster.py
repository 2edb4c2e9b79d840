"""Several executors, in processes of their own, one of which may die; and tasks that run twice."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pyspark
import pytest

from tests.spark.processes import Pair, child, kill_tree, streams, wait_for
from tests.spark.support import assert_same, keyed_oracle, read_parquet

CLUSTER = {
    "master": "local-cluster[2,1,1024]",
    "settings": {"spark.executor.memory": "1g", "spark.executor.cores": "1"},
}


def spark_home(folder: Path) -> str:
    """Spark as installed, but with a work folder that may be written to."""
    home = folder / "spark"
    home.mkdir()
    for part in Path(pyspark.__path__[0]).iterdir():
        (home / part.name).symlink_to(part)
    return str(home)


def check_output(folder: Path, pair: Pair) -> None:
    expected = keyed_oracle(*pair, within_s=12)
    assert expected.total() > 100
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


def test_cluster(tmp_path: Path) -> None:
    """Two executors; tasks that fail when their work is done run again, maybe on the other. What
    their first attempts wrote exists, but does not count."""
    pair = streams(tmp_path, early=3, later=2)
    markers = tmp_path / "markers"
    markers.mkdir()
    config = {"folder": str(tmp_path), "fail_once": str(markers), **CLUSTER}
    with child(config, SPARK_HOME=spark_home(tmp_path)) as process:
        wait_for(tmp_path / "armed", process)
        assert len(executors(process)) == 2
        wait_for(tmp_path / "done", process)
    failed = {file.name for file in markers.iterdir()}
    assert failed == {"ingest-left", "ingest-right", "instance-0", "instance-1", "instance-2"}
    check_output(tmp_path, pair)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["segment.written", "instance.worked", "compaction.written"])
def test_cluster_whose_executor_is_killed(tmp_path: Path, point: str) -> None:
    """A task is stopped in the middle of a batch, and its executor killed with all it runs."""
    pair = streams(tmp_path, early=3, later=3)
    marker = tmp_path / "marker"
    marker.touch()
    config = {"folder": str(tmp_path), "marker": str(marker), **CLUSTER}
    environment = {"SPARK_HOME": spark_home(tmp_path), "SKEWLESS_PAUSE_AT": f"{point}={marker}"}
    with child(config, **environment) as process:
        wait_for(tmp_path / "armed", process)
        wait_for(marker, process)
        time.sleep(0.2)
        both = executors(process)
        assert len(both) == 2
        victims = [executor for executor in both if is_paused(executor)] or both
        for victim in victims:
            kill_tree(victim)
        wait_for(tmp_path / "done", process)
    check_output(tmp_path, pair)
