"""Rows from the future: one broken timestamp must not move the watermark for good.

A watermark never goes back, so that a single row of the year 2999 makes all rows late that come
after it. Rows that are further ahead of the clock than they may be are put aside and counted, as if
they had never come.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from skewless.engine.operator import Arrival, Input

log = logging.getLogger("skewless")

AHEAD = "ahead"
FAR_AHEAD = timedelta(days=366)  # whoever is further ahead, without a limit, is told of


@dataclass
class NotAhead:
    """Lets rows pass whose `time` is at most `latest_us`, and counts the others. A row without a
    time is not ahead."""

    time: int
    latest_us: int
    put_aside: int = 0

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            later = pc.greater(batch.column(self.time).view(pa.int64()), self.latest_us)
            ahead = int(pc.sum(later, min_count=0).as_py())
            self.put_aside += ahead
            yield batch.filter(pc.invert(later.fill_null(False))) if ahead else batch


class FarAheadLog:
    """Tells once of each stream that has rows far ahead of the clock, where nothing limits it."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def watch(self, operator: str, i: Input, arrivals: Sequence[Arrival], moment_us: int) -> None:
        times = [a.time_max_us for a in arrivals if a.input == i.name and a.time_max_us is not None]
        ahead = timedelta(microseconds=max(times, default=moment_us) - moment_us)
        if ahead <= FAR_AHEAD or (operator, i.name) in self._told:
            return
        self._told.add((operator, i.name))
        log.warning(
            "%s: a row of the %s is %d days ahead of the clock (%s, column %r). Rows of today will "
            'be late from now on, once all inputs are so far; max_ahead="1 day" puts such rows '
            "aside",
            operator, i.title or f"{i.name} input", ahead.days, _told(max(times)), i.time_name,
        )  # fmt: skip


def _told(us: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()
    except OverflowError:
        return f"{us} µs after 1970"
