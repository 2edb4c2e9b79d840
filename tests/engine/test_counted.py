"""Load is told by counted work at fitted prices, whatever the clock says of one batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skewless.engine.counted import WorkPrices
from skewless.engine.report import (
    InstanceLoad,
    InstanceReport,
    OperatorReport,
    loads_ms,
)
from skewless.placement.balancing.imbalance import max_over_mean
from skewless.placement.prices import Prices

TRUE_MS = {"rows": 3e-4, "pairs": 1e-5, "matches": 2e-5, "bytes_out": 1e-6}


def report_of(load: InstanceLoad) -> InstanceReport:
    return InstanceReport(load)


def some_loads(rng: np.random.Generator, instances: int, noise: float) -> list[InstanceLoad]:
    """Instances whose work differs, and whose clocks are off."""
    loads = []
    for i in range(instances):
        counts = {
            "rows": int(rng.integers(1_000, 9_000)),
            "pairs": int(rng.integers(10_000, 900_000)),
            "matches": int(rng.integers(0, 100_000)),
            "bytes_out": int(rng.integers(0, 10_000_000)),
        }
        ms = sum(TRUE_MS[name] * count for name, count in counts.items())
        loads.append(InstanceLoad(i, **counts, time_ms=ms * rng.uniform(1 - noise, 1 + noise)))
    return loads


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_prices_are_found(noise: float) -> None:
    rng, prices = np.random.default_rng(7), WorkPrices()
    for _ in range(60):
        told = prices.priced([report_of(load) for load in some_loads(rng, 16, noise)])
    for load in (report.load for report in told):
        meant = sum(price * getattr(load, name) for name, price in TRUE_MS.items())
        assert load.work_ms == pytest.approx(meant, rel=0.02 if not noise else 0.25)


def test_what_is_paid_for_once_is_no_price() -> None:
    """Two instances of eight load code that nobody has used before, as after the first change of a
    placement: they take many times as long as ever, once."""
    rng, prices = np.random.default_rng(9), WorkPrices()

    def batch(*extra: float) -> list[float]:
        loads = some_loads(rng, 8, 0.1)
        late = dict(enumerate(extra))
        slow = [replace(load, time_ms=load.time_ms + late.get(load.instance, 0)) for load in loads]
        told = prices.priced([report_of(load) for load in slow])
        return [r.load.work_ms / before.time_ms for r, before in zip(told, loads, strict=True)]

    for _ in range(5):
        batch()
    # All take about 15 ms: without a bound, these two would triple what everything seems to cost.
    assert sum(batch(300.0, 300.0)) / 8 < 2.0
    assert [np.mean(batch()) for _ in range(8)][-1] == pytest.approx(1.0, abs=0.15)


def test_nothing_that_was_done_has_no_price() -> None:
    """Keys with places of their own cost a clock's tick while there are none."""
    prices = Prices([1e-4, 2e-5])
    for _ in range(4):
        prices.learn(np.zeros((2, 2)), np.array([0.001, 0.002]))
    assert not prices.known and prices.now.tolist() == [1e-4, 2e-5]
    for _ in range(2):
        prices.learn(np.array([[1_000.0, 0.0], [0.0, 1_000.0]]), np.array([3.0, 5.0]))
    assert prices.known and prices.now == pytest.approx([3e-3, 5e-3], rel=0.02)


def test_a_price_that_stays_high_is_believed() -> None:
    rng, prices = np.random.default_rng(10), WorkPrices()
    for times in (1.0, 50.0):
        for _ in range(25):
            loads = [replace(x, time_ms=x.time_ms * times) for x in some_loads(rng, 8, 0.0)]
            told = prices.priced([report_of(load) for load in loads])
    assert [r.load.work_ms for r in told] == pytest.approx([x.time_ms for x in loads], rel=0.05)


def test_even_work_is_told_as_even_whatever_was_measured() -> None:
    rng, prices = np.random.default_rng(8), WorkPrices()
    for _ in range(20):
        times = rng.uniform(5, 40, 8)
        loads = [InstanceLoad(i, rows=2_000, pairs=9_000, time_ms=ms) for i, ms in enumerate(times)]
        told = tuple(r.load for r in prices.priced([report_of(load) for load in loads]))
        report = OperatorReport(name="join", instances=told)
        assert report.busiest_over_mean == pytest.approx(1.0, abs=1e-3)
        assert report.measured_over_mean == pytest.approx(max(times) / np.mean(times))


def test_uneven_work_is_told_as_uneven() -> None:
    prices = WorkPrices()
    for _ in range(3):
        loads = [InstanceLoad(i, rows=100 * (i + 1), time_ms=10.0) for i in range(2)]
        told = [r.load for r in prices.priced([report_of(load) for load in loads])]
        assert max_over_mean(loads_ms(told)) == pytest.approx(4 / 3, abs=1e-2)


def test_who_did_not_work_is_left_out() -> None:
    working = report_of(InstanceLoad(1, rows=5, time_ms=1.0))
    first, second = WorkPrices().priced([None, working])
    assert first is None
    assert second is not None and second.load.work_ms > 0
    assert WorkPrices().priced([]) == []


def test_reports_of_earlier_versions_are_judged_by_their_time() -> None:
    loads = (InstanceLoad(0, rows=5, time_ms=30.0), InstanceLoad(1, rows=5, time_ms=10.0))
    assert OperatorReport(name="join", instances=loads).busiest_over_mean == 1.5
