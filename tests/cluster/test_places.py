"""Rows are put together on the host that works on them, so that it need not fetch them."""

from __future__ import annotations

import pytest

import skewless as sk
from benchmarks.scale_out import PROGRAM
from benchmarks.scale_out_query import Feed
from tests.cluster.machines import Cluster, wait_until

BATCHES, ROWS = 5, 4_000

pytestmark = pytest.mark.timeout(900)


def test_what_stays_is_not_fetched(cluster: Cluster) -> None:
    """Without moves, hosts fetch next to nothing of what they and others have written."""
    inputs = cluster.folder / "places-inputs"
    Feed(ROWS, 0).write(inputs, BATCHES)
    config = {
        "inputs": str(inputs),
        "checkpoint": cluster.uri("places"),
        "instances": len(cluster.workers),
        "balanced": False,
    }
    done = cluster.bucket / "places" / "commits" / str(BATCHES - 1)
    with cluster.driver(PROGRAM, config) as driver:
        wait_until(lambda: done.exists() or not driver.is_alive, "all batches", cluster)
        assert done.exists(), driver.last_words()
    reports = sk.history(str(cluster.bucket / "places"))
    workers = {host.address for host in cluster.workers}
    counts = [of for report in reports[1:] for host, of in report.hosts.items() if host in workers]
    written = sum(of.get("written_bytes", 0) for of in counts)
    assert written > 0
    assert sum(of.get("fetched_bytes", 0) for of in counts) < 0.1 * written
