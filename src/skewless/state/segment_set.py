"""The segments of an operator, as a sequence that changes by what a batch adds and takes away.

A set is a value: a changed one shares with the former what is the same. Most segments of a large
one stand in manifests, so that neither a commit nor a task has to list them; how much there is to
do for a batch follows what it changes, and the number of manifests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from skewless.state.files import Folder
from skewless.state.manifests import Flags, Listing, Manifest, write_manifest
from skewless.state.parallel import each
from skewless.state.segments import SegmentInfo
from skewless.state.shares import Share

Key = tuple[str, bytes]  # of a part: its manifest, and what is gone of it

MANIFEST_SEGMENTS = 256  # a commit lists up to twice as many by itself
PARTS_EACH = 20  # of a segment count as another one: with so many it takes about 1 KB


@dataclass(frozen=True, eq=False)
class Part:
    """Some segments, of which some may be gone. With a manifest, they stand there."""

    listed: Manifest | Listing
    gone: Flags | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"listed": self.listed, "gone": self.gone}  # tasks find out the rest

    @property
    def listing(self) -> Listing:
        return self.listed.listing if isinstance(self.listed, Manifest) else self.listed

    @cached_property
    def key(self) -> Key:
        """Parts with the same key are the same."""
        assert isinstance(self.listed, Manifest)
        return self.listed.blob.name, b"" if self.gone is None else np.packbits(self.gone).tobytes()

    @cached_property
    def alive(self) -> Flags:
        return np.ones(len(self.listing.segments), bool) if self.gone is None else ~self.gone

    @cached_property
    def segments(self) -> tuple[SegmentInfo, ...]:
        every = self.listing.segments
        return every if self.gone is None else self._at(self.alive)

    def _at(self, flags: Flags) -> tuple[SegmentInfo, ...]:
        every = self.listing.segments
        return tuple(every[at] for at in np.flatnonzero(flags))

    @cached_property
    def count(self) -> int:
        gone = 0 if self.gone is None else int(self.gone.sum())
        if isinstance(self.listed, Manifest):
            return self.listed.count - gone
        return len(self.listed.segments) - gone

    @property
    def is_worthwhile(self) -> bool:
        """Whether at least half of it is left."""
        return self.gone is None or 2 * self.count >= len(self.gone)

    @cached_property
    def rows(self) -> int:
        return int(self.listing.rows[self.alive].sum())

    @cached_property
    def bytes(self) -> int:
        return int(self.listing.bytes[self.alive].sum())

    @cached_property
    def generations(self) -> dict[tuple[str, int], dict[int, list[int]]]:
        """By side and level, where what is left of each batch stands."""
        found = self.listing.generations
        if self.gone is None:
            return found
        here = self.alive.tolist()
        left = {
            key: {batch: some for batch, at in of.items() if (some := [i for i in at if here[i]])}
            for key, of in found.items()
        }
        return {key: of for key, of in left.items() if of}

    @cached_property
    def ends(self) -> dict[str, int]:
        """For each side, when the first of its segments can expire."""
        listing, alive = self.listing, self.alive
        found = {side: listing.times_max[flags & alive] for side, flags in listing.sides.items()}
        return {side: int(times.min()) for side, times in found.items() if len(times)}

    def of_side(self, side: str) -> tuple[SegmentInfo, ...]:
        flags = self.listing.sides.get(side)
        return () if flags is None else self._at(flags & self.alive)

    def touching(self, side: str, ranges: Sequence[tuple[int, int]]) -> tuple[SegmentInfo, ...]:
        """The segments of a side that can hold rows of some ranges of hashes, which are disjoint
        and in order."""
        flags = self.listing.sides.get(side)
        if flags is None or not ranges:
            return ()
        low, high = (np.array(ends, np.uint64) for ends in zip(*ranges, strict=True))
        lowest, highest = self.listing.hash_bounds
        at = np.searchsorted(high, lowest)  # the first range that does not end before it
        begins = low[np.minimum(at, len(low) - 1)]
        return self._at(flags & self.alive & (at < len(low)) & (begins <= highest))

    def without(self, flags: Flags) -> Part:
        if not flags.any():
            return self
        gone = flags if self.gone is None else flags | self.gone
        return Part(self.listed, gone)


@dataclass(frozen=True)
class Rewriting:
    """Generations of a level that are being written anew, over several batches: `done` of all
    `pieces`, so many at a time. What is written counts when all is; until then the old ones do.
    Pieces lie between rows of the segment `cut_by`, the same in every batch: sets are in no order.
    Where fetching costs, `ranges` are the pieces."""

    side: str
    level: int
    batch_ids: tuple[int, ...]
    pieces: int
    at_a_time: int
    done: int
    written: SegmentSet
    ranges: tuple[Share, ...] = ()
    cut_by: str = ""

    @property
    def key(self) -> tuple[str, int]:
        return self.side, self.level

    def to_json(self) -> dict[str, Any]:
        plain = vars(self) | {"batch_ids": list(self.batch_ids), "written": self.written.to_json()}
        if self.ranges:
            del plain["cut_by"]  # versions that do not know it know ranges
            return plain | {"ranges": [astuple(share) for share in self.ranges]}
        del plain["ranges"]
        return plain

    @staticmethod
    def from_json(folder: Folder, data: dict[str, Any]) -> Rewriting:
        written = SegmentSet.from_json(folder, data["written"])
        ranges = tuple(Share(*share) for share in data.get("ranges", ()))
        told = {"batch_ids": tuple(data["batch_ids"]), "written": written, "ranges": ranges}
        rewriting = Rewriting(**data | told)
        if ranges or rewriting.cut_by:
            return rewriting
        # Versions before 0.11 did not say by what they cut: it is begun again.
        return replace(rewriting, done=0, written=SegmentSet())


class SegmentSet(Sequence[SegmentInfo]):
    """Segments in no particular order; `under_way` is what is being put together."""

    def __init__(
        self,
        segments: Iterable[SegmentInfo] = (),
        parts: Iterable[Part] = (),
        under_way: Iterable[Rewriting] = (),
    ) -> None:
        self.parts = tuple(part for part in parts if part.count)
        self.loose = tuple(segments)
        self.under_way = tuple(under_way)

    @staticmethod
    def of(segments: Sequence[SegmentInfo]) -> SegmentSet:
        return segments if isinstance(segments, SegmentSet) else SegmentSet(segments)

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": self.parts, "loose": self.loose, "under_way": ()}  # for tasks

    @cached_property
    def _all(self) -> tuple[Part, ...]:
        return (*self.parts, Part(Listing(self.loose))) if self.loose else self.parts

    def __iter__(self) -> Iterator[SegmentInfo]:
        for part in self._all:
            yield from part.segments

    def __len__(self) -> int:
        return sum(part.count for part in self._all)

    @overload
    def __getitem__(self, at: int) -> SegmentInfo: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[SegmentInfo, ...]: ...
    def __getitem__(self, at: int | slice) -> SegmentInfo | tuple[SegmentInfo, ...]:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        mine, theirs = (sorted(some, key=lambda s: s.name) for some in (self, other))
        return mine == theirs and self.under_way == SegmentSet.of(other).under_way

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SegmentSet({list(self)!r})"

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self._all)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self._all)

    def of_side(self, side: str) -> list[SegmentInfo]:
        return [s for part in self._all for s in part.of_side(side)]

    def touching(self, side: str, ranges: Iterable[tuple[int, int]]) -> list[SegmentInfo]:
        """The segments of a side that can hold rows of any of some ranges of hashes."""
        disjoint = _disjoint(ranges)
        return [s for part in self._all for s in part.touching(side, disjoint)]

    def generations(self, side: str, level: int, most: int) -> list[int]:
        """The batches that segments of a side and level were written in, or about as many of them
        as are wanted."""
        found: set[int] = set()
        for part in self._all:
            found.update(part.generations.get((side, level), ()))
            if len(found) >= most:
                break
        return sorted(found)[:most]

    def levels(self) -> dict[tuple[str, int], int]:
        """At most how many generations there are of each side and level."""
        found: dict[tuple[str, int], int] = {}
        for part in self._all:
            for key, batches in part.generations.items():
                found[key] = found.get(key, 0) + len(batches)
        return found

    def of_generations(
        self, side: str, level: int, batch_ids: Collection[int]
    ) -> list[SegmentInfo]:
        return [
            part.listing.segments[at]
            for part in self._all
            for at in _places(part, (side, level), batch_ids)
        ]

    # Changes.

    def _changed(self, parts: Iterable[Part], under_way: Iterable[Rewriting]) -> SegmentSet:
        """The same set with other parts, the loose segments as the last of them."""
        held: list[Part] = []
        loose: tuple[SegmentInfo, ...] = ()
        for part in parts:
            if isinstance(part.listed, Manifest):
                held.append(part)
            else:
                loose = part.segments
        return SegmentSet(loose, held, under_way)

    def added(self, segments: Iterable[SegmentInfo]) -> SegmentSet:
        return SegmentSet((*self.loose, *segments), self.parts, self.under_way)

    def kept(self, keep_after_us: Mapping[str, int]) -> SegmentSet:
        """Without segments of which no row can meet a row to come. Those that are being put
        together stay until that is done, so that what was done of it holds."""
        held = {(r.side, r.level, batch) for r in self.under_way for batch in r.batch_ids}
        parts = [_unexpired(part, keep_after_us, held) for part in self._all]
        return self._changed(parts, self.under_way)

    def only(self, sides: Collection[str]) -> SegmentSet:
        """What there is of some sides."""
        parts = []
        for part in self._all:
            other = [flags for side, flags in part.listing.sides.items() if side not in sides]
            parts.append(part.without(np.any(other, axis=0)) if other else part)
        return self._changed(parts, (r for r in self.under_way if r.side in sides))

    def advanced(self, rewriting: Rewriting, batch_id: int) -> SegmentSet:
        """With what a batch has done of a rewriting; when that is all, with what is written in
        place of what was."""
        others = [r for r in self.under_way if r.key != rewriting.key]
        if rewriting.done < rewriting.pieces:
            return SegmentSet(self.loose, self.parts, (*others, rewriting))
        parts = []
        for part in self._all:
            flags = np.zeros(len(part.listing.segments), bool)
            flags[_places(part, rewriting.key, rewriting.batch_ids)] = True
            parts.append(part.without(flags))
        written = (replace(s, batch_id=batch_id) for s in rewriting.written)
        return self._changed(parts, others).added(written)

    # On disk.

    def sealed(self, folder: Folder) -> SegmentSet:
        """The same segments; what is too much for a commit stands in manifests, those that will
        stay the longest first. Manifests of which most is gone are given up."""
        under_way = [replace(r, written=r.written.sealed(folder)) for r in self.under_way]
        held = [part for part in self.parts if part.is_worthwhile]
        given_up = (part for part in self.parts if not part.is_worthwhile)
        loose = [*self.loose, *(s for part in given_up for s in part.segments)]
        some, rest = _set_aside(loose)
        held += [Part(m) for m in each(folder, lambda s: write_manifest(folder, s), some)]
        return SegmentSet(rest, held, under_way)

    @property
    def manifests(self) -> list[Manifest]:
        """All that this needs, of what is under way too."""
        mine = [part.listed for part in self.parts if isinstance(part.listed, Manifest)]
        return [*mine, *(m for r in self.under_way for m in r.written.manifests)]

    @property
    def files(self) -> set[str]:
        """The files that must live as long as this set is wanted."""
        return self.files_beyond(SegmentSet())

    def files_beyond(self, other: SegmentSet) -> set[str]:
        """The files that must live for this set, but not for another."""
        shared = {part.key for part in self._held()} & {part.key for part in other._held()}
        names = self._names_but(shared) - other._names_but(shared)
        manifests, others = (
            {m.blob.name for m in segments.manifests} for segments in (self, other)
        )
        return names | (manifests - others)

    def _held(self) -> Iterator[Part]:
        yield from self.parts
        for rewriting in self.under_way:
            yield from rewriting.written._held()

    def _names_but(self, shared: set[Key]) -> set[str]:
        """The segments in parts with other keys, and those in no manifest."""
        names = {s.name for s in self.loose}
        names.update(s.name for part in self.parts if part.key not in shared for s in part.segments)
        return names.union(*(r.written._names_but(shared) for r in self.under_way))

    def to_json(self) -> dict[str, Any]:
        """As commits have it: a list of segments, as ever, and what else there is."""
        found: dict[str, Any] = {"segments": [s.to_json() for s in self.loose]}
        if self.parts:
            found["manifests"] = [_part_json(part) for part in self.parts]
        if self.under_way:
            found["under_way"] = [r.to_json() for r in self.under_way]
        return found

    @staticmethod
    def from_json(folder: Folder, data: Mapping[str, Any]) -> SegmentSet:
        parts = []
        for part in data.get("manifests", ()):
            manifest = Manifest.from_json(folder, part)
            bits = np.frombuffer(bytes.fromhex(part["gone"]), np.uint8)
            gone = np.unpackbits(bits, count=manifest.count).astype(bool) if len(bits) else None
            parts.append(Part(manifest, gone))
        under_way = [Rewriting.from_json(folder, r) for r in data.get("under_way", ())]
        return SegmentSet(map(SegmentInfo.from_json, data["segments"]), parts, under_way)


def _set_aside(
    loose: Sequence[SegmentInfo],
) -> tuple[list[Sequence[SegmentInfo]], Sequence[SegmentInfo]]:
    """What is too much for a commit, in portions of a manifest, those that will stay the longest
    first; and the rest."""
    sizes = [1 + len(s.parts) // PARTS_EACH for s in loose]
    left = sum(sizes)
    if left <= 2 * MANIFEST_SEGMENTS:
        return [], loose
    order = sorted(range(len(loose)), key=lambda at: -loose[at].level)
    found: list[Sequence[SegmentInfo]] = []
    begin = size = 0
    for end, at in enumerate(order, 1):
        size += sizes[at]
        if size >= MANIFEST_SEGMENTS and left - size >= MANIFEST_SEGMENTS:
            found.append([loose[at] for at in order[begin:end]])
            begin, left, size = end, left - size, 0
    return found, [loose[at] for at in order[begin:]]


def _part_json(part: Part) -> dict[str, Any]:
    assert isinstance(part.listed, Manifest)
    return part.listed.to_json() | {"gone": part.key[1].hex()}


def _places(part: Part, key: tuple[str, int], batch_ids: Collection[int]) -> list[int]:
    """Where segments of some generations of a side and level stand."""
    batches = part.generations.get(key, {})
    return [at for batch in batch_ids for at in batches.get(batch, ())]


def _unexpired(
    part: Part, keep_after_us: Mapping[str, int], held: set[tuple[str, int, int]]
) -> Part:
    due = [side for side, end in part.ends.items() if end < keep_after_us[side]]
    if not due:
        return part
    listing = part.listing
    flags = np.zeros(len(listing.segments), bool)
    for side in due:
        flags |= listing.sides[side] & (listing.times_max < keep_after_us[side])
    for at in np.flatnonzero(flags) if held else ():
        segment = listing.segments[at]
        flags[at] = (segment.side, segment.level, segment.batch_id) not in held
    return part.without(flags)


def _disjoint(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, those put together that overlap."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found
