"""Rows that a query loses: how many, why, and what would have kept them. Losing rows is loud.

Late rows are counted by how far they lie behind. So the lateness that would have kept most of them
can be told, of one batch or of many.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from skewless.arrays.types import Ints
from skewless.durations import format_duration_us

if TYPE_CHECKING:
    from skewless.engine.report import BatchReport, OperatorReport

log = logging.getLogger("skewless")

BAD_VALUES = "bad values"  # texts that cannot be parsed
DEAD_LETTERS = "dead letters"  # those that were put aside
LOUD_SHARE = 0.01  # of a batch's rows: what is lost beyond it is told
KEPT_PERCENT = 99  # of the late rows: what the `late` that is told would have kept
DIGITS = 2  # of the `late` that is told
BITS = 4  # of a lateness: it is told up to 1/8 too long

Lateness = Mapping[str, int]  # rows by microseconds, which are text as JSON has no other keys


def rounded_up(us: Ints) -> Ints:
    """Numbers of at least 1 with only so many leading bits, so that there are few different ones.

    >>> rounded_up(np.array([1, 15, 17, 1_000_000]))
    array([      1,      15,      18, 1048576])
    """
    _, length = np.frexp(us.astype(np.float64))
    shift = np.maximum(length - BITS, 0).astype(np.int64)
    rounded: Ints = (us + (np.int64(1) << shift) - 1) >> shift << shift
    return rounded


def by_lateness(behind_us: Ints) -> dict[str, int]:
    """Rows that lie so far behind a watermark, counted."""
    lengths, counts = np.unique(rounded_up(behind_us), return_counts=True)
    return dict(zip(map(str, lengths.tolist()), counts.tolist(), strict=True))


def put_together(several: Sequence[Lateness], late_us: int = 0) -> dict[str, int]:
    """Counts of late rows added up, by the lateness that would have kept them, where they lie
    behind what is `late_us` late."""
    sums: dict[int, int] = {}
    for lateness in several:
        for behind_us, rows in lateness.items():
            needed = int(behind_us) + late_us
            sums[needed] = sums.get(needed, 0) + rows
    return {str(us): rows for us, rows in sorted(sums.items())}


def late_needed_us(lateness: Lateness) -> int | None:
    """The `late` that would have kept 99 % of the late rows; None if there are none."""
    every, kept = sum(lateness.values()), 0
    for us, rows in sorted((int(us), rows) for us, rows in lateness.items()):
        kept += rows
        if kept * 100 >= every * KEPT_PERCENT:
            return us
    return None


def readable_duration(us: int) -> str:
    """A duration that is at least so long, in few digits.

    >>> readable_duration(93_400_001), readable_duration(7_999_000)
    ('94 seconds', '8 seconds')
    """
    step = 1000
    while us > step * 10**DIGITS:
        step *= 10
    return format_duration_us(-(-us // step) * step)


def loss_text(rows: Mapping[str, int], dropped: Mapping[str, int], lateness: Lateness) -> str:
    """What was lost of some rows, by input and by cause, and what would have kept the late ones.
    Empty if it is 1 % at most."""
    lost, every = sum(dropped.values()), sum(rows.values())
    if lost <= every * LOUD_SHARE:
        return ""
    causes = ", ".join(f"{count:,} {cause}" for cause, count in dropped.items() if count)
    told = f"{lost:,} of {every:,} rows ({lost / max(every, 1):.1%}) were dropped: {causes}"
    needed = late_needed_us(lateness)
    if needed is None:
        return told
    late = readable_duration(needed)
    return f'{told}; late="{late}" would have kept {KEPT_PERCENT} % of the late ones'


class LossLog:
    """Warns of batches that lose rows: the first, and then ever less often as they go on."""

    def __init__(self) -> None:
        self._batches = 0  # that lost rows
        self._bad_batches = 0  # that had bad values

    def watch(self, report: BatchReport) -> None:
        """Warn of a batch if it is time to."""
        self._watch_bad(report)
        told = [(one.name, text) for one in report.operators or (report,) if (text := lost_by(one))]
        self._batches += bool(told)
        if not told or self._batches & (self._batches - 1):  # the 1st, 2nd, 4th, 8th …
            return
        where = ". ".join(f"{name}: {text}" for name, text in told)
        so_far = f" ({self._batches} batches so far)" if self._batches > 1 else ""
        log.warning("batch %d loses rows%s: %s", report.batch_id, so_far, where)

    def _watch_bad(self, report: BatchReport) -> None:
        """The same of values that were read as nulls, as they could not be parsed."""
        counts = [one.counters.get(BAD_VALUES, 0) for one in report.operators or (report,)]
        self._bad_batches += any(counts)
        if not any(counts) or self._bad_batches & (self._bad_batches - 1):
            return
        log.warning(
            "batch %d has %s bad values among %s rows (%d such batches so far): what is malformed, "
            "or not of its field's type, is null",
            report.batch_id, f"{sum(counts):,}", f"{sum(report.rows.values()):,}",
            self._bad_batches,
        )  # fmt: skip


def lost_by(report: OperatorReport) -> str:
    """What an operator has lost in a batch, if it is too much."""
    return loss_text(report.rows, report.dropped, report.lateness)
