"""The queues of the Pd-Stream paper's application: join instances, and the aggregators behind them.

A tuple takes `join_ms` on its instance, exponentially distributed. The first tuple of a key on an
instance in a window makes a partial result, which one of the four aggregators has to take in, in
`partial_ms`. Both are first come, first served.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
import numpy.typing as npt

from benchmarks.grouping import Hashes, Targets
from skewless.placement.grouping.hashing import home_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

AGGREGATORS = 4
WINDOW = 50_000  # tuples: about 10 s at what 128 join instances can do
SATURATED = 0.95  # of the busiest queue's time
EVERYTHING = slice(None)


@dataclass(frozen=True)
class Prices:
    join_ms: float
    partial_ms: float


@dataclass(frozen=True)
class Routed:
    """Tuples with their instances, as queues see them."""

    hashes: Hashes
    targets: Targets
    instances: int

    @cached_property
    def makes_partial(self) -> npt.NDArray[np.bool_]:
        """Whether a tuple is the first of its key on its instance in its window."""
        numbers = np.unique(self.hashes, return_inverse=True)[1]
        windows = np.arange(len(self.hashes)) // WINDOW
        pairs = (windows * (int(numbers.max()) + 1) + numbers) * self.instances + self.targets
        first = np.zeros(len(pairs), np.bool_)
        first[np.unique(pairs, return_index=True)[1]] = True
        return first

    @cached_property
    def aggregators(self) -> Ints:
        return home_of(self.hashes, AGGREGATORS)

    def busiest_ms(self, prices: Prices, part: slice = EVERYTHING) -> tuple[float, float]:
        """The milliseconds per tuple that the busiest join instance and aggregator need."""
        rows = np.bincount(self.targets[part], minlength=self.instances)
        merging = self.aggregators[part][self.makes_partial[part]]
        partials = np.bincount(merging, minlength=AGGREGATORS)
        tuples = len(self.targets[part])
        return (
            prices.join_ms * int(rows.max()) / tuples,
            prices.partial_ms * int(partials.max()) / tuples,
        )

    def throughput(self, prices: Prices, part: slice = EVERYTHING) -> float:
        """Tuples per second at which the busiest of all queues is just busy all the time."""
        return 1000 / max(self.busiest_ms(prices, part))


def balanced_partial_ms(routed: Routed, join_ms: float) -> float:
    """What a partial result may cost for aggregators and join instances to be equally busy."""
    joining, merging = routed.busiest_ms(Prices(join_ms, 1.0))
    return joining / merging


def latencies(routed: Routed, prices: Prices, rate: float, seed: int = 0) -> Floats | None:
    """The latency of every tuple in ms; None where a queue would grow without end."""
    if rate / routed.throughput(prices) > SATURATED:
        return None
    rng, tuples = np.random.default_rng(seed), len(routed.hashes)
    arrived = np.cumsum(rng.exponential(1000 / rate, tuples))
    work = rng.exponential(prices.join_ms, tuples)
    done = _through_queues(arrived, routed.targets.astype(np.int64), work, routed.instances)
    partial = np.flatnonzero(routed.makes_partial)
    partial = partial[np.argsort(done[partial], kind="stable")]  # as they leave the join
    merged = _through_queues(
        done[partial],
        routed.aggregators[partial],
        np.full(len(partial), prices.partial_ms),
        AGGREGATORS,
    )
    done[partial] = merged
    return np.asarray(done - arrived)


@numba.njit(cache=True, nogil=True)
def _through_queues(arrived: Floats, queue: Ints, work: Floats, queues: int) -> Floats:
    """When each is done; first come, first served in every queue."""
    free, done = np.zeros(queues), np.empty(len(arrived))
    for i in range(len(arrived)):
        begun = max(arrived[i], free[queue[i]])
        done[i] = free[queue[i]] = begun + work[i]
    return done
