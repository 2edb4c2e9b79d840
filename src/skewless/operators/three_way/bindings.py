"""Rows of some streams bound together, and how they find their partner in a further stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays import keys
from skewless.arrays.columns import Columns, gathered, most_bytes, pieces_of
from skewless.arrays.merging import expand_ranges, match_ranges
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Flags, Ints, UInts, frozen
from skewless.operators.three_way.portions import WHOLE, Share, counted, cut
from skewless.operators.three_way.spec import Edge, ThreeSpec
from skewless.operators.three_way.tally import Tally
from skewless.placement.units import slot_bounds

PAIRS_PER_CHUNK = 1 << 16
ROWS_TOGETHER = 1 << 15  # small results are put together before they probe again


@dataclass(frozen=True)
class Bound:
    """Combinations of rows: for each stream that is bound its columns and times, row by row."""

    columns: dict[int, Columns]
    times: dict[int, Ints]

    def __len__(self) -> int:
        return len(next(iter(self.times.values())))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        every = (column for columns in self.columns.values() for column in columns)
        return sum(column.get_total_buffer_size() for column in every)

    @property
    def widest(self) -> int:
        return sum(columns.widest for columns in self.columns.values())

    def row_bytes(self, rows: Ints) -> Ints:
        sizes = np.zeros(len(rows), np.int64)
        for columns in self.columns.values():
            sizes += columns.row_bytes(rows)
        return sizes

    def take(self, rows: Ints) -> Bound:
        return Bound(
            {x: columns.take(rows) for x, columns in self.columns.items()},
            {x: times[rows] for x, times in self.times.items()},
        )

    def plus(self, stream: int, columns: Columns, times: Ints) -> Bound:
        return Bound({**self.columns, stream: columns}, {**self.times, stream: times})

    @staticmethod
    def together(parts: Sequence[Bound]) -> Bound:
        if len(parts) == 1:
            return parts[0]
        columns = {x: Columns.concat([p.columns[x] for p in parts]) for x in parts[0].columns}
        return Bound(columns, {x: np.concatenate([p.times[x] for p in parts])
                               for x in parts[0].times})  # fmt: skip


@dataclass(frozen=True)
class StoredRun:
    """Rows sorted by (hash, time) that can be probed: of one stream, or packs by their hub."""

    hashes: UInts
    times: Ints
    columns: Columns
    floor_us: int = -FAR_US

    def __len__(self) -> int:
        return len(self.hashes)

    def taken(self, rows: Ints) -> tuple[Columns, Ints]:
        """Some rows: columns and times."""
        return self.columns.take(rows), self.times[rows]

    def slice(self, begin: int, end: int) -> StoredRun:
        if end - begin == len(self):
            return self
        columns = self.columns.slice(begin, end)
        return StoredRun(self.hashes[begin:end], self.times[begin:end], columns, self.floor_us)

    def of_subgroup(self, subgroup: Share) -> StoredRun:
        return self.slice(*_of_subgroup(self.hashes, subgroup))


def _of_subgroup(hashes: UInts, subgroup: Share) -> tuple[int, int]:
    """Where among sorted hashes those of a subgroup lie: an equal part of all that can be."""
    number, subgroups = subgroup
    low, high = slot_bounds(number, number, subgroups)
    begin = np.searchsorted(hashes, np.uint64(low), side="left")
    return int(begin), int(np.searchsorted(hashes, np.uint64(high), side="right"))


@dataclass(frozen=True)
class Probes:
    """The hashes under which rows look for partners along an edge, sorted; several per row where
    the edge is a band. `rows` are the rows they belong to; those that have found any partner are
    marked as `hit`."""

    hashes: UInts
    times: Ints
    rows: Ints
    hit: Flags


def probes_of(bound: Bound, stream: int, edge: Edge) -> Probes:
    """How bound rows of a stream look for partners along an edge."""
    side, columns, times = edge.side(stream), bound.columns[stream], bound.times[stream]
    key_columns = [columns[k.index] for k in side.keys]
    every = np.arange(len(times))
    if side.bands:
        cells = keys.cells_of(columns[side.bands[0].index], side.bands[0])
        probed = keys.probed_cells(cells, side.bands[0])
        hashes = np.concatenate([keys.hash_keys(key_columns, side, c) for c in probed])
        rows = np.tile(every, len(probed))
    else:
        hashes, rows = keys.hash_keys(key_columns, side, None), every
    order = sort_order(frozen(hashes), frozen(times[rows]))
    hit = np.zeros(len(times), np.bool_)
    return Probes(hashes[order], times[rows][order], rows[order], hit)


def reaching(bound: Bound, stream: int, edge: Edge, subgroup: Share) -> Bound:
    """Of rows that look for partners along an edge, those that may find some in a subgroup."""
    if subgroup == WHOLE:
        return bound
    probes = probes_of(bound, stream, edge)
    return bound.take(np.unique(probes.rows[slice(*_of_subgroup(probes.hashes, subgroup))]))


@dataclass(frozen=True)
class Ranges:
    """Where in a run the partners of each probe lie: equal hashes, times within bounds."""

    run: StoredRun
    first: Ints
    last: Ints
    pairs: int

    @staticmethod
    def of(probes: Probes, bounds_us: tuple[int, int], run: StoredRun) -> Ranges:
        first, last, pairs = match_ranges(
            frozen(probes.hashes),
            frozen(probes.times),
            -FAR_US,
            frozen(run.hashes),
            frozen(run.times),
            run.floor_us,
            *bounds_us,
        )
        return Ranges(run, first, last, pairs)

    def between(self, begin: int, end: int) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of a probe and a row of the run, from one to another, some at a time."""
        row = skip = 0
        if begin:
            before = np.cumsum(self.last - self.first)
            row = int(np.searchsorted(before, begin, side="right"))
            skip = begin - (int(before[row - 1]) if row else 0)
        while begin < end:
            room = min(end - begin, PAIRS_PER_CHUNK)
            found, partners, row, skip = expand_ranges(
                frozen(self.first), frozen(self.last), row, skip, room
            )
            begin += room
            yield found, partners


def candidates(
    probes: Probes, bounds_us: tuple[int, int], runs: Sequence[StoredRun], share: Share = WHOLE
) -> Iterator[tuple[StoredRun, Ints, Ints]]:
    """Rows of the probes and of runs that have equal hashes and times within bounds, some at a
    time; with a `share` that part of all such pairs. Cutting the pairs and not the rows of runs
    splits even what belongs to one hot key."""
    ranges = _ranges(probes, bounds_us, runs)
    parts = ((r, 0, r.pairs) for r in ranges)
    if share != WHOLE:
        every = list(ranges)
        cuts = cut(share, [r.pairs for r in every])
        parts = ((every[number], begin, end) for number, begin, end in cuts)
    for r, begin, end in parts:
        for found, partners in r.between(begin, end):
            yield r.run, probes.rows[found], partners


def in_pieces(
    bound: Bound, found: Iterable[tuple[StoredRun, Ints, Ints]]
) -> Iterator[tuple[StoredRun, Ints, Ints]]:
    """The same candidates, as few at a time as their columns can be taken of."""
    for run, rows, partners in found:
        for piece in pieces_of((bound, rows), (run.columns, partners)):
            yield run, rows[piece], partners[piece]


def _ranges(
    probes: Probes, bounds_us: tuple[int, int], runs: Sequence[StoredRun]
) -> Iterator[Ranges]:
    for run in runs:
        ranges = Ranges.of(probes, bounds_us, run)
        probes.hit[probes.rows[ranges.first < ranges.last]] = True
        yield ranges


def extend(
    spec: ThreeSpec,
    parts: Iterable[Bound],
    hop: tuple[int, int],
    runs: Sequence[StoredRun],
    tally: Tally,
    new: int,
    share: Share = WHOLE,
) -> Iterator[Bound]:
    """Bound rows with each of their partners in a further stream, by way of one edge. Conditions
    that another bound stream has with that one are checked at once. `new` is the stream whose new
    rows all this is for. With a `share`, others have the same rows, and other pairs."""
    for bound in together(parts):
        found = _partners(spec, bound, hop, runs, tally, new, share)
        for some in gathered(found, lambda partners: partners.nbytes, PAIRS_PER_CHUNK):
            yield Partners.joined(some)


def _partners(
    spec: ThreeSpec,
    bound: Bound,
    hop: tuple[int, int],
    runs: Sequence[StoredRun],
    tally: Tally,
    new: int,
    share: Share,
) -> Iterator[Partners]:
    via, to = hop
    edge = spec.edge(via, to)
    assert edge is not None
    probes = probes_of(bound, via, edge)
    others = [x for x in bound.columns if x != via]
    checked = [e for x in others if (e := spec.edge(x, to)) is not None]
    unsure = [] if keys.is_exact(edge.pair.left) else [edge]
    met, every = 0, candidates(probes, edge.partner_bounds(via), runs, share)
    for run, rows, partners in in_pieces(bound, every):
        met += len(rows)
        # Only what is compared is taken before it is known which candidates fit.
        found = Candidates(bound, rows, to, run, partners)
        fits = fitting(found, [*unsure, *checked], timed=checked)
        if fits.any():
            columns, times = run.taken(partners[fits])
            yield Partners(bound, rows[fits], Bound({to: columns}, {to: times}))
    hits = int(probes.hit.sum())
    tally.met(new, hop, counted(len(bound), share), met, counted(hits, share))


@dataclass(frozen=True)
class Partners:
    """Partners that bound rows have found in a run: which rows, and whom."""

    bound: Bound
    rows: Ints
    found: Bound

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return self.found.nbytes + most_bytes(self.bound, self.rows)

    @staticmethod
    def joined(parts: Sequence[Partners]) -> Bound:
        """The rows with their partners. Rows are repeated for many at once: each time costs, and
        there may be few partners in a run."""
        mine = parts[0].bound.take(np.concatenate([part.rows for part in parts]))
        found = Bound.together([part.found for part in parts])
        return Bound({**mine.columns, **found.columns}, {**mine.times, **found.times})


@dataclass(frozen=True)
class Candidates:
    """Bound rows and rows of a run that may fit, pair by pair; nothing of them is taken yet."""

    bound: Bound
    rows: Ints
    to: int
    run: StoredRun
    partners: Ints

    def column(self, stream: int, index: int) -> pa.Array:
        if stream == self.to:
            return self.run.columns[index].take(pa.array(self.partners))
        return self.bound.columns[stream][index].take(pa.array(self.rows))

    def times(self, stream: int) -> Ints:
        if stream == self.to:
            return self.run.times[self.partners]
        return self.bound.times[stream][self.rows]


def fitting(found: Candidates, edges: Sequence[Edge], timed: Sequence[Edge]) -> Flags:
    """Which candidates fulfil the conditions of some edges; of `timed` ones also in time."""
    fits = np.ones(len(found.rows), np.bool_)
    for edge in edges:
        if edge in timed:
            apart = found.times(edge.b) - found.times(edge.a)
            fits &= (apart >= edge.pair.lower_us) & (apart <= edge.pair.upper_us)
        left, right = edge.pair.left, edge.pair.right
        if left.keys:
            fits &= keys.keys_equal(
                [found.column(edge.a, k.index) for k in left.keys],
                [found.column(edge.b, k.index) for k in right.keys],
                left.keys,
            )
        for a, b in zip(left.bands, right.bands, strict=True):
            fits &= keys.within_band(
                found.column(edge.a, a.index), found.column(edge.b, b.index), a
            )
    return fits


def together(parts: Iterable[Bound]) -> Iterator[Bound]:
    """Small parts as larger ones: probing costs by the part."""
    some = (part for part in parts if len(part))
    for waiting in gathered(some, lambda part: part.nbytes, ROWS_TOGETHER):
        yield Bound.together(waiting)


def triples(spec: ThreeSpec, parts: Iterable[Bound], tally: Tally) -> Iterator[pa.RecordBatch]:
    """Combinations of all three streams as rows of the result."""
    schema = spec.output_schema()
    for bound in together(parts):
        tally.matches += len(bound)
        arrays = [bound.columns[c.stream][c.index] for c in spec.output]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
