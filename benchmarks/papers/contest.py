"""Systems side by side on a virtual cluster, as the papers on skewed joins compare theirs.

All systems of a contest get the same batches at the same prices. *Throughput* is what the paper
calls so: results per second, at the pace that the busiest instance can just follow, pauses
included. *Latency* is that of a system which keeps up: batches come so fast that the slowest of the
systems with a fixed division is busy for nine tenths of the time. Where a system falls behind all
the same, no latency is told.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skewless.placement.routing import Routing
from skewless.placement.strategy import PlacementStrategy
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.costs import Costs
from skewless.simulation.report import BatchFigures
from skewless.simulation.workloads import Given, Shares, Stream
from skewless.workloads.ride_hailing import City
from skewless.workloads.zipf import EPOCH

# A row costs 0.12 µs to receive and look up, 0.05 µs to store, and as much again to move. A
# comparison in a scan of thousands takes a tenth of a nanosecond. With these, a batch keeps the
# busiest instance busy for some 4 ms, which stand for the second between two looks of the papers'
# monitors; a pause is a quarter of it: theirs takes "less than one second" with the transfer.
PRICES = Costs(
    row_ms=1e-4, sent_ms=2e-5, stored_ms=5e-5, pair_ms=1e-7, migrated_ms=1.7e-4, pause_ms=1.0,
    scan="instance",
)  # fmt: skip
PRICES_TOLD = (
    "0.12 µs per row received, 0.05 µs stored, 0.1 ns per comparison with each of the instance's "
    "stored rows (eq. 1), 0.17 µs per moved row at both ends, and 1 ms pause per migration"
)
BUSY = 0.9

Systems = Mapping[str, PlacementStrategy]
MakeStream = Callable[[int], Stream]


@dataclass(frozen=True)
class Ground:
    """What a contest is held on: a stream for each seed, and a cluster."""

    stream: MakeStream
    instances: int
    batches: int
    costs: Costs = PRICES
    window: int = 6
    warm: int = 8  # batches that are not measured: the window fills up, the first moves are made

    def slower(self, interval_ms: float) -> Ground:
        return replace(self, costs=replace(self.costs, interval_ms=interval_ms))


@dataclass(frozen=True)
class Run:
    """One system on one stream: every batch, and from where on they count."""

    told: tuple[BatchFigures, ...]
    warm: int

    @property
    def steady(self) -> tuple[BatchFigures, ...]:
        return self.told[self.warm :]

    @property
    def results_per_s(self) -> float:
        found = sum(batch.matches for batch in self.steady)
        return 1000 * found / sum(batch.busiest_ms for batch in self.steady)

    @property
    def latency_ms(self) -> float | None:
        """None where it falls behind."""
        if self.steady[-1].backlog_ms > max(batch.busiest_ms for batch in self.steady):
            return None
        rows = [batch.rows for batch in self.steady]
        return float(np.average([b.latency.mean_ms for b in self.steady], weights=rows))

    @property
    def imbalance(self) -> float:
        """FastJoin's LI, on the average."""
        return statistics.fmean(batch.max_over_min for batch in self.steady)

    @property
    def busiest_over_mean(self) -> float:
        return statistics.fmean(batch.busiest_over_mean for batch in self.steady)

    @property
    def moved_rows(self) -> float:
        return sum(batch.migrated_rows for batch in self.told)

    @property
    def migrations(self) -> int:
        return sum(batch.migrated_rows > 0 for batch in self.told)


def raced(ground: Ground, systems: Systems, seed: int) -> dict[str, Run]:
    """Every system on the same stream. Those whose division is fixed set the pace."""
    stream = ground.stream(seed)
    batches = [stream.batch(i) for i in range(ground.batches)]

    def run(strategy: PlacementStrategy, on: Ground) -> Run:
        n = on.instances
        cluster = VirtualCluster(strategy, n, 32 * n, on.costs, on.window, seed)
        return Run(tuple(cluster.run(batches)), on.warm)

    fixed = [strategy for strategy in systems.values() if isinstance(strategy, Routing)]
    slowest = max(b.busiest_ms for strategy in fixed for b in run(strategy, ground).steady)
    paced = ground.slower(slowest / BUSY)
    return {name: run(strategy, paced) for name, strategy in systems.items()}


@dataclass(frozen=True)
class Contest:
    """The runs of all systems, one for each seed."""

    runs: Mapping[str, Sequence[Run]]

    @staticmethod
    def held(ground: Ground, systems: Systems, seeds: int) -> Contest:
        races = [raced(ground, systems, seed) for seed in range(seeds)]
        return Contest({name: [race[name] for race in races] for name in systems})

    def each(self, name: str, of: Callable[[Run], float]) -> list[float]:
        return [of(run) for run in self.runs[name]]

    def mean(self, name: str, of: Callable[[Run], float]) -> float:
        return statistics.fmean(self.each(name, of))

    def throughput(self, name: str) -> float:
        """Results per second, the mean over the seeds."""
        return self.mean(name, lambda run: run.results_per_s)

    def gains(self, name: str, over: str) -> list[float]:
        """How much more throughput a system has than another, in percent, seed by seed."""
        pairs = zip(self.runs[name], self.runs[over], strict=True)
        return [100 * (mine.results_per_s / other.results_per_s - 1) for mine, other in pairs]

    def latency(self, name: str) -> float | None:
        """Milliseconds; None if it fell behind with any of the seeds."""
        found = [run.latency_ms for run in self.runs[name]]
        kept_up = [value for value in found if value is not None]
        return statistics.fmean(kept_up) if len(kept_up) == len(found) else None

    def later(self, name: str, over: str) -> list[float]:
        """How much more latency a system has than another, in percent, seed by seed."""
        pairs = zip(self.runs[name], self.runs[over], strict=True)
        return [
            100 * (mine.latency_ms / other.latency_ms - 1)
            for mine, other in pairs
            if mine.latency_ms is not None and other.latency_ms is not None
        ]


def spread(values: Sequence[float], form: str = "{:+.1f} %") -> str:
    """The mean of several seeds, with the least and the most.

    >>> spread([1.0, 2.0]), spread([3.0]), spread([])
    ('+1.5 % (+1.0 % … +2.0 %)', '+3.0 %', 'saturated')
    """
    if not values:
        return "saturated"
    mean = form.format(statistics.fmean(values))
    if len(values) == 1:
        return mean
    return f"{mean} ({form.format(min(values))} … {form.format(max(values))})"


def city_stream(
    seed: int, *, order: int = 7, drift: float = 0.2, orders: int = 20_000, tracks: int = 200_000
) -> Stream:
    """Orders on the left, tracks of taxis on the right, with the published skew. Hot spots drift as
    in the morning rush, five minutes of it every ten batches; other seeds are other cities."""
    city = City(order=order, seed=7 + seed, drift=drift)
    midnight = EPOCH.replace(hour=0, minute=0, second=0)
    times = [midnight.replace(hour=6 + i // 12, minute=5 * (i % 12)) for i in range(24)]
    known: dict[int, Shares] = {}

    def of(number: int) -> Shares:
        at = min(number // 10, len(times) - 1)
        if at not in known:
            known[at] = city.order_shares(times[at]), city.track_shares(times[at])
        return known[at]

    return Given(keys=city.cells, rows_left=orders, rows_right=tracks, seed=seed, of=of)
