"""LS-Stream on the city: figs. 1 and 2 (its skew), 10 to 13 (nodes, instances, latency)."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.papers.contest import spread
from benchmarks.papers.lsstream_cluster import (
    AUTO,
    BISTREAM,
    CITY_PRICES,
    CONTRAND,
    CORES,
    FASTJOIN,
    LSSTREAM,
    ORDER,
    OVERHEAD_MS,
    PRICES,
    PUBLISHED,
    SYSTEMS,
    Bench,
    Didi,
    Seeds,
    bottlenecks,
    city_bench,
    judged,
    latencies,
    ls_stream,
    milliseconds,
    rising,
    thousands,
    told,
)
from benchmarks.papers.model import (
    Experiment,
    Item,
    Plot,
    Scale,
    Sheet,
    change,
    closeness,
    percent,
    worst,
)
from skewless.arrays.types import Floats
from skewless.placement.routing import Hash
from skewless.simulation.cluster import VirtualCluster

CITY = (
    "A simulated city in place of the DiDi data, which are not public any more: hot spots, with "
    "the skew that the FastJoin paper reports of them; orders, and ten times as many tracks."
)


def distribution(scale: Scale) -> Experiment:
    """Figs. 1 and 2: what hashing gives each of 100 instances."""
    seeds = range(scale.pick(10, 3))
    orders = scale.pick((3, 4, 5, 6, 7), (3, 4, 5))
    shares = {order: [_shares(order, seed) for seed in seeds] for order in orders}
    most = {order: _part(of, slice(0, 10)) for order, of in shares.items()}
    least = {order: _part(of, slice(-10, None)) for order, of in shares.items()}
    mine, none = most[ORDER], least[ORDER]
    busiest = [100 * float(of[0]) for of in shares[ORDER]]
    ours = f"top 10 %: {spread(mine, '{:.1f} %')}, bottom 10 %: {spread(none, '{:.2f} %')}"
    claims = {
        "the top tenth has several times its share": min(mine) > 20,
        "the bottom tenth has next to nothing": max(none) < 0.5,
    }
    why = "256 cells: the order of their Hilbert curve is not told, the sheet has others"
    rows = tuple(
        (str(order), str(4**order), spread(most[order], "{:.1f} %"),
         spread(least[order], "{:.2f} %"))
        for order in orders
    )  # fmt: skip
    return Experiment(
        "skew of the city",
        f"{CITY} A Hilbert curve of order {ORDER} over it: 256 keys, hashed to 100 instances. "
        f"{len(seeds)} cities, mean (least … most).",
        (
            Item(
                "fig. 1", "share of the rows of each of 100 instances", "uneven", "plot",
                f"the busiest has {spread(busiest, '{:.1f} %')}, the mean is 1 %",
                judged("trend only", claims), f"{told(claims)}; single shares are not told",
            ),
            Item(
                "fig. 2", "instances ranked by their rows",
                "top 10 %: 39.6 %, bottom 10 %: none", "text", ours,
                judged(closeness([statistics.fmean(mine)], [39.6]), claims), why,
            ),
        ),
        (Sheet("Rows of the top and bottom tenth of 100 instances",
               ("order", "cells", "top 10 %", "bottom 10 %"), rows),),
        (Plot("lsstream-ranked", "rows of instances, ranked (fig. 2)", "instance", "share in %",
              {f"{4**o} cells": [(float(i), 100 * float(v)) for i, v in enumerate(shares[o][0])]
               for o in orders}),),
    )  # fmt: skip


def _shares(order: int, seed: int) -> Floats:
    """The share of each instance, the largest first."""
    cluster = VirtualCluster(Hash(), 100, 100, window_batches=1, seed=seed)
    cluster.step(Didi(order).stream(1_000_000, seed).batch(0))
    return np.sort(cluster.probing / cluster.probing.sum())[::-1]


def _part(shares: Sequence[Floats], of: slice) -> list[float]:
    return [100 * float(each[of].sum()) for each in shares]


@dataclass(frozen=True)
class _Grid:
    """A figure per setting and system, one value for each seed."""

    of: Mapping[int, Mapping[str, list[float]]]

    def mean(self, setting: int, name: str) -> float:
        return statistics.fmean(self.of[setting][name])

    def over(self, setting: int) -> dict[str, float]:
        """Every system over BiStream."""
        return {name: self.mean(setting, name) / self.mean(setting, BISTREAM)
                for name in PUBLISHED}  # fmt: skip

    def first(self, setting: int, *, least: bool = False) -> str:
        names = sorted(PUBLISHED, key=lambda name: self.mean(setting, name), reverse=not least)
        return names[0]

    def column(self, name: str) -> list[float]:
        return [self.mean(setting, name) for setting in self.of]

    def lines(self) -> dict[str, list[tuple[float, float]]]:
        names = next(iter(self.of.values()))
        return {name: [(float(s), self.mean(s, name)) for s in self.of] for name in names}


def _grid(benches: Mapping[int, Bench], seeds: Seeds, rate: float | None = None) -> _Grid:
    """Bottlenecks, or with a rate latencies."""

    def of(bench: Bench, name: str) -> list[float]:
        if rate is None:
            return bottlenecks(bench, SYSTEMS[name], Didi(), seeds)
        return latencies(bench, SYSTEMS[name], Didi(), rate, seeds)

    return _Grid({s: {n: of(b, n) for n in (*PUBLISHED, AUTO)} for s, b in benches.items()})


def throughput(scale: Scale) -> Experiment:
    """Figs. 10 and 11."""
    seeds = range(scale.pick(3, 1))
    base = city_bench(scale)
    nodes = {n: replace(base, nodes=n) for n in scale.pick((6, 8, 10, 12, 14), (6, 14))}
    counts = scale.pick((12, 20, 28, 36, 48, 64), (12, 28, 48))
    on_nodes = _grid(nodes, seeds)
    on_instances = _grid({n: replace(base, instances=n) for n in counts}, seeds)
    by_memory = bottlenecks(base, BY_MEMORY, Didi(), seeds)
    sheets = [
        _sheet("Bottleneck by nodes, 28 instances (fig. 10)", "nodes", on_nodes),
        _sheet("Bottleneck by instances, 14 nodes (fig. 11)", "instances", on_instances),
    ]
    if not scale.quick:
        sheets.append(_overheads(base, counts))
    return Experiment(
        "throughput on the city",
        f"{CITY} 256 cells. Prices are {CITY_PRICES.row_ms / PRICES.row_ms:g} times those of the "
        f"synthetic data, fitted to BiStream's 15,500 rows/s on 14 nodes of {CORES} cores; an "
        f"instance takes {OVERHEAD_MS:g} ms of every second by itself, fitted to BiStream's "
        f"decline beyond 48. Instances are dealt to nodes in turn. {len(seeds)} cities, mean "
        "(least … most).",
        (_fig_10(on_nodes), _fig_11(on_instances, by_memory)),
        tuple(sheets),
        (
            Plot("lsstream-nodes", "bottleneck (fig. 10)", "nodes", "rows/s", on_nodes.lines()),
            Plot("lsstream-instances", "bottleneck (fig. 11)", "instances", "rows/s",
                 on_instances.lines()),
        ),
    )  # fmt: skip


FIG_10 = {
    6: {BISTREAM: 9_500, CONTRAND: 11_500, FASTJOIN: 13_000, LSSTREAM: 15_000},
    14: {BISTREAM: 15_500, CONTRAND: 19_500, FASTJOIN: 21_500, LSSTREAM: 25_500},
}


def _fig_10(grid: _Grid) -> Item:
    ours = [grid.mean(n, name) for n in FIG_10 for name in PUBLISHED]
    paper = [FIG_10[n][name] for n in FIG_10 for name in PUBLISHED]
    claims = {
        f"LS-Stream is before BiStream on {n} nodes": grid.over(n)[LSSTREAM] > 1 for n in (14, 6)
    }
    claims |= {f"{name}: more nodes, more throughput": grid.mean(14, name) > grid.mean(6, name)
               for name in PUBLISHED}  # fmt: skip
    claims |= {f"LS-Stream is first on {n} nodes": grid.first(n) == LSSTREAM for n in FIG_10}
    return Item(
        "fig. 10", "bottleneck with 28 instances on 6 and 14 nodes",
        "6: 9.5, 11.5, 13, 15 k; 14: 15.5, 19.5, 21.5, 25.5 k (BiStream, ContRand, FastJoin, "
        "LS-Stream)", "text",
        "; ".join(f"{n}: " + ", ".join(f"{grid.mean(n, name) / 1000:.1f}" for name in PUBLISHED)
                  + " k" for n in FIG_10),
        judged(closeness(ours, paper), claims), told(claims),
        f"Auto {grid.mean(6, AUTO) / 1000:.1f} and {grid.mean(14, AUTO) / 1000:.1f} k",
    )  # fmt: skip


FIG_11 = {BISTREAM: 1.0, CONTRAND: 1.52 / 1.27, FASTJOIN: 1.52 / 1.06, LSSTREAM: 1.52}


# What weighs partitions by the rows that they have, and has more of them to choose from.
BY_MEMORY = ls_stream(gamma=1.0, partitions=32, alpha=0.5)


def _fig_11(grid: _Grid, by_memory: Sequence[float]) -> Item:
    counts = list(grid.of)
    until = [n for n in counts if n <= 48]
    over = grid.over(28)
    claims = {f"LS-Stream is before {name}": over[LSSTREAM] > over[name] for name in PUBLISHED[:3]}
    claims |= {
        f"{name} rises up to 48 instances": rising([grid.mean(n, name) for n in until])
        for name in PUBLISHED
    }
    beyond = [n for n in counts if n > 48]
    if beyond:
        claims["they decline beyond 48"] = all(
            grid.mean(beyond[-1], name) < grid.mean(48, name) for name in PUBLISHED
        )
    gains = {name: percent(over[LSSTREAM], over[name]) for name in PUBLISHED[:3]}
    return Item(
        "fig. 11", "bottleneck by the number of instances, 14 nodes",
        "LS-Stream more than +52, +27, +6 % over BiStream, ContRand, FastJoin; rises up to 48 "
        "instances, declines beyond", "text",
        "at 28: " + ", ".join(f"{gain:+.0f}" for gain in gains.values()) + " %; BiStream "
        + ", ".join(f"{n}: {grid.mean(n, BISTREAM) / 1000:.1f}" for n in counts) + " k",
        judged(closeness(list(over.values()), list(FIG_11.values())), claims),
        f"{told(claims)}. {_why_11(grid, by_memory)}",
        f"Auto {percent(grid.mean(28, AUTO), grid.mean(28, BISTREAM)):+.0f} % over BiStream at 28",
    )  # fmt: skip


def _why_11(grid: _Grid, by_memory: Sequence[float]) -> str:
    """What LS-Stream loses by its own weights, and what it would have without them."""
    other = statistics.fmean(by_memory)
    gains = (percent(other, grid.mean(28, name)) for name in PUBLISHED[:3])
    return (
        "At gamma 0.5 it weighs rows times rows, while time is spent per row. At 28 instances the "
        f"same with gamma 1, which counts rows, 32 partitions each and alpha 0.5 has "
        f"{other / 1000:.1f} k: " + ", ".join(f"{gain:+.0f}" for gain in gains) + " %. How far "
        "hashing evens out, and so the order of the others, differs from city to city: see the "
        "least and the most"
    )


def _sheet(title: str, setting: str, grid: _Grid) -> Sheet:
    names = (*PUBLISHED, AUTO)
    rows = tuple((str(s), *(thousands(of[name]) for name in names)) for s, of in grid.of.items())
    return Sheet(f"{title}, rows a second", (setting, *names), rows)


def _overheads(base: Bench, counts: Sequence[int]) -> Sheet:
    """What an instance must cost by itself for throughput to decline, as the paper's does."""
    rows = []
    for overhead in (0, 80, 160, 240):
        of = [replace(base, instances=n, overhead_ms=overhead) for n in counts]
        rates = [b.bottleneck(SYSTEMS[BISTREAM], Didi()) for b in of]
        rows.append((f"{overhead} ms", *(f"{rate / 1000:.1f} k" for rate in rates)))
    return Sheet(
        "BiStream's bottleneck on 14 nodes where every instance takes so much of a second of its "
        "core by itself (one city): when it declines with more instances",
        ("overhead", *(f"{n} instances" for n in counts)), tuple(rows),
    )  # fmt: skip


def latency(scale: Scale) -> Experiment:
    """Figs. 12 and 13."""
    seeds = range(scale.pick(3, 1))
    base = city_bench(scale)
    counts = scale.pick((12, 20, 28, 36, 48), (12, 28))
    grid = _grid({n: replace(base, instances=n) for n in counts}, seeds, 3_000)
    drifting = replace(base, seconds=scale.pick(60, 24), measured=scale.pick(30, 12))
    after = {
        name: latencies(drifting, SYSTEMS[name], Didi(drift=0.2), 4_500, seeds)
        for name in (*PUBLISHED, AUTO)
    }
    names = (*PUBLISHED, AUTO)
    rows = tuple((str(n), *(milliseconds(of[name]) for name in names)) for n, of in grid.of.items())
    over_time = {name: _over_time(drifting, name) for name in names}
    return Experiment(
        "latency on the city",
        f"{CITY} Prices and nodes as for the throughput. Latency is the paper's own eq. 20, "
        "1/(μ − E) at every instance, the mean over all rows, with what migrations make them wait; "
        "nothing is added for the network, so that only ratios can be compared. For fig. 12 hot "
        f"spots drift. {len(seeds)} cities, mean (least … most). No system is saturated.",
        (_fig_12(after), _fig_13(grid)),
        (Sheet("Latency at 3,000 rows a second (fig. 13)", ("instances", *names), rows),
         Sheet("Latency at 4,500 rows a second, hot spots drifting (fig. 12)", names,
               (tuple(milliseconds(after[name]) for name in names),))),
        (Plot("lsstream-latency", "latency at 4,500 rows/s (fig. 12)", "second", "ms", over_time),),
    )  # fmt: skip


def _over_time(bench: Bench, name: str) -> list[tuple[float, float]]:
    seconds = bench.each_second(SYSTEMS[name], Didi(drift=0.2), 4_500)
    return [
        (float(at), value)
        for at, value in enumerate(second.latency_ms for second in seconds)
        if value is not None
    ]


FIG_12 = {BISTREAM: 10.3, CONTRAND: 8.5, FASTJOIN: 7.2, LSSTREAM: 5.4}


def _fig_12(after: Mapping[str, list[float]]) -> Item:
    mean = {name: statistics.fmean(values) for name, values in after.items()}
    ours = [mean[name] / mean[BISTREAM] for name in PUBLISHED]
    paper = [value / FIG_12[BISTREAM] for value in FIG_12.values()]
    less = {name: percent(mean[LSSTREAM], mean[name]) for name in PUBLISHED[:3]}
    claims = {f"LS-Stream is faster than {name}": by < 0 for name, by in less.items()}
    return Item(
        "fig. 12", "latency over time at 4,500 rows/s, when stable",
        "10.3, 8.5, 7.2, 5.4 ms: LS-Stream −47.5, −36.4, −25 %", "text",
        ", ".join(f"{mean[name]:.3f}" for name in PUBLISHED) + " ms: LS-Stream "
        + ", ".join(f"{by:+.1f}" for by in less.values()) + " %",
        judged(closeness(ours, paper), claims),
        f"{told(claims)}. By eq. 20 there is little to gain at this rate: Auto, which is nearly "
        f"even, has {percent(mean[AUTO], mean[BISTREAM]):+.1f} %",
        f"Auto {mean[AUTO]:.3f} ms",
    )  # fmt: skip


FIG_13 = {BISTREAM: -35.8, CONTRAND: -23.8, FASTJOIN: -18.0}


def _fig_13(grid: _Grid) -> Item:
    counts = list(grid.of)
    less = {
        name: statistics.fmean(percent(grid.mean(n, LSSTREAM), grid.mean(n, name)) for n in counts)
        for name in PUBLISHED[:3]
    }
    claims = {f"LS-Stream is faster than {name}": by < 0 for name, by in less.items()}
    claims |= {f"{name} falls with more instances": rising(grid.column(name)[::-1])
               for name in PUBLISHED}  # fmt: skip
    return Item(
        "fig. 13", "latency at 3,000 rows/s by the number of instances",
        "LS-Stream −35.8, −23.8, −18 %; all fall with more instances", "text",
        ", ".join(f"{by:+.1f}" for by in less.values()) + " % on the average; LS-Stream "
        + ", ".join(f"{n}: {grid.mean(n, LSSTREAM):.3f}" for n in counts) + " ms",
        judged(worst(change(less[name], paper) for name, paper in FIG_13.items()), claims),
        told(claims), f"Auto {grid.mean(28, AUTO):.3f} ms at 28",
    )  # fmt: skip


def run(scale: Scale) -> Iterator[Experiment]:
    yield throughput(scale)
    yield latency(scale)
