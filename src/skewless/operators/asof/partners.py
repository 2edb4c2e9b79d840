"""The one partner of each left row, among stored rows that lie in several sorted runs.

A kernel finds in every run the rows of the nearest time; the best over all runs is then a matter of
a few array operations. Rows of one key and time are put into an order by their columns, once,
however many left rows ask for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import pieces_of
from skewless.arrays.keys import keys_equal
from skewless.arrays.merging import pairs_in_ranges
from skewless.arrays.nearest import nearest_ranges
from skewless.arrays.pairs import PairsAt
from skewless.arrays.ranking import greatest
from skewless.arrays.runs import Run
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import Flags, Ints, KeyColumn, UInts, frozen
from skewless.arrays.values import converted
from skewless.operators.asof.spec import AsofSpec
from skewless.operators.groups import by_changes
from skewless.operators.two_way.comparing import Comparison

NONE = -1
PAIRS_PER_CHUNK = 1 << 16
EMPTY = np.empty(0, np.int64)


@dataclass(frozen=True)
class Chosen:
    """Per left row the number of the run that its partner lies in, or NONE; and the row there."""

    run: Ints
    row: Ints

    @staticmethod
    def none(rows: int) -> Chosen:
        return Chosen(np.full(rows, NONE, np.int64), np.zeros(rows, np.int64))

    def of_run(self, number: int) -> tuple[Ints, Ints]:
        """The left rows whose partners lie in one run, and these."""
        asking = np.flatnonzero(self.run == number)
        return asking, self.row[asking]

    def put(self, asking: Ints, run: Ints | int, row: Ints) -> None:
        self.run[asking], self.row[asking] = run, row


@dataclass(frozen=True)
class Partners:
    """Finds partners among rows of the right side."""

    spec: AsofSpec
    others: Sequence[Run]

    def of(self, rows: Run) -> Chosen:
        """The partners of some left rows."""
        chosen = choose(self.spec, rows, self.others)
        unequal = self._unequal(rows, chosen)
        if len(unequal):
            self._choose_again(rows, np.unique(rows.hashes[unequal]), chosen)
        return chosen

    def _unequal(self, rows: Run, chosen: Chosen) -> Ints:
        """Left rows that have the hash of their partner, but not its key."""
        compare, found = Comparison(self.spec), [EMPTY]
        for number, run in enumerate(self.others):
            asking, partners = chosen.of_run(number)
            for pairs in PairsAt(rows, asking, run, partners).pieces():
                same = compare.matching("left", pairs)
                if same is not None:
                    found.append(pairs.probes[~same])
        return np.concatenate(found)

    def _choose_again(self, rows: Run, hashes: UInts, chosen: Chosen) -> None:
        """Choose for all rows with some hashes that several keys share, under numbers that tell
        keys apart."""
        everyone = [rows, *self.others]
        at = [np.flatnonzero(np.isin(run.hashes, hashes)) for run in everyone]
        parts = [run.take(places) for run, places in zip(everyone, at, strict=True)]
        for n, numbers in enumerate(self._numbers(parts)):
            order = sort_order(frozen(numbers), frozen(parts[n].times))
            sorted_part = parts[n].take(order)
            parts[n] = Run(numbers[order], sorted_part.times, sorted_part.columns,
                           sorted_part.floor_us, sorted_part.rows)  # fmt: skip
            at[n] = at[n][order]
        again = choose(self.spec, parts[0], parts[1:])
        chosen.put(at[0], NONE, np.zeros(len(at[0]), np.int64))
        for number, places in enumerate(at[1:]):
            asking, partners = again.of_run(number)
            chosen.put(at[0][asking], number, places[partners])

    def _numbers(self, parts: Sequence[Run]) -> list[UInts]:
        """A number per row of the left part and of the right ones, equal where keys are."""
        sides = [self.spec.left, *([self.spec.right] * len(self.others))]
        indices = [part.indices(np.arange(len(part))) for part in parts]
        columns = []
        for k, key in enumerate(self.spec.left.keys):
            of = [p.columns[side.keys[k].index] for p, side in zip(parts, sides, strict=True)]
            taken = [column.take(at) for column, at in zip(of, indices, strict=True)]
            alike = [converted(column, key.type).cast(key.type) for column in taken]
            columns.append(pa.concat_arrays(alike))
        hashes = np.concatenate([part.hashes for part in parts])
        numbers = _numbered(hashes, columns, self.spec.left.keys)
        return np.split(numbers, np.cumsum([len(part) for part in parts])[:-1])


def _numbered(hashes: UInts, columns: list[pa.Array], of: tuple[KeyColumn, ...]) -> UInts:
    """Numbers of keys: in every round those that equal the first of their hash get theirs."""
    numbers, count = np.zeros(len(hashes), np.uint64), 0
    rest = np.argsort(hashes, kind="stable")
    while len(rest):
        group = by_changes(rest, [hashes]).groups
        first = rest[np.searchsorted(group, group)]
        asked, like = (
            [column.take(pa.array(rows)) for column in columns] for rows in (rest, first)
        )
        same = keys_equal(asked, like, of)
        numbers[rest[same]] = group[same] + count
        count += int(group[-1]) + 1
        rest = rest[~same]
    return numbers


@dataclass(frozen=True)
class _Candidates:
    """Rows of one run at the nearest `times` to some left rows: a range for each."""

    run: int
    asking: Ints
    first: Ints
    last: Ints
    times: Ints

    def where(self, flags: Flags) -> _Candidates:
        of = (self.asking, self.first, self.last, self.times)
        return _Candidates(self.run, *(array[flags] for array in of))

    def rows(self) -> Ints:
        """All of them, each once: two ranges are the same or have nothing in common."""
        first, at = np.unique(self.first, return_index=True)
        pieces = pairs_in_ranges(first, self.last[at], PAIRS_PER_CHUNK)
        return np.concatenate([EMPTY, *(rows for _, rows in pieces)])


def choose(spec: AsofSpec, rows: Run, others: Sequence[Run]) -> Chosen:
    """The partners of left rows among the rows of some runs with equal hashes."""
    candidates = _nearest(spec, rows, others)
    chosen, count = Chosen.none(len(rows)), np.zeros(len(rows), np.int64)
    for some in candidates:
        count[some.asking] += some.last - some.first
        chosen.put(some.asking, some.run, some.first)
    if (count > 1).any():
        _settle(others, [some.where(count[some.asking] > 1) for some in candidates], chosen)
    return chosen


def _nearest(spec: AsofSpec, rows: Run, others: Sequence[Run]) -> list[_Candidates]:
    """All rows of the nearest time, run by run."""
    found, reach = [], spec.reach_us
    best, distance = np.zeros(len(rows), np.int64), np.full(len(rows), np.iinfo(np.int64).max)
    for number, run in enumerate(others):
        first, last = nearest_ranges(
            frozen(rows.hashes), frozen(rows.times), frozen(run.hashes), frozen(run.times),
            run.floor_us, *reach,
        )  # fmt: skip
        asking = np.flatnonzero(first < last)
        some = _Candidates(number, asking, first[asking], last[asking], run.times[first[asking]])
        apart = np.abs(some.times - rows.times[asking])
        nearer = apart < distance[asking]
        nearer |= (apart == distance[asking]) & (some.times < best[asking])
        best[asking[nearer]], distance[asking[nearer]] = some.times[nearer], apart[nearer]
        found.append(some)
    return [some.where(some.times == best[some.asking]) for some in found]


@dataclass(frozen=True)
class _Tied:
    """Rows of several runs, the greatest of which is looked for in every group. Rows are numbers
    here, groups numbered from 0 and in order."""

    runs: Sequence[Run]
    run_of: Ints
    row_of: Ints

    @property
    def widest(self) -> int:
        return max(run.widest for run in self.runs)

    def row_bytes(self, rows: Ints) -> Ints:
        sizes = np.empty(len(rows), np.int64)
        for run, mine in self._by_run(rows):
            sizes[mine] = run.row_bytes(self.row_of[rows[mine]])
        return sizes

    def _by_run(self, rows: Ints) -> Iterator[tuple[Run, Ints]]:
        """Which of some rows lie in each run."""
        for number in np.unique(self.run_of[rows]).tolist():
            yield self.runs[number], np.flatnonzero(self.run_of[rows] == number)

    def _columns(self, rows: Ints) -> Iterator[pa.Array]:
        of_runs = list(self._by_run(rows))
        places = pa.array(np.argsort(np.concatenate([mine for _, mine in of_runs])))
        for i in range(len(self.runs[0].columns)):
            parts = [run.column(i, self.row_of[rows[mine]]) for run, mine in of_runs]
            yield pa.concat_arrays(parts).take(places)

    def _greatest(self, rows: Ints, groups: Ints) -> Ints:
        return greatest(groups - groups[0], self._columns(rows))

    def winners(self, rows: Ints, groups: Ints) -> Ints:
        """The greatest row of every group. Where they are too much to be put together, some after
        the other: those that win meet again."""
        while len(rows) > groups[-1] + 1:
            pieces = pieces_of((self, rows))
            best = [at.start + self._greatest(rows[at], groups[at]) for at in pieces]
            kept = np.concatenate(best)
            if len(kept) == len(rows):  # each so large that it was alone: two of a group, at least
                first = int(np.flatnonzero(groups[1:] == groups[:-1])[0])
                two = slice(first, first + 2)
                loser = 1 - self._greatest(rows[two], groups[two])
                kept = np.delete(kept, first + loser)
            rows, groups = rows[kept], groups[kept]
        return rows


def _settle(others: Sequence[Run], tied: Sequence[_Candidates], chosen: Chosen) -> None:
    """Of rows of one hash and time, give everyone the greatest."""
    places = [some.rows() for some in tied]
    hashes = np.concatenate([others[s.run].hashes[p] for s, p in zip(tied, places, strict=True)])
    times = np.concatenate([others[s.run].times[p] for s, p in zip(tied, places, strict=True)])
    grouped = by_changes(sort_order(frozen(hashes), frozen(times)), [hashes, times])
    group_of = np.empty(len(hashes), np.int64)
    group_of[grouped.order] = grouped.groups
    run_of = np.repeat([some.run for some in tied], [len(p) for p in places])
    row_of, begin = np.concatenate(places), 0
    winners = _Tied(others, run_of, row_of).winners(grouped.order, grouped.groups)
    for some, mine in zip(tied, places, strict=True):
        winner = winners[group_of[begin + np.searchsorted(mine, some.first)]]
        chosen.put(some.asking, run_of[winner], row_of[winner])
        begin += len(mine)
