"""Figures 4 to 6 of S3J: what each worker has to do, put on a virtual clock.

Rows arrive evenly, and a worker serves them one after the other, as Flink does: a row that arrives
waits until what is before it is done, and so does the pair that it completes. What a batch asks of
a worker is spread evenly over the batch. The work is what the paper calls load (definition 5): the
distances that a worker computes, those from centers included. Each has the same price, which a
single figure of the paper sets for all: our workers are so much faster that no rate of the paper
would keep them busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.papers.s3j_runs import Floats, Ran
from benchmarks.similarity_core import WINDOW_S

QUANTILE = 0.99


@dataclass(frozen=True)
class Prices:
    """What a distance costs a worker, in microseconds, and a pair that it emits, in distances."""

    distance_us: float
    emitted: float = 0.0

    def work_s(self, ran: Ran) -> Floats:
        """What each worker has to do, batch by batch."""
        return self.distance_us * 1e-6 * (ran.load + self.emitted * ran.found)


@dataclass(frozen=True)
class Waiting:
    """How long pairs wait for each worker: the 99th percentile of every batch, in seconds, and what
    is left to do when the last batch is there."""

    p99_s: Floats
    left_s: Floats
    lasts_s: float

    @property
    def done_s(self) -> float:
        """When everything is done."""
        return self.lasts_s + float(self.left_s.max())

    @property
    def late(self) -> float:
        """When everything is done, of the time that the streams last."""
        return self.done_s / self.lasts_s

    def peaks_s(self) -> list[float]:
        """The longest p99 of any worker, window by window."""
        windows = max(1, round(self.lasts_s / WINDOW_S))
        return [float(part.max()) for part in np.array_split(self.p99_s, windows)]

    def lines(self, batch_s: int) -> dict[str, Sequence[tuple[float, float]]]:
        """To be plotted: a line for each worker."""
        times = batch_s * (1 + np.arange(len(self.p99_s)))
        return {
            f"worker {n}": list(zip(times.tolist(), one.tolist(), strict=True))
            for n, one in enumerate(self.p99_s.T)
        }


def waiting(ran: Ran, prices: Prices) -> Waiting:
    """What comes of the work if each worker has a core of its own."""
    work_s = prices.work_s(ran)
    p99, left = np.zeros_like(work_s), np.zeros(work_s.shape[1])
    for number, growth in enumerate(work_s - ran.batch_s):
        # The queue grows or shrinks evenly: rows near its longest state wait the longest.
        p99[number] = left + growth * np.where(growth > 0, QUANTILE, 1 - QUANTILE)
        left = np.maximum(left + growth, 0.0)
    return Waiting(np.maximum(p99, 0.0), left, float(len(work_s) * ran.batch_s))


def keeps_up(ran: Ran, prices: Prices) -> bool:
    """Whether the busiest worker can do in a window what comes in it: if not, it falls further
    behind with every window, and its latency says only how long somebody has looked."""
    work_s = prices.work_s(ran)
    return bool(work_s.sum(axis=0).max() <= len(work_s) * ran.batch_s)


def throughput(ran: Ran, prices: Prices) -> float:
    """Rows a second, until everything is done."""
    return ran.rows / waiting(ran, prices).done_s


def price_for(ran: Ran, peak_s: float, emitted: float = 0.0) -> Prices:
    """The price of a distance for which the first window's p99 comes to `peak_s`."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        reached = waiting(ran, Prices(middle, emitted)).peaks_s()[0] >= peak_s
        low, high = (low, middle) if reached else (middle, high)
    return Prices(high, emitted)


def busy(ran: Ran, window: int, figure: str = "load") -> Floats:
    """Each worker's load in a window, or another figure, over the mean."""
    per_window, every = WINDOW_S // ran.batch_s, getattr(ran, figure)
    mine = every[window * per_window : (window + 1) * per_window].sum(axis=0)
    return np.asarray(mine / mine.mean())
