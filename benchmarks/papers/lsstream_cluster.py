"""The cluster that LS-Stream was measured on, as a virtual one: systems, data, prices, nodes.

The paper publishes neither its data nor its prices. What is assumed here was fitted to what it says
about BiStream and ContRand alone: the degree of imbalance of hashing (1.5 at z 0.4, 5.3 at z 0.8),
and both bottlenecks at z 0.2 and 1.0. FastJoin and LS-Stream were not fitted to, but what came of
them was seen while the others were: their figures are no blind predictions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from benchmarks.papers.contest import city_stream, spread
from benchmarks.papers.model import Scale, Verdict, worst
from skewless.arrays.types import Floats
from skewless.placement.balancing.auto import Auto
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.lsstream import LSStream, sojourn_ms
from skewless.placement.routing import ContRand, Hash
from skewless.placement.strategy import PlacementStrategy
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.costs import Costs, Scan
from skewless.simulation.report import BatchFigures
from skewless.simulation.workloads import Given, Shares, Stream

BISTREAM, CONTRAND, FASTJOIN, LSSTREAM, AUTO = (
    "BiStream", "ContRand", "FastJoin", "LS-Stream", "Auto",
)  # fmt: skip
PUBLISHED = (BISTREAM, CONTRAND, FASTJOIN, LSSTREAM)

KEYS = 300  # of the synthetic data
PARTITIONS = 4  # per instance, as in the paper's fig. 3
SUBGROUP = 2  # instances that share a key in ContRand
ORDER = 4  # of the Hilbert curve over the city: 256 cells
WINDOW_S = 10
STEP = 500  # rows a second, from one rate to the next
CORES = 2  # of a node

PRICES = Costs(
    row_ms=0.08, stored_ms=0.32, sent_ms=0.0, pair_ms=5e-6, migrated_ms=0.32, pause_ms=50.0
)
CITY_PRICES = replace(
    PRICES,
    **{name: 1.4 * getattr(PRICES, name) for name in ("row_ms", "stored_ms", "pair_ms")},
)  # fitted to BiStream's 15,500 rows/s on 14 nodes
OVERHEAD_MS = 160.0  # of a second, per instance: fitted to BiStream's decline beyond 48 instances
PRICES_TOLD = (
    f"{PRICES.row_ms:g} ms per row that probes, {PRICES.stored_ms:g} ms per row stored, "
    f"{1e6 * PRICES.pair_ms:g} ns per comparison, window {WINDOW_S} s; a migration stops both "
    f"instances for {PRICES.pause_ms:g} ms and {PRICES.migrated_ms:g} ms per row"
)
QUICK_WALK: Mapping[str, Any] = {"decay": 0.8, "rounds": 1}  # the paper gives no schedule


@dataclass(frozen=True)
class System:
    """A contestant: its strategy for so many instances, what its probes are compared with, its
    partitions per instance, and whether instances stop while rows move. Where they do not, as in
    this engine, a row that moves is read elsewhere from then on, for a quarter of a probe."""

    strategy: Callable[[int], PlacementStrategy]
    scan: Scan = "instance"
    partitions: int = PARTITIONS
    stops: bool = True

    def costs(self, prices: Costs) -> Costs:
        if self.stops:
            return replace(prices, scan=self.scan)
        return replace(prices, scan=self.scan, pause_ms=None, migrated_ms=prices.row_ms / 4)


def ls_stream(*, partitions: int = PARTITIONS, scan: Scan = "slot", **settings: Any) -> System:
    given = {"paper": True, **QUICK_WALK, "slots_per_instance": partitions, **settings}
    return System(lambda instances: LSStream(**given), scan, partitions)


def fast_join(scan: Scan = "instance") -> System:
    return System(lambda instances: FastJoin(paper=True, keys_watched="all"), scan)


SYSTEMS: Mapping[str, System] = {
    BISTREAM: System(lambda instances: Hash()),
    CONTRAND: System(lambda instances: ContRand(groups=max(1, instances // SUBGROUP))),
    FASTJOIN: fast_join(),
    LSSTREAM: ls_stream(),
    AUTO: System(lambda instances: Auto(), "key", 16, stops=False),
}

Reading = Literal["both", "one", "apart"]


@dataclass(frozen=True)
class Synthetic:
    """Both streams follow a Zipf law, with the same keys on top; or only `one` does and the other
    is uniform; or their hot keys are different ones, `apart`."""

    zipf: float
    keys: int = KEYS
    reading: Reading = "both"

    def stream(self, rate: float, seed: int) -> Stream:
        left, right = _zipf_shares(self.zipf, self.keys, self.reading, seed)
        rows = round(rate / 2)
        return Given(
            keys=len(left), rows_left=rows, rows_right=rows, seed=seed, of=lambda _: (left, right)
        )


TOLD, TOGETHER = 1_000, 4_000  # ranks told apart of very many keys, and groups of the others


@lru_cache(maxsize=64)
def _by_rank(zipf: float, keys: int) -> Floats:
    """Shares by rank. Of very many keys those of low rank are put together in groups, each lighter
    than a single hot key by far."""
    shares = np.arange(1, keys + 1, dtype=float) ** -zipf
    shares /= shares.sum()
    if keys > TOLD + TOGETHER:
        rest = np.full(TOGETHER, shares[TOLD:].sum() / TOGETHER)
        shares = np.concatenate([shares[:TOLD], rest])
    return shares


@lru_cache(maxsize=64)
def _zipf_shares(zipf: float, keys: int, reading: Reading, seed: int) -> Shares:
    left, rng = _by_rank(zipf, keys), np.random.default_rng(seed)
    ranks = rng.permutation(len(left))
    right = _by_rank(0.0 if reading == "one" else zipf, keys)
    return left[ranks], right[rng.permutation(len(right)) if reading == "apart" else ranks]


@dataclass(frozen=True)
class Didi:
    """The simulated city instead of the DiDi data: orders, and ten times as many tracks. With
    `drift` its hot spots move, five minutes of the morning rush every ten seconds."""

    order: int = ORDER
    drift: float = 0.0

    def stream(self, rate: float, seed: int) -> Stream:
        orders = round(rate / 11)
        tracks = round(rate) - orders
        return city_stream(seed, order=self.order, drift=self.drift, orders=orders, tracks=tracks)


Data = Synthetic | Didi


@dataclass(frozen=True)
class Bench:
    """Where a system runs. Instances are dealt to the nodes in turn; without `nodes` each has a
    core of its own. An instance takes `overhead_ms` of every second, whatever it does."""

    instances: int = 20
    nodes: int | None = None
    costs: Costs = PRICES
    seed: int = 0
    seconds: int = 24
    measured: int = 8
    overhead_ms: float = 0.0

    def steady(self, system: System, data: Data, rate: float) -> Steady:
        """A system at a rate, in the last seconds of a run."""
        told = _run(system, data, rate, self.instances, self.costs, self.seed, self.seconds)
        return Steady(self, told[-self.measured :])

    def each_second(self, system: System, data: Data, rate: float) -> list[Steady]:
        told = _run(system, data, rate, self.instances, self.costs, self.seed, self.seconds)
        return [Steady(self, (second,)) for second in told]

    def bottleneck(self, system: System, data: Data) -> float:
        """The highest rate that a system follows, in steps of 500 rows a second, as the paper
        raises it."""
        low, high, rate = 0, 1000, 16
        while high - low > 1:
            use = self.steady(system, data, STEP * rate).use
            low, high = (rate, high) if use <= 1 else (low, rate)
            # The next guess is where it would be full, were its use in proportion to the rate.
            rate = min(max(int(rate / use), low + 1), high - 1)
        return float(STEP * low)


def bench_for(scale: Scale, *args: Any, **settings: Any) -> Bench:
    """Runs of 24 seconds, of which the last 8 are measured; of 16 and 4, if it is to be quick."""
    seconds, measured = scale.pick((24, 8), (16, 4))
    return Bench(*args, **({"seconds": seconds, "measured": measured} | settings))


def city_bench(scale: Scale) -> Bench:
    """28 instances on 14 nodes, where nothing else is said."""
    return bench_for(scale, 28, 14, CITY_PRICES, overhead_ms=OVERHEAD_MS)


@dataclass(frozen=True, eq=False)
class Second:
    """A batch: each instance's time, how long of it it stood still, and the rows that probed."""

    busy_ms: Floats
    stopped_ms: Floats
    rows: Floats
    told: BatchFigures


@lru_cache(maxsize=4096)
def _run(
    system: System, data: Data, rate: float, instances: int, costs: Costs, seed: int, seconds: int
) -> tuple[Second, ...]:
    """Batches of a second each, from an empty system on. Which nodes the instances are on makes no
    difference to what they do, so runs are kept."""
    cluster = VirtualCluster(
        system.strategy(instances), instances, system.partitions * instances,
        system.costs(costs), window_batches=WINDOW_S, seed=seed,
    )  # fmt: skip
    stream, found = data.stream(rate, seed), []
    for number in range(seconds):
        told = cluster.step(stream.batch(number))
        found.append(Second(cluster.service_ms, cluster.stopped_ms, cluster.probing, told))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Steady:
    """The mean of some seconds."""

    bench: Bench
    seconds: tuple[Second, ...]

    def _mean(self, of: Callable[[Second], Floats]) -> Floats:
        mean: Floats = np.mean([of(second) for second in self.seconds], axis=0)
        return mean

    @property
    def imbalance(self) -> float:
        """The paper's degree (eq. 13)."""
        return statistics.fmean(second.told.deviation for second in self.seconds)

    @property
    def use(self) -> float:
        """Of the busiest instance or node, 1 being all of its time."""
        bench = self.bench
        busy = self._mean(lambda second: second.busy_ms) + bench.overhead_ms
        most = float(busy.max())
        if bench.nodes is not None:
            of_nodes = np.bincount(np.arange(bench.instances) % bench.nodes, busy)
            most = max(most, float(of_nodes.max()) / CORES)
        return most / 1000

    @property
    def latency_ms(self) -> float | None:
        """The mean over all rows of the paper's eq. 20, and what migrations make them wait. None:
        an instance or node cannot follow, and its rows would wait ever longer.

        A row that probes several instances is stored at one of them. So that it is not thought
        faster than others, what storing it takes counts in full."""
        if self.use >= 1:
            return None
        rows, busy = self._mean(lambda s: s.rows), self._mean(lambda s: s.busy_ms)
        waiting = self._mean(lambda s: s.stopped_ms**2 / 2000)  # who comes meanwhile waits
        there = rows > 0
        rows, busy, waiting = rows[there], busy[there], waiting[there]
        each = busy / rows
        copies = rows.sum() / statistics.fmean(second.told.rows for second in self.seconds)
        whole = each + self.bench.costs.stored_ms * (1 - 1 / copies)
        queued = [sojourn_ms(r / 1000, 1 / e) for r, e in zip(rows, each, strict=True)]
        return float(np.average(np.array(queued) * whole / each + waiting, weights=rows))


Seeds = Sequence[int]


def bottlenecks(bench: Bench, system: System, data: Data, seeds: Seeds) -> list[float]:
    """Seed by seed."""
    return [replace(bench, seed=seed).bottleneck(system, data) for seed in seeds]


def latencies(bench: Bench, system: System, data: Data, rate: float, seeds: Seeds) -> list[float]:
    """Seed by seed; none where one is saturated, as the mean of the others would mislead."""
    found = [replace(bench, seed=seed).steady(system, data, rate).latency_ms for seed in seeds]
    told = [value for value in found if value is not None]
    return told if len(told) == len(found) else []


def judged(numbers: Verdict, claims: Mapping[str, bool]) -> Verdict:
    """The verdict on a figure's numbers, given what it claims: opposite where the first claim does
    not hold, which is what the figure is shown for, or most do not; at best a trend where some do
    not.

    >>> judged("reproduced", {"rises": True, "is flat": True, "is first": False})
    'trend only'
    >>> judged("trend only", {"rises": True, "is flat": False})
    'opposite'
    >>> judged("reproduced", {"rises": False, "is flat": True, "is first": True})
    'opposite'
    """
    held = sum(claims.values())
    if numbers == "opposite" or not next(iter(claims.values())) or 2 * held <= len(claims):
        return "opposite"
    return numbers if held == len(claims) else worst([numbers, "trend only"])


def told(claims: Mapping[str, bool]) -> str:
    """What holds and what does not.

    >>> told({"rises": True, "is flat": False})
    'holds: rises; does not hold: is flat'
    """
    parts = [
        f"{word}: {'; '.join(name for name, holds in claims.items() if holds == which)}"
        for word, which in (("holds", True), ("does not hold", False))
        if which in claims.values()
    ]
    return "; ".join(parts)


def rising(values: Sequence[float], slack: float = 0.1) -> bool:
    """Whether values end higher than they began, and never fall by more than a share, the noise
    of few seeds.

    >>> rising([1, 2, 1.9, 3]), rising([1, 2, 1.5, 3]), rising([1, 1])
    (True, False, False)
    """
    steps = pairwise(values)
    return values[-1] > values[0] and all(b >= a * (1 - slack) for a, b in steps)


def even(values: Sequence[float], within: float = 0.15) -> bool:
    """Whether values stay within a share of their mean.

    >>> even([1.0, 1.1]), even([1.0, 2.0])
    (True, False)
    """
    mean = statistics.fmean(values)
    return all(abs(value - mean) <= within * mean for value in values)


def thousands(values: Sequence[float]) -> str:
    return spread([value / 1000 for value in values], "{:.1f} k")


def milliseconds(values: Sequence[float]) -> str:
    return spread(values, "{:.3f} ms")
