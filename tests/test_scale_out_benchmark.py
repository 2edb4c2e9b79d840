"""What `benchmarks.scale_out` makes of its figures; the cluster itself is under `make
test-cluster`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import scale_out_model
from benchmarks.scale_out import BYTES, CROSSING, OVER_TWO, REQUESTS, judge
from benchmarks.scale_out_model import IN_ALL, PER_HOST, Fit, Scale, foretell
from benchmarks.scale_out_query import FILES, SIDES, Feed

HOSTS = (1, 2, 4, 8)
SMALL = Scale(hosts=40, state_bytes=4e9, window_batches=40, interval_s=10.0)


def run(hosts: int, *, everything_everywhere: bool, batch: float = 1e7) -> dict[str, Any]:
    """The figures of an engine in which hosts share the bytes, or in which each reads all."""
    share = 1.0 if everything_everywhere else 1 / hosts

    def figures(batch_bytes: float) -> dict[str, Any]:
        return {
            "batch_bytes": batch_bytes,
            "rows": batch_bytes / 100,
            "received_per_host": 2e5 + share * batch_bytes,
            "cpu_per_host_s": 0.1 + 1e-7 * batch_bytes / hosts,
            "disk_per_host": 4 * share * batch_bytes,
            "reads": 10 + 5.0 * hosts * (hosts if everything_everywhere else 1),
            "writes": 10 + 3.0 * hosts,
            "requests": 20 + 8.0 * hosts,
            "driver_received": 1e4 * hosts,
            "driver_cpu_s": 0.2,
        }

    return figures(batch) | {"hosts": hosts, "window_batches": 4, "small": figures(batch / 4)}


@pytest.mark.parametrize(
    ("names", "terms"),
    [
        (PER_HOST, {"all": 3.0, "shared": 8.0}),
        (PER_HOST, {"shuffled": 5.0, "shared": 8.0}),
        (IN_ALL, {"all": 5.0, "each": 2.0}),
        (IN_ALL, {"each": 2.0, "each for each": 0.5}),
    ],
)
def test_fits_find_what_is_there(names: tuple[str, ...], terms: dict[str, float]) -> None:
    fit = Fit.of(HOSTS, [Fit(terms).at(n) for n in HOSTS], names)
    assert fit.at(1000) == pytest.approx(Fit(terms).at(1000), rel=1e-6)


def test_fits_never_go_below_zero() -> None:
    falling = Fit.of(HOSTS, [4.0, 3.0, 1.0, 0.5], IN_ALL)
    assert all(value >= 0 for value in falling.terms.values())
    assert falling.at(10**6) >= 0


def test_runs_are_judged_against_the_first() -> None:
    runs = [run(n, everything_everywhere=False) for n in HOSTS]
    judge(runs)
    assert [target["met"] for target in runs[-1]["targets"]] == [True] * 4
    runs = [run(n, everything_everywhere=True) for n in HOSTS]
    judge(runs)
    assert runs[-1]["ratios"][BYTES] == pytest.approx(8.0)
    assert runs[-1]["ratios"][REQUESTS] < 1
    assert [target["met"] for target in runs[-1]["targets"]] == [False, False, True, True]


def test_a_shuffle_is_no_fault_of_several_hosts() -> None:
    """One host shuffles to itself. Who receives what others have read, and no more, is in order."""
    runs = [run(n, everything_everywhere=False) for n in HOSTS]
    for one in runs:
        n = one["hosts"]
        one["received_per_host"] = 2e5 + (n - 1) / n**2 * one["batch_bytes"]
    judge(runs)
    assert [one["ratios"][CROSSING] for one in runs] == pytest.approx([1.0] * 4)
    assert OVER_TWO not in runs[0]["ratios"]
    assert runs[1]["ratios"][OVER_TWO] == 1.0
    assert runs[1]["ratios"][BYTES] > 20
    runs[-1]["received_per_host"] *= 1.5
    judge(runs)
    assert runs[-1]["ratios"][CROSSING] == pytest.approx(1.5)


def test_what_everyone_reads_grows_with_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one engine receives all of a batch on every host, the other a share of it."""
    monkeypatch.setattr(scale_out_model, "_balance", lambda *_: {"busiest_over_mean": 1.0})
    shared, all_of_it = (
        foretell([run(n, everything_everywhere=each) for n in HOSTS], SMALL)
        for each in (False, True)
    )
    batch = SMALL.batch_bytes
    assert shared["needs"]["network of a host"] == pytest.approx((2e5 + batch / 40) / 10, rel=1e-4)
    assert all_of_it["needs"]["network of a host"] == pytest.approx((2e5 + batch) / 10, rel=1e-4)
    assert shared["needs"]["disk of a host"] == pytest.approx(4e9 / 40, rel=1e-4)
    assert all_of_it["needs"]["requests that read"] == pytest.approx((10 + 5 * 1600) / 10, rel=1e-4)
    assert all_of_it["breaks_first"] != ""


def test_balance_is_that_of_the_virtual_cluster() -> None:
    found = scale_out_model._balance(SMALL, 0.001, 200_000)
    assert 1.0 <= found["busiest_over_mean"] < 2.0


def test_batches_are_the_same_for_any_hosts(tmp_path: Path) -> None:
    feed = Feed(rows=800, small=1)
    feed.write(tmp_path, batches=2)
    for number, side in enumerate(SIDES):
        for batch, rows in enumerate((200, 800)):
            files = sorted((tmp_path / side).glob(f"{batch:05d}-*.parquet"))
            assert len(files) == FILES
            assert len({file.stat().st_mtime for file in files}) == 1
            stored = pq.read_table(files)
            assert len(stored) == rows
            assert stored.equals(feed.table(number, batch))
    counts = np.unique(feed.table(0, 1)["l_key"].to_numpy(), return_counts=True)[1]
    assert counts.max() > 80  # one key has more than a tenth
