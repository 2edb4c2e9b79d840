"""Packed intermediate results: a hub row and the run of its partners in another stream.

A pair of rows that fit waits for its third. Stored as pairs, the hub would be there once per
partner, and a prober would compare itself with each copy; packed, it is there and compared once.
A pack is a row of a segment, in the order of the hub's hash along its edge to the third stream:
columns of the hub, then columns of the partners as lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays import keys
from skewless.arrays.columns import Columns, gathered, pieces_of
from skewless.arrays.merging import expand_ranges
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import FAR_US, Ints, UInts, frozen
from skewless.operators.three_way.bindings import (
    Bound,
    Candidates,
    StoredRun,
    candidates,
    extend,
    fitting,
    in_pieces,
    probes_of,
    together,
)
from skewless.operators.three_way.portions import WHOLE, Share, counted
from skewless.operators.three_way.spec import NAMES, STREAMS, Edge, ThreeSpec
from skewless.operators.three_way.tally import Tally
from skewless.state.segments import Rows, times_of

PACKS = "packs"  # what segments of them are of


@dataclass(frozen=True)
class PackKind:
    """Packs of one hub stream and one partner stream; the third stream probes them."""

    hub: int
    partner: int

    @property
    def third(self) -> int:
        return 3 - self.hub - self.partner

    @property
    def side(self) -> str:
        """As segments call them."""
        return f"{NAMES[self.hub]}-{NAMES[self.partner]}"

    def edge(self, spec: ThreeSpec) -> Edge:
        """The edge along which the third stream looks for packs."""
        edge = spec.edge(self.hub, self.third)
        assert edge is not None
        return edge

    def schema(self, spec: ThreeSpec) -> pa.Schema:
        hub, partner = spec.streams[self.hub].schema, spec.streams[self.partner].schema
        fields = [pa.field(f"hub.{i}", f.type) for i, f in enumerate(hub)]
        fields += [pa.field(f"partner.{i}", pa.list_(f.type)) for i, f in enumerate(partner)]
        return pa.schema(fields)


def kinds_of(spec: ThreeSpec) -> list[PackKind]:
    """All kinds of packs that can occur: the pair has a condition, and so have hub and third."""
    return [
        PackKind(hub, partner)
        for hub in STREAMS
        for partner in STREAMS
        if hub != partner
        and spec.edge(hub, partner) is not None
        and spec.edge(hub, 3 - hub - partner) is not None
    ]


def kind_of_side(spec: ThreeSpec, side: str) -> PackKind:
    return next(kind for kind in kinds_of(spec) if kind.side == side)


def hub_of(spec: ThreeSpec, earlier: int, later: int) -> int:
    """Which of a pair is the hub: the later row, which meets a whole run of stored ones, if it has
    a condition with the third stream; else the other."""
    third = 3 - earlier - later
    return later if spec.edge(later, third) is not None else earlier


def pack(
    spec: ThreeSpec, kind: PackKind, parts: Iterable[Bound], *, packing: bool
) -> Iterator[Rows]:
    """Pairs as packs, sorted to be probed; without `packing` one pack per pair. A hub with more
    partners than a segment can hold is in several packs."""
    some = (part for part in parts if len(part))
    for waiting in gathered(some, lambda part: part.nbytes):
        yield _packed(spec, kind, Bound.together(waiting), packing=packing)


def _packed(spec: ThreeSpec, kind: PackKind, pairs: Bound, *, packing: bool) -> Rows:
    edge = kind.edge(spec)
    side, hub_columns = edge.side(kind.hub), pairs.columns[kind.hub]
    cells = None
    if side.bands:
        cells = keys.cells_of(hub_columns[side.bands[0].index], side.bands[0])
    hashes = keys.hash_keys([hub_columns[k.index] for k in side.keys], side, cells)
    times = pairs.times[kind.hub]
    order = sort_order(frozen(hashes), frozen(times))
    pairs = pairs.take(order)
    hashes, times = hashes[order], times[order]
    firsts = _firsts(pairs, kind.hub, hashes, times) if packing else np.arange(len(hashes))
    offsets = pa.array(np.append(firsts, len(hashes)).astype(np.int32))
    hubs = pairs.columns[kind.hub].take(firsts)
    lists = [pa.ListArray.from_arrays(offsets, c) for c in pairs.columns[kind.partner]]
    return Rows(hashes[firsts], times[firsts], Columns([*hubs, *lists]))


def _firsts(pairs: Bound, hub: int, hashes: UInts, times: Ints) -> Ints:
    """Where a new hub begins among sorted pairs. Rows that are equal in every column may share a
    pack: nobody can tell them apart."""
    if any(pa.types.is_nested(c.type) for c in pairs.columns[hub]):
        return np.arange(len(hashes))  # nested values cannot be compared: no two are taken as one
    new = np.ones(len(hashes), np.bool_)
    new[1:] = (hashes[1:] != hashes[:-1]) | (times[1:] != times[:-1])
    for column in pairs.columns[hub]:
        codes = _codes(column)
        new[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(new)


def _codes(column: pa.Array) -> Ints:
    encoded = column.dictionary_encode(null_encoding="encode")
    codes: Ints = encoded.indices.to_numpy(zero_copy_only=False)
    return codes


def run_of(rows: Rows) -> StoredRun:
    return StoredRun(rows.hashes, rows.times, rows.columns, -FAR_US)


NO_HASHES = np.empty(0, np.uint64)
PROBED_PACKS = -1  # what is met in packs says nothing about rows of a stream
NUMBERED = len(STREAMS)  # no stream: the numbers of the packs whose hubs are bound


def probe_packs(
    spec: ThreeSpec,
    kind: PackKind,
    parts: Iterable[Bound],
    runs: Sequence[StoredRun],
    tally: Tally,
    share: Share = WHOLE,
) -> Iterator[Bound]:
    """Rows of the third stream with the pairs in the packs they fit: triples."""
    third, edge = kind.third, kind.edge(spec)
    unsure = [] if keys.is_exact(edge.pair.left) else [edge]
    unpacked = {id(run): UnpackedPairs.of(spec, kind, run) for run in runs}
    for bound in together(parts):
        probes = probes_of(bound, third, edge)
        met = 0
        every = candidates(probes, edge.partner_bounds(third), runs, share)
        for run, rows, packs in in_pieces(bound, every):
            met += len(rows)
            fits = fitting(Candidates(bound, rows, kind.hub, run, packs), unsure, timed=[])
            if fits.any():
                yield from unpacked[id(run)].triples(bound, rows[fits], packs[fits])
        tally.met(PROBED_PACKS, (third, kind.hub), counted(len(bound), share), met, 0)


def extend_packs(
    spec: ThreeSpec,
    kind: PackKind,
    packs: StoredRun,
    runs: Sequence[StoredRun],
    tally: Tally,
    new: int,
) -> Iterator[Bound]:
    """Packs with each row of the third stream that their hub fits: triples of a chain, in which
    partner and third have no condition. The hub is compared once, however many partners it has."""
    assert spec.edge(kind.partner, kind.third) is None
    unpacked = UnpackedPairs.of(spec, kind, packs)
    numbers = np.arange(len(packs))
    hubs = Bound(
        {kind.hub: unpacked.hubs.columns, NUMBERED: Columns([pa.array(numbers)])},
        {kind.hub: packs.times, NUMBERED: numbers},
    )
    for found in extend(spec, [hubs], (kind.hub, kind.third), runs, tally, new):
        third = Bound(
            {kind.third: found.columns[kind.third]}, {kind.third: found.times[kind.third]}
        )
        for rows, numbered, places in unpacked.each(third, None, found.times[NUMBERED]):
            yield unpacked.paired(third.take(rows), numbered, places)


@dataclass(frozen=True)
class UnpackedPairs:
    """Packs by their parts: the hubs as they are stored, the partners of all of them in one run,
    and where those of each begin in it."""

    spec: ThreeSpec
    kind: PackKind
    hubs: StoredRun
    partners: StoredRun
    begins: npt.NDArray[np.int32]

    @staticmethod
    def of(spec: ThreeSpec, kind: PackKind, run: StoredRun) -> UnpackedPairs:
        width = len(spec.streams[kind.hub].schema)
        lists = run.columns[width:]
        columns = Columns(c.values for c in lists)
        times = times_of(columns, spec.streams[kind.partner].time, len(columns[0]))
        hubs = StoredRun(run.hashes, run.times, Columns(run.columns[:width]))
        begins = lists[0].offsets.to_numpy()
        return UnpackedPairs(spec, kind, hubs, StoredRun(NO_HASHES, times, columns), begins)

    def each(
        self, bound: Bound, rows: Ints | None, packs: Ints
    ) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Bound rows, or all of them, with each partner in the packs they met: (row, pack, where
        the partner lies), as few at a time as their columns can be taken of."""
        first, last = (self.begins[at].astype(np.int64) for at in (packs, packs + 1))
        members = int((last - first).sum())
        within, places, *_ = expand_ranges(frozen(first), frozen(last), 0, 0, members)
        rows, packs = within if rows is None else rows[within], packs[within]
        taken = (bound, rows), (self.hubs.columns, packs), (self.partners.columns, places)
        for piece in pieces_of(*taken):
            yield rows[piece], packs[piece], places[piece]

    def triples(self, bound: Bound, rows: Ints, packs: Ints) -> Iterator[Bound]:
        """Rows with each partner in the packs they fit, where that fits them, too. Nothing is
        taken before that is known: most of what is met is not wanted."""
        rest = self.spec.edge(self.kind.third, self.kind.partner)
        for mine, hubs, places in self.each(bound, rows, packs):
            if rest is not None:
                found = Candidates(bound, mine, self.kind.partner, self.partners, places)
                fits = np.flatnonzero(fitting(found, [rest], timed=[rest]))
                if len(fits):
                    yield self.paired(bound.take(mine[fits]), hubs[fits], places[fits])
            elif len(mine):
                yield self.paired(bound.take(mine), hubs, places)

    def paired(self, bound: Bound, packs: Ints, places: Ints) -> Bound:
        """Rows, each with the hub of a pack and one of its partners."""
        bound = bound.plus(self.kind.hub, *self.hubs.taken(packs))
        return bound.plus(self.kind.partner, *self.partners.taken(places))

    def pairs(self) -> Iterator[Bound]:
        """All pairs."""
        nobody = Bound({}, {})
        for _, packs, places in self.each(nobody, None, np.arange(len(self.hubs))):
            yield self.paired(nobody, packs, places)
