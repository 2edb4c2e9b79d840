"""The virtual clock: instances that fall behind, and how long rows wait for them."""

from __future__ import annotations

import numpy as np

from skewless.arrays.types import Floats
from skewless.simulation.report import Latency


class Queues:
    """One queue per instance. The rows of a batch arrive together, behind what is left of earlier
    ones, and are served one after the other at an even pace; a batch comes every `interval_ms`."""

    def __init__(self, instances: int, interval_ms: float) -> None:
        self.interval_ms = interval_ms
        self.backlog_ms: Floats = np.zeros(instances)

    def serve(self, rows: Floats, service_ms: Floats, stopped_ms: Floats | float = 0.0) -> Latency:
        """Take in a batch: rows that probe, and the time that they need. Where an instance has
        `stopped` before, all of its rows wait that long."""
        begin = self.backlog_ms + stopped_ms
        end = begin + service_ms
        self.backlog_ms = np.maximum(end - self.interval_ms, 0.0)
        busy = rows > 0
        if not busy.any():
            return Latency(0.0, 0.0, 0.0)
        rows, begin, end = rows[busy], begin[busy], end[busy]
        mean = float(np.average((begin + end) / 2, weights=rows))
        return Latency(mean, _quantile(0.99, rows, begin, end), float(end.max()))


def _quantile(q: float, rows: Floats, begin: Floats, end: Floats) -> float:
    """The time by which a part of the rows is done, each instance's being done evenly between
    `begin` and `end`."""
    low, high = 0.0, float(end.max())
    length = np.maximum(end - begin, 1e-12)
    for _ in range(50):
        middle = (low + high) / 2
        done = float((rows * np.clip((middle - begin) / length, 0.0, 1.0)).sum())
        low, high = (middle, high) if done < q * rows.sum() else (low, middle)
    return high
