"""Who reads what: files cut and put together, so that tasks read about the same bytes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from skewless.errors import ArgumentError

LEAST_BYTES = 4 << 20  # less is not worth opening a file once more
MOST_BYTES = 128 << 20


@dataclass(frozen=True)
class FileRef:
    """A file as Spark's file source tells of it: an absolute path or URI, nothing in it escaped."""

    path: str
    size: int


@dataclass(frozen=True)
class Split:
    """The row groups or stripes of a file whose middle lies in [begin, end), or the lines that
    begin there. Where they lie is in the file itself, so splits that do not overlap share none."""

    path: str
    size: int
    begin: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.begin == 0 and self.end >= self.size


def splits(
    files: Sequence[FileRef],
    tasks: int,
    *,
    splittable: bool = True,
    least: int = LEAST_BYTES,
    most: int = MOST_BYTES,
) -> list[tuple[Split, ...]]:
    """What each of at most `tasks` tasks reads: about the same bytes. Small files are read whole,
    several by one task; large ones are cut, but not into less than `least` bytes, and one split has
    at most `most`. Empty files are left out, as Spark does."""
    if tasks < 1:
        raise ArgumentError("tasks", tasks, "at least 1")
    if not 0 < least <= most:
        raise ArgumentError("least", least, f"more than 0 and at most `most`, {most}")
    held = [file for file in files if file.size > 0]
    if not held:
        return []
    if not splittable:
        return _dealt(held, tasks)
    return [
        tuple(part for split in task for part in _pieces(split, most))
        for task in _laid_out(held, tasks, least)
    ]


def _dealt(files: Sequence[FileRef], tasks: int) -> list[tuple[Split, ...]]:
    """Whole files, the largest first, each to whoever has the least."""
    loads = [(0, task) for task in range(min(tasks, len(files)))]
    given: list[list[Split]] = [[] for _ in loads]
    for file in sorted(files, key=lambda file: -file.size):
        load, task = heapq.heappop(loads)
        given[task].append(Split(file.path, file.size, 0, file.size))
        heapq.heappush(loads, (load + file.size, task))
    return [tuple(own) for own in given]


def _laid_out(files: Sequence[FileRef], tasks: int, least: int) -> Iterator[list[Split]]:
    """The files end to end, cut where the shares of tasks end: so a task opens few of them."""
    edges = [0]
    for file in files:
        edges.append(edges[-1] + file.size)
    cuts = {0, edges[-1]}
    at = 0
    for task in range(1, tasks):
        wanted = edges[-1] * task // tasks
        while edges[at + 1] <= wanted:
            at += 1
        before, behind = edges[at], edges[at + 1]
        if min(wanted - before, behind - wanted) >= least:
            cuts.add(wanted)
        else:  # too little would be left of the file
            cuts.add(before if wanted - before <= behind - wanted else behind)
    at = 0
    for begin, end in pairwise(sorted(cuts)):
        own = []
        while at < len(files) and edges[at] < end:
            first, last = max(begin, edges[at]) - edges[at], min(end, edges[at + 1]) - edges[at]
            own.append(Split(files[at].path, files[at].size, first, last))
            if edges[at + 1] > end:
                break
            at += 1
        yield own


def _pieces(split: Split, most: int) -> Iterator[Split]:
    count = -(-(split.end - split.begin) // most)
    width = split.end - split.begin
    for i in range(count):
        begin, end = split.begin + width * i // count, split.begin + width * (i + 1) // count
        yield Split(split.path, split.size, begin, end)
