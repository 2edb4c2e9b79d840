"""LS-Stream's evaluation: its virtual cluster is what it says, verdicts follow the figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.papers import lsstream
from benchmarks.papers.document import all_items
from benchmarks.papers.lsstream_alpha import _fig_14, _fig_15
from benchmarks.papers.lsstream_city import FIG_10, _fig_10, _fig_12, _Grid
from benchmarks.papers.lsstream_cluster import (
    AUTO,
    BISTREAM,
    CONTRAND,
    FASTJOIN,
    LSSTREAM,
    PRICES,
    PUBLISHED,
    STEP,
    SYSTEMS,
    Bench,
    Didi,
    Synthetic,
    bottlenecks,
    latencies,
)
from benchmarks.papers.lsstream_skew import Measured, _fig_7, _fig_8, _fig_9
from benchmarks.papers.model import Scale
from benchmarks.papers.running import measured

ZIPFS = (0.2, 0.4, 0.8, 1.0)


def same(values: dict[str, tuple[float, ...]]) -> dict[float, dict[str, list[float]]]:
    """Figures of one seed, z by z."""
    return {z: {n: [v[i]] for n, v in values.items()} for i, z in enumerate(ZIPFS)}


def as_published() -> Measured:
    return Measured(
        same({BISTREAM: (0.5, 1.5, 5.3, 8), CONTRAND: (0.4, 1, 3, 4), FASTJOIN: (0.5,) * 4,
              LSSTREAM: (0.5,) * 4, AUTO: (0.1,) * 4}),
        same({BISTREAM: (29_500, 26_000, 18_000, 11_000),
              CONTRAND: (28_500, 26_000, 20_000, 14_500),
              FASTJOIN: (29_500, 27_000, 25_000, 24_000),
              LSSTREAM: (29_500, 27_000, 26_000, 24_000), AUTO: (29_500,) * 4}),
        same({BISTREAM: (5, 6, 8, 10), CONTRAND: (5, 6, 7, 8.3), FASTJOIN: (6.1,) * 4,
              LSSTREAM: (5.07,) * 4, AUTO: (4,) * 4}),
    )  # fmt: skip


def test_figures_as_published_are_reproduced() -> None:
    found = as_published()
    assert [f(found).verdict for f in (_fig_7, _fig_8, _fig_9)] == ["reproduced"] * 3
    grid = _Grid({n: {name: [float(v)] for name, v in (of | {AUTO: 1}).items()}
                  for n, of in FIG_10.items()})  # fmt: skip
    assert _fig_10(grid).verdict == "reproduced"
    times = dict(zip((*PUBLISHED, AUTO), ([10.3], [8.5], [7.2], [5.4], [1.0]), strict=True))
    assert _fig_12(times).verdict == "reproduced"


def test_figures_the_other_way_round_are_opposite() -> None:
    """BiStream and LS-Stream change places."""
    found, swap = as_published(), {BISTREAM: LSSTREAM, LSSTREAM: BISTREAM}

    def swapped(
        figures: dict[float, dict[str, list[float]]],
    ) -> dict[float, dict[str, list[float]]]:
        return {z: {swap.get(n, n): v for n, v in of.items()} for z, of in figures.items()}

    wrong = Measured(*(swapped(dict(f)) for f in vars(found).values()))  # type: ignore[arg-type]
    assert [f(wrong).verdict for f in (_fig_7, _fig_8, _fig_9)] == ["opposite"] * 3
    times = dict(zip((*PUBLISHED, AUTO), ([5.4], [7.2], [8.5], [10.3], [1.0]), strict=True))
    assert _fig_12(times).verdict == "opposite"


def swept(*values: float) -> dict[float, list[float]]:
    return {alpha: [value] for alpha, value in zip((0.5, 1, 2, 4, 6), values, strict=True)}


def test_thresholds_are_judged_by_where_they_stop_to_matter() -> None:
    degrees = {0.4: [1.5], 0.6: [3.0], 0.8: [5.3]}
    most = {0.4: swept(30, 28, 26, 26, 26), 0.8: swept(25, 24, 23, 22, 20)}
    assert _fig_14(most, degrees).verdict == "reproduced"
    assert _fig_14(most | {0.8: swept(22, 22, 22, 22, 20)}, degrees).verdict == "trend only"
    nothing = {0.4: swept(26, 26, 26, 26, 26), 0.8: swept(22, 22, 22, 22, 22)}
    assert _fig_14(nothing, degrees).verdict == "opposite"
    assert _fig_15({0.6: swept(5, 5.5, 6, 7, 7)}, degrees).verdict == "reproduced"
    assert _fig_15({0.6: swept(7, 6, 5, 4, 3)}, degrees).verdict == "opposite"


def test_a_bottleneck_is_the_highest_rate_that_fits() -> None:
    bench = Bench(instances=4, seconds=12, measured=2)
    system, data = SYSTEMS[BISTREAM], Synthetic(0.6)
    rate = bench.bottleneck(system, data)
    assert bench.steady(system, data, rate).use <= 1 < bench.steady(system, data, rate + STEP).use
    dearer = replace(bench, costs=replace(PRICES, stored_ms=2 * PRICES.stored_ms))
    assert dearer.bottleneck(system, data) < rate
    assert bottlenecks(bench, system, data, [0, 0]) == [rate, rate]


def test_few_nodes_and_busy_instances_bound_the_rate() -> None:
    bench = Bench(instances=8, seconds=12, measured=2)
    system, data = SYSTEMS[BISTREAM], Didi(3)
    alone, four, one = (replace(bench, nodes=n).bottleneck(system, data) for n in (None, 4, 1))
    assert one < four <= alone
    assert replace(bench, overhead_ms=300).bottleneck(system, data) < alone


def test_a_saturated_system_has_no_latency() -> None:
    bench = Bench(instances=4, seconds=12, measured=2)
    system, data = SYSTEMS[BISTREAM], Synthetic(0.6)
    calm, busy = (latencies(bench, system, data, rate, [0, 1]) for rate in (500, 4_000))
    assert 0 < np.mean(calm) < np.mean(busy)
    assert latencies(bench, system, data, 100_000, [0]) == []


def test_latency_is_eq_20_at_every_instance() -> None:
    bench = Bench(instances=4, seconds=12, measured=2)
    steady = bench.steady(SYSTEMS[BISTREAM], Synthetic(0.6), 2_000)
    rows = np.mean([second.rows for second in steady.seconds], axis=0)
    busy = np.mean([second.busy_ms for second in steady.seconds], axis=0)
    per_ms = rows / 1000
    assert steady.latency_ms == pytest.approx(np.average(1 / (rows / busy - per_ms), weights=rows))


def test_many_keys_are_put_together_without_losing_rows() -> None:
    for keys in (300, 1_000_000):
        stream = Synthetic(1.0, keys).stream(2_000, 0)
        left, right = stream.shares(0)
        assert left.sum() == pytest.approx(1)
        assert np.array_equal(left, right)
        assert left.max() == pytest.approx(1 / sum(1 / r for r in range(1, keys + 1)), rel=1e-6)
    left, right = Synthetic(1.0, reading="one").stream(2_000, 0).shares(0)
    assert left.max() > 10 * right.max()
    left, right = Synthetic(1.0, reading="apart").stream(2_000, 0).shares(0)
    assert sorted(left) == sorted(right)
    assert not np.array_equal(left, right)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_quick_run_judges_every_figure() -> None:
    items = all_items(measured(lsstream.PAPER, Scale(quick=True)))
    verdicts = {item.item: item.verdict for item in items}
    assert set(lsstream.PAPER.expected) <= set(verdicts)
    assert not {"not attempted", "not comparable"} & set(verdicts.values())
    assert verdicts["fig. 2"] == "reproduced"
