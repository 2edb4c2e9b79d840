"""LS-Stream's threshold: figs. 14 and 15, and `alpha="auto"` beside fixed ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from benchmarks.papers.contest import spread
from benchmarks.papers.lsstream_cluster import (
    KEYS,
    PRICES,
    WINDOW_S,
    Seeds,
    Synthetic,
    System,
    bench_for,
    bottlenecks,
    even,
    judged,
    latencies,
    ls_stream,
    milliseconds,
    rising,
    thousands,
    told,
)
from benchmarks.papers.lsstream_skew import DATA, imbalances
from benchmarks.papers.model import Experiment, Item, Plot, Scale, Sheet, closeness, percent
from skewless.placement.routing import Hash
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.workloads import Stream, Zipf

ALPHAS = (0.5, 1.0, 2.0, 4.0, 6.0)
ZIPFS = (0.4, 0.6, 0.8)
AT_REST = System(lambda instances: Hash(), "slot")  # as LS-Stream sees what is only hashed
Swept = Mapping[float, Mapping[float, list[float]]]


def thresholds(scale: Scale) -> Experiment:
    """Figs. 14 and 15."""
    seeds = range(scale.pick(3, 1))
    systems = {alpha: ls_stream(alpha=alpha) for alpha in ALPHAS}
    base = bench_for(scale)
    most = {z: {a: bottlenecks(base, s, Synthetic(z), seeds) for a, s in systems.items()}
            for z in scale.pick(ZIPFS, (0.4, 0.8))}  # fmt: skip
    waits = {z: {a: latencies(base, s, Synthetic(z), 3_000, seeds) for a, s in systems.items()}
             for z in scale.pick(ZIPFS, (0.6,))}  # fmt: skip
    degrees = {z: imbalances(base, AT_REST, Synthetic(z), seeds) for z in ZIPFS}
    head = ("z", "LI of hashing", *(f"alpha {alpha:g}" for alpha in ALPHAS))

    def row(z: float, cells: Sequence[str]) -> tuple[str, ...]:
        return f"{z:g}", spread(degrees[z], "{:.2f}"), *cells

    return Experiment(
        "threshold of imbalance",
        f"{DATA} Degrees of hashing are LS-Stream's own, partition by partition. {len(seeds)} "
        "seeds, mean (least … most).",
        (_fig_14(most, degrees), _fig_15(waits, degrees)),
        (
            Sheet("Bottleneck by alpha, rows a second (fig. 14)", head,
                  tuple(row(z, [thousands(v) for v in most[z].values()]) for z in most)),
            Sheet("Latency by alpha at 3,000 rows a second (fig. 15)", head,
                  tuple(row(z, [milliseconds(v) for v in waits[z].values()]) for z in waits)),
        ),
        (
            Plot("lsstream-alpha", "bottleneck (fig. 14)", "alpha", "rows/s", _lines(most)),
            Plot("lsstream-alpha-latency", "latency (fig. 15)", "alpha", "ms", _lines(waits)),
        ),
    )  # fmt: skip


def _lines(swept: Swept) -> dict[str, list[tuple[float, float]]]:
    return {f"z {z:g}": list(zip(ALPHAS, _means(of), strict=True)) for z, of in swept.items()}


def _means(of: Mapping[float, list[float]]) -> list[float]:
    return [statistics.fmean(values) for values in of.values()]


def _fig_14(most: Swept, degrees: Mapping[float, list[float]]) -> Item:
    low, high = _means(most[0.4]), _means(most[0.8])
    degree = {z: statistics.fmean(degrees[z]) for z in (0.4, 0.8)}
    claims = {
        "z 0.4: a threshold below the degree of imbalance gains": low[0] > low[2] * 1.02,
        "z 0.4: from 2 on it is all the same": even(low[2:], 0.05),
        "z 0.8: every higher threshold is worse": all(a > b for a, b in pairwise(high)),
        "z 0.8: the highest is the worst": high[-1] < min(high[:-1]),
        "the degree at z 0.4 is below 2, at z 0.8 above 4": degree[0.4] < 2 and degree[0.8] > 4,
    }
    return Item(
        "fig. 14", "bottleneck over alpha, z 0.4 and 0.8",
        "z 0.4 (LI 1.5): the same from alpha 2 on; z 0.8 (LI 5.3): declines throughout", "text",
        f"z 0.4 (LI {degree[0.4]:.1f}): {_told(low)} k; z 0.8 (LI {degree[0.8]:.1f}): "
        f"{_told(high)} k, for alpha {_alphas()}",
        judged(closeness(list(degree.values()), [1.5, 5.3]), claims), told(claims),
        "alpha 'auto': see the sheet of fixed and adaptive thresholds",
    )  # fmt: skip


def _fig_15(waits: Swept, degrees: Mapping[float, list[float]]) -> Item:
    of, degree = _means(waits[0.6]), statistics.fmean(degrees[0.6])
    at = ALPHAS.index(4.0)
    claims = {
        "z 0.6: latency rises up to a threshold of 4": rising(of[: at + 1], 0.001),
        "and is the same from there on": even(of[at:], 0.01),
        "the degree at z 0.6 is between 2 and 4": 2 < degree < 4,
    }
    shown = ", ".join(f"{value:.4f}" for value in of)
    return Item(
        "fig. 15", "latency over alpha, z 0.6, 3,000 rows/s",
        "rises until alpha 4, then stable", "text",
        f"{shown} ms for alpha {_alphas()}; LI of hashing {degree:.1f}",
        judged("reproduced", claims), told(claims),
    )  # fmt: skip


def _told(values: Sequence[float]) -> str:
    return ", ".join(f"{value / 1000:.1f}" for value in values)


def _alphas() -> str:
    return ", ".join(f"{alpha:g}" for alpha in ALPHAS)


RATE = 10_000


def adaptive(scale: Scale) -> Experiment:
    """What a threshold costs in the long run, and what setting none does."""
    seeds, seconds = range(scale.pick(2, 1)), scale.pick(240, 40)
    streams = {
        **{f"z {z:g}, steady": _Drifting(z, None)
           for z in scale.pick((0.4, 0.6, 0.8, 1.0), (0.4,))},
        **{f"z {z:g}, another skew every {every} s": _Drifting(z, every)
           for z, every in scale.pick(((0.6, 5), (0.6, 20), (0.8, 20)), ((0.6, 5),))},
    }  # fmt: skip
    rows = []
    for name, drifting in streams.items():
        fixed = {a: _busiest(a, drifting, seconds, seeds) for a in ALPHAS}
        auto = _busiest("auto", drifting, seconds, seeds)
        best = min(statistics.fmean(v) for v in fixed.values())
        told_of = [f"{statistics.fmean(v):.0f}" for v in fixed.values()]
        rows.append((name, *told_of, spread(auto, "{:.0f}"),
                     f"{percent(statistics.fmean(auto), best):+.1f} %"))  # fmt: skip
    head = ("stream", *(f"alpha {a:g}" for a in ALPHAS), "alpha 'auto'", "against the best fixed")
    return Experiment(
        "no threshold at all",
        "`alpha='auto'` moves partitions once imbalance has cost as much as moving them would. "
        f"{KEYS} keys on both sides, {RATE:,} rows a second, 20 instances, window {WINDOW_S} s, "
        f"{seconds} s from an empty system on; with drift all ranks are dealt anew. A migration "
        f"stops both instances for {PRICES.pause_ms:g} ms and {PRICES.migrated_ms:g} ms per row. "
        "Lower is better: what a fixed threshold gains on steady data it loses where the skew "
        f"changes. {len(seeds)} seeds, mean (least … most).",
        (),
        (Sheet("Milliseconds of each second that the busiest instance is busy or stopped", head,
               tuple(rows)),),
    )  # fmt: skip


@dataclass(frozen=True)
class _Drifting:
    zipf: float
    every: int | None

    def stream(self, seconds: int, seed: int) -> Stream:
        dealt = () if self.every is None else tuple(range(self.every, seconds, self.every))
        return Zipf(
            keys=KEYS, left=self.zipf, right=self.zipf, rows_left=RATE // 2, rows_right=RATE // 2,
            seed=seed, reshuffled=dealt,
        )  # fmt: skip


def _busiest(
    alpha: float | Literal["auto"], drifting: _Drifting, seconds: int, seeds: Seeds
) -> list[float]:
    """Pauses included, from the first second on."""
    system, found = ls_stream(alpha=alpha), []
    for seed in seeds:
        cluster = VirtualCluster(
            system.strategy(20), 20, 20 * system.partitions, system.costs(PRICES), WINDOW_S, seed
        )
        stream = drifting.stream(seconds, seed)
        told = cluster.run(stream.batch(i) for i in range(seconds))
        found.append(statistics.fmean(batch.busiest_ms for batch in told))
    return found
