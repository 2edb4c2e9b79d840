"""Figures 4 to 6 of S3J: what each worker has to do, put on a virtual clock.

Rows that arrive within a second are served by their worker at an even pace, behind what is left of
earlier seconds (`skewless.simulation.queues`); a pair waits from the arrival of its later row until
its worker has done this row. The work is the worker's processor time, `slower` times: the paper's
workers emit a row at a time into Kafka, ours 65,536 pairs at once into nothing, and no rate of the
paper would keep ours busy. The factor is set once, by a single figure of the paper, for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.papers.s3j_runs import Floats, Ran
from benchmarks.similarity_core import WINDOW_S
from skewless.simulation.queues import Queues

QUANTILE = 0.99
SLOWER_MOST = 1e6


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


def waiting(ran: Ran, slower: float) -> Waiting:
    """What comes of the work if each worker has a core of its own, `slower` than ours."""
    batches, workers = ran.work_s.shape
    queues, p99 = Queues(workers, 1000.0 * ran.batch_s), np.zeros_like(ran.work_s)
    rows = np.ones(workers)
    for number, work_s in enumerate(slower * ran.work_s):
        p99[number] = queues.backlog_ms / 1000 + QUANTILE * work_s
        queues.serve(rows, 1000 * work_s)
    return Waiting(p99, queues.backlog_ms / 1000, float(batches * ran.batch_s))


def keeps_up(ran: Ran, slower: float) -> bool:
    """Whether the busiest worker can do in a window what comes in it: if not, it falls further
    behind with every window, and its latency says only how long somebody has looked."""
    batches = len(ran.work_s)
    return bool(slower * ran.work_s.sum(axis=0).max() <= batches * ran.batch_s)


def throughput(ran: Ran, slower: float) -> float:
    """Rows a second, until everything is done."""
    return ran.rows / waiting(ran, slower).done_s


def slower_for(ran: Ran, peak_s: float) -> float:
    """How much slower workers have to be for the first window's p99 to come to `peak_s`."""
    low, high = 0.0, SLOWER_MOST
    for _ in range(60):
        middle = (low + high) / 2
        reached = waiting(ran, middle).peaks_s()[0] >= peak_s
        low, high = (low, middle) if reached else (middle, high)
    return high


def busy(ran: Ran, window: int) -> Floats:
    """Each worker's work in a window, over the mean."""
    per_window = WINDOW_S // ran.batch_s
    work = ran.work_s[window * per_window : (window + 1) * per_window].sum(axis=0)
    return np.asarray(work / work.mean())
