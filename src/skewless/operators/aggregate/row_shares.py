"""Which rows of a batch each instance works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skewless.arrays.types import Ints, UInts
from skewless.operators.aggregate.arrived import KeyRun, RowFile
from skewless.placement.figures import Decision
from skewless.placement.grouping import Grouper
from skewless.state.segments import SegmentInfo

SPLITS_REPORTED = 10


@dataclass(frozen=True)
class FileShare:
    """Some rows of a file: those from each begin up to its end."""

    file: SegmentInfo
    begins: Ints
    ends: Ints


Shares = tuple[tuple[FileShare, ...], ...]  # of every instance


def fixed_shares(files: Sequence[RowFile], instances: int) -> Shares:
    """As the groupers of the input tasks have decided: each file is in the order of instances."""
    return tuple(
        tuple(_share(f, [f.bounds[i]], [f.bounds[i + 1]]) for f in files) for i in range(instances)
    )


def put_together(shares: Shares, instances: int) -> Shares:
    """The same rows, divided over another number of instances: fewer have several parts each, of
    more some have none."""
    none: tuple[FileShare, ...] = ()
    return tuple(sum(shares[i::instances], none) for i in range(instances))


def _share(rows: RowFile, begins: Sequence[int], ends: Sequence[int]) -> FileShare:
    return FileShare(rows.file, np.asarray(begins, np.int64), np.asarray(ends, np.int64))


def planned_shares(
    files: Sequence[RowFile], grouper: Grouper
) -> tuple[Shares, tuple[Decision, ...]]:
    """As a grouper decides that sees the whole batch: light keys are where their hash says, heavy
    keys where it puts them. A split key's rows are given out in the order in which they lie, so
    that an instance gets neighbours in time and makes few partial results of them."""
    n = grouper.instances
    light = np.zeros(n, np.int64)
    runs: dict[int, list[tuple[int, KeyRun]]] = {}
    for number, rows in enumerate(files):
        light += np.diff(rows.bounds)
        for run in rows.runs:
            runs.setdefault(run.hash, []).append((number, run))
            light[_home(rows, run)] -= run.rows
    hashes = np.array(sorted(runs), np.uint64)
    counts = np.array([sum(r.rows for _, r in runs[int(h)]) for h in hashes], np.int64)
    given = grouper.plan(light, hashes, counts)
    pieces = _pieces(hashes, given, runs)
    shares = tuple(
        tuple(_of_file(rows, number, i, pieces) for number, rows in enumerate(files))
        for i in range(n)
    )
    return shares, _splits(hashes, counts, given, runs)


def _home(rows: RowFile, run: KeyRun) -> int:
    return int(np.searchsorted(rows.bounds, run.begin, side="right")) - 1


Piece = tuple[int, int]
Pieces = dict[tuple[int, int], list[Piece]]  # (file, instance) to rows


def _pieces(hashes: UInts, given: Ints, runs: dict[int, list[tuple[int, KeyRun]]]) -> Pieces:
    """Give the rows of heavy keys out."""
    pieces: Pieces = {}
    for key, shares in zip(hashes, given, strict=True):
        takers = [(int(i), int(shares[i])) for i in np.flatnonzero(shares)]
        for number, run in runs[int(key)]:
            at, end = run.begin, run.begin + run.rows
            while at < end:
                instance, room = takers[0]
                take = min(room, end - at)
                pieces.setdefault((number, instance), []).append((at, at + take))
                at += take
                takers[0] = (instance, room - take)
                if room == take:
                    takers.pop(0)
    return pieces


def _of_file(rows: RowFile, number: int, instance: int, pieces: Pieces) -> FileShare:
    """An instance's rows of a file: its range of hashes without the heavy keys in it, and its
    pieces of heavy keys."""
    begin, end = rows.bounds[instance], rows.bounds[instance + 1]
    inside = [r for r in rows.runs if begin <= r.begin < end]
    begins = [begin, *(r.begin + r.rows for r in inside)]
    ends = [*(r.begin for r in inside), end]
    mine = sorted([*zip(begins, ends, strict=True), *pieces.get((number, instance), [])])
    mine = [(b, e) for b, e in mine if e > b]
    return _share(rows, [b for b, _ in mine], [e for _, e in mine])


def _splits(
    hashes: UInts,
    counts: Ints,
    given: Ints,
    runs: dict[int, list[tuple[int, KeyRun]]],
) -> tuple[Decision, ...]:
    """The keys that are shared by several instances, heaviest first."""
    over = np.flatnonzero((given > 0).sum(axis=1) > 1)
    heaviest = over[np.argsort(-counts[over], kind="stable")][:SPLITS_REPORTED]
    mean = given.sum() / max(given.shape[1], 1)
    decisions = []
    for i in heaviest:
        takers = np.flatnonzero(given[i])
        reason = f"{counts[i]} rows of the batch, where an instance gets {mean:.0f} of heavy keys"
        decisions.append(
            Decision(
                kind="split",
                subject=f"key {runs[int(hashes[i])][0][1].value}",
                source="",
                target=", ".join(map(str, takers.tolist())),
                reason=reason,
                accepted=True,
                rows=int(counts[i]),
            )
        )
    return tuple(decisions)
