"""Files of arrived rows: how a task stores them, and what it tells the driver of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from skewless.engine.operator import Arrival
from skewless.state.segments import SegmentInfo


@dataclass(frozen=True)
class KeyRun:
    """Rows of one heavy key that lie together in a file."""

    hash: int
    value: str
    begin: int
    rows: int


@dataclass(frozen=True)
class RowFile:
    """The rows of a task, as they lie in a file that lives as long as the batch.

    A grouping that looks at one row after the other was asked at once: rows `bounds[i]` up to
    `bounds[i + 1]` of the file are for instance i. One that sees the whole batch first is asked by
    the driver: the file is in the order of hashes, `bounds` are the homes of keys, and `runs` are
    the heavy keys.
    """

    file: SegmentInfo
    bounds: tuple[int, ...]
    runs: tuple[KeyRun, ...] = ()

    def detail(self) -> dict[str, Any]:
        """What goes into the detail of an arrival that has this file."""
        return {"bounds": list(self.bounds), "runs": [asdict(run) for run in self.runs]}


def row_files(arrivals: Iterable[Arrival]) -> list[RowFile]:
    """The files of a batch."""
    return [
        RowFile(
            file,
            tuple(arrival.detail["bounds"]),
            tuple(KeyRun(**run) for run in arrival.detail["runs"]),
        )
        for arrival in arrivals
        for file in arrival.scratch
    ]
