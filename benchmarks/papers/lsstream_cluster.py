"""The cluster that LS-Stream was measured on, as a virtual one: systems, data, prices, nodes.

The paper publishes neither its data nor its prices. What is assumed here was fitted to what it says
about BiStream and ContRand alone (`fitted` in `lsstream.py` shows how well), so that all figures of
FastJoin and LS-Stream are predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.auto import Auto
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.lsstream import LSStream, sojourn_ms
from skewless.placement.routing import ContRand, Hash
from skewless.placement.strategy import PlacementStrategy
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.costs import Costs, Scan
from skewless.simulation.workloads import Given, Shares, Stream
from skewless.workloads.ride_hailing import City
from skewless.workloads.zipf import EPOCH

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


TOLD, TOGETHER = 2_000, 8_000  # ranks told apart of very many keys, and groups of the others


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
        city = _city(self.order, self.drift, seed)
        left = round(rate / 11)

        def of(number: int) -> Shares:
            return city[min(number // 10, len(city) - 1)]

        return Given(
            keys=4**self.order, rows_left=left, rows_right=round(rate) - left, seed=seed, of=of
        )


@lru_cache(maxsize=64)
def _city(order: int, drift: float, seed: int) -> list[Shares]:
    city = City(order=order, seed=seed + 7, drift=drift)
    at = [EPOCH.replace(hour=6 + i // 12, minute=5 * (i % 12), second=0) for i in range(24)]
    return [(city.order_shares(time), city.track_shares(time)) for time in at]


Data = Synthetic | Didi


@dataclass(frozen=True)
class Bench:
    """Where a system runs. Instances are dealt to the nodes in turn; without `nodes` each has a
    core of its own. An instance takes `overhead_ms` of every second, whatever it does."""

    instances: int = 20
    nodes: int | None = None
    costs: Costs = PRICES
    seed: int = 0
    batches: int = 24
    measured: int = 8
    overhead_ms: float = 0.0

    def cluster(self, system: System) -> VirtualCluster:
        return VirtualCluster(
            system.strategy(self.instances), self.instances, system.partitions * self.instances,
            system.costs(self.costs), window_batches=WINDOW_S, seed=self.seed,
        )  # fmt: skip

    def steady(self, system: System, data: Data, rate: float) -> Steady:
        """A system at a rate: batches of a second each, of which the last are measured."""
        cluster, stream = self.cluster(system), data.stream(rate, self.seed)
        told, busy, stopped, rows = [], [], [], []
        for number in range(self.batches):
            told.append(cluster.step(stream.batch(number)))
            busy.append(cluster.service_ms)
            stopped.append(cluster.stopped_ms)
            rows.append(cluster.probing)
        last = slice(-self.measured, None)
        return Steady(
            self,
            np.mean(busy[last], axis=0),
            np.mean(rows[last], axis=0),
            np.mean([s**2 / 2000 for s in stopped[last]], axis=0),
            float(np.sum(rows[last]) / sum(batch.rows for batch in told[last])),
            float(np.mean([batch.deviation for batch in told[last]])),
            sum(batch.migrated_rows for batch in told),
        )

    def bottleneck(self, system: System, data: Data) -> float:
        """The highest rate that a system follows, in steps of 500 rows a second, as the paper
        raises it."""
        low, high = 0, 16
        while self.steady(system, data, STEP * high).use <= 1:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.steady(system, data, STEP * middle).use <= 1
            low, high = (middle, high) if fits else (low, middle)
        return float(STEP * low)


@dataclass(frozen=True, eq=False)
class Steady:
    """A system after it has settled: each instance's time and rows per second, and how long a row
    waits for migrations on the average; instances that a row probes; the paper's degree of
    imbalance; rows moved in all."""

    bench: Bench
    busy_ms: Floats
    rows: Floats
    waiting_ms: Floats
    copies: float
    imbalance: float
    moved: float

    @property
    def use(self) -> float:
        """Of the busiest instance or node, 1 being all of its time."""
        bench, busy = self.bench, self.busy_ms + self.bench.overhead_ms
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
        there = self.rows > 0
        rows, busy, waiting = self.rows[there], self.busy_ms[there], self.waiting_ms[there]
        each = busy / rows
        whole = each + self.bench.costs.stored_ms * (1 - 1 / self.copies)
        queued = [sojourn_ms(r / 1000, 1 / e) for r, e in zip(rows, each, strict=True)]
        return float(np.average(np.array(queued) * whole / each + waiting, weights=rows))
