"""Real queries on a real cluster, with checkpoints and output on S3, and what may befall them: the
results are those of the oracle, to the last row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.machines import Cluster
from tests.cluster.stories import Run, running, stories_of
from tests.spark.query_kits import AGGREGATE, JOIN, JOIN_AGGREGATE, similarity, three_way

ALL = (JOIN, three_way("auto"), similarity("auto", "auto"), AGGREGATE, JOIN_AGGREGATE)
TWO = (JOIN, JOIN_AGGREGATE)
CUT_S = 20.0
ONE_WORKER = {"spark.cores.max": "1"}  # of two: so another driver gets the other

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(autouse=True)
def _store_is_well(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.disturb_store()


def test_queries(cluster: Cluster) -> None:
    stories = stories_of(cluster, ALL, "queries", batches=4)
    with running(cluster, stories) as run:
        run.finish()


def test_worker_that_is_killed(cluster: Cluster) -> None:
    """All that runs on one of two hosts, in the midst of a batch."""
    stories = stories_of(cluster, TWO, "killed", batches=4)
    victim = cluster.workers[-1]
    try:
        with running(cluster, stories) as run:
            run.wait_for_commit(0)
            cluster.kill_host(victim)
            assert any(story.pending for story in stories)
            run.finish()
    finally:
        cluster.start_worker(victim)
        cluster.wait_for_worker(victim)


def test_link_that_is_cut(cluster: Cluster) -> None:
    """A worker is silent for 20 seconds: nobody knows whether it is dead."""
    stories = stories_of(cluster, TWO, "cut", batches=4)
    victim = cluster.workers[-1]
    with running(cluster, stories) as run:
        run.wait_for_commit(0)
        cluster.network.cut(victim)
        try:
            assert any(story.pending for story in stories)
            time.sleep(CUT_S)
        finally:
            cluster.network.mend(victim)
        run.finish()


def test_store_that_is_slow_and_failing(cluster: Cluster) -> None:
    """100 ms for each request, of which every twentieth fails: refused, or done without answer."""
    stories = stories_of(cluster, TWO, "failing", batches=4)
    cluster.disturb_store(delay_ms=100, failing=0.05)
    with running(cluster, stories) as run:
        run.finish()


def test_second_driver_in_mid_batch(cluster: Cluster) -> None:
    """Of two drivers on one checkpoint exactly one goes on. The other names it and has done no
    harm."""
    # So many that the first is still at work when the second has started.
    (story,) = stories_of(cluster, [JOIN], "second", batches=60)
    with running(cluster, [story], settings=ONE_WORKER) as first:
        first.wait_for_commit(0)
        assert story.pending
        with running(cluster, [story], "driver2", 1, settings=ONE_WORKER) as second:
            exactly_one_goes_on([first, second])
    story.check()


def test_driver_that_only_seemed_dead(cluster: Cluster) -> None:
    """The first driver is silent until a second one has taken its place; then it is back."""
    (story,) = stories_of(cluster, [JOIN], "seemed", batches=8)
    with running(cluster, [story], settings=ONE_WORKER) as first:
        first.wait_for_commit(0)
        cluster.network.cut(first.driver.host)
        try:
            before = story.committed()
            with running(cluster, [story], "driver2", 1, settings=ONE_WORKER) as second:
                second.wait_for_commit(before + 1)
                cluster.network.mend(first.driver.host)
                assert exactly_one_goes_on([first, second]) is second
        finally:
            cluster.network.mend(first.driver.host)
    story.check()


SPARKS_OWN = ("Concurrent update to the log", "Multiple streaming queries are concurrently using")


def exactly_one_goes_on(runs: list[Run]) -> Run:
    """Whichever it is; the other's error names it. One that was silent for long may find that
    Spark's own log has gone on without it, before it comes to ours."""
    with ThreadPoolExecutor() as pool:
        told = list(pool.map(Run.wait, runs))
    assert sorted(map(len, told)) == [0, 1], told
    winner = runs[1] if told[0] else runs[0]
    ((error,),) = [failed.values() for failed in told if failed]
    if any(said in error for said in SPARKS_OWN):
        return winner
    assert "CheckpointInUseError" in error, error
    assert f"process {winner.driver.process.pid}" in error, error
    return winner
