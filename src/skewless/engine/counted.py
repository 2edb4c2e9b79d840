"""Work as it is counted, beside the time that was measured.

What an instance does in a batch takes some milliseconds. Measured so finely, time is mostly noise:
a clock's tick, a cold cache, whoever shares the core. Rows, pairs and matches are counted exactly,
and what each costs is learned over many batches. So load is told by counted work at such prices,
which is as even as the work is; the measured time stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from skewless.engine.report import InstanceLoad, InstanceReport
from skewless.placement.prices import Prices

# What is counted, and what one of each costs in milliseconds before anything was measured.
ASSUMED_MS = {"rows": 1e-4, "pairs": 2e-5, "matches": 5e-5, "bytes_out": 2e-7}
MaybeReport = TypeVar("MaybeReport", InstanceReport, InstanceReport | None)


class WorkPrices:
    """The prices of one step of an operator."""

    def __init__(self) -> None:
        self._prices = Prices(list(ASSUMED_MS.values()))

    def priced(self, reports: Sequence[MaybeReport]) -> list[MaybeReport]:
        """The same reports, with what their work comes to."""
        loads = [report.load for report in reports if report is not None]
        done = np.array([_counts(load) for load in loads], float).reshape(-1, len(ASSUMED_MS))
        self._prices.learn(done, np.array([load.time_ms for load in loads]))
        work_ms = iter((done @ self._prices.now).round(6).tolist())
        return [r if r is None else _with_work(r, next(work_ms)) for r in reports]


def _counts(load: InstanceLoad) -> list[int]:
    return [getattr(load, name) for name in ASSUMED_MS]


def _with_work(report: InstanceReport, work_ms: float) -> InstanceReport:
    return replace(report, load=replace(report.load, work_ms=work_ms))
