"""How many instances a batch of an operator gets: as many as its work needs, and there are cores.

An instance costs a task, so that few are sooner done with a small batch. What a batch needs is
foretold by what a row has cost before. Any number is right in any batch: only speed depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skewless.state.compaction import PIECE_ROWS_MIN, choose_compactions

if TYPE_CHECKING:
    from skewless.engine.operator import Batch, Operator
    from skewless.engine.report import InstanceLoad

# A Python task costs 10 to 30 ms besides its work: an instance that has less to do is not worth it.
TASK_MS = 25.0
# Below that the driver does the work itself sooner than it could have it done: a job of Python
# tasks takes about as long before and after them.
SMALL_MS = 60.0
SMALL_ROWS = 1 << 17
# The same where rows then have to be handed to Spark, which takes longer in one piece.
TINY_ROWS = 1 << 14
# While nothing was measured. Rows with hundreds of partners each take 25 ms at 4,000 of them.
ROWS_UNMEASURED = 4_000
# What happens now and then whatever arrives, such as windows that close, is not the price of a row.
ROWS_PRICED_MIN = 1_000
PATIENCE = 8  # batches that must have needed less: places of rows are learned anew by fewer


@dataclass
class Sizing:
    """The number of instances of one operator, from batch to batch. `why` says it in words, and
    `changed` whether it is another than in the batch before. `is_small` says whether all of a batch
    is less work than one task is worth, `is_tiny` whether it also has few rows."""

    now: int | None = None
    why: str = ""
    row_ms: float | None = None
    changed: bool = False
    is_small: bool = False
    is_tiny: bool = False
    _lower: list[int] = field(default_factory=list)

    def choose(self, operator: Operator, batch: Batch, cores: int | None) -> int:
        """How many instances work on a batch. Users' numbers are kept, and so is what a query began
        with where nobody knows the cores."""
        needed, why = self._needed(batch)
        if not operator.elastic or cores is None:
            self.now, self.why = operator.instances, "as it was asked for"
            return self.now
        before = self.now
        most = max(cores, operator.instances_least)
        wanted = min(max(_rounded_up(needed), operator.instances_least), most)
        self._lower = [] if self.now is None or wanted >= self.now else [*self._lower, wanted]
        if self.now is None or wanted > self.now or self.now > most:
            self.now = wanted
        elif len(self._lower) >= PATIENCE:
            self.now, self._lower = max(self._lower), []
        self.why = f"{why}; {cores} cores"
        self.changed = self.now != before
        return self.now

    def notes(self) -> tuple[str, ...]:
        """What a report says of a number that has changed."""
        return (f"instances: {self.now} ({self.why})",) if self.changed else ()

    def _needed(self, batch: Batch) -> tuple[int, str]:
        rows = sum(arrival.rows for arrival in batch.arrivals)
        if self.row_ms is None:
            self.is_small = rows <= ROWS_UNMEASURED
            needed, why = -(-rows // ROWS_UNMEASURED), f"{rows:,} rows, nothing measured yet"
        else:
            work_ms = rows * self.row_ms
            self.is_small = work_ms <= SMALL_MS and rows <= SMALL_ROWS
            needed = 1 if self.is_small else int(work_ms // TASK_MS) + 1
            why = f"{rows:,} rows, about {work_ms:,.0f} ms"
        self.is_tiny = rows <= TINY_ROWS
        portions = choose_compactions(batch.state.segments, 1)
        rewritten = max((portion.rows for portion in portions), default=0)
        self.is_small &= rewritten <= SMALL_ROWS
        self.is_tiny &= self.is_small
        if rewritten // PIECE_ROWS_MIN > needed:
            return rewritten // PIECE_ROWS_MIN, f"{rewritten:,} stored rows to rewrite"
        return max(needed, 1), why

    def learn(self, batch: Batch, loads: Sequence[InstanceLoad]) -> None:
        """Take note of what a batch has cost, if it was worked on to its end."""
        spent_ms = sum(load.time_ms for load in loads)
        if batch.is_complete and spent_ms:
            rows = sum(arrival.rows for arrival in batch.arrivals)
            self.row_ms = spent_ms / max(rows, ROWS_PRICED_MIN)


def _rounded_up(needed: int) -> int:
    """The next power of two: numbers that are near one another are not worth a change.

    >>> [_rounded_up(n) for n in (1, 2, 3, 100)]
    [1, 2, 4, 128]
    """
    return 1 << (needed - 1).bit_length()
