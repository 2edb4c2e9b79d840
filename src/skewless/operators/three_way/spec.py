"""The values that describe a join of three streams, and one batch of it. All frozen, all picklable.

The streams are numbered 0, 1, 2 and called r, s, t. Two of them that have a condition are joined by
an edge: two edges make a chain, three a cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import permutations
from typing import Any

import pyarrow as pa

from skewless.arrays.types import FAR_US, SideSpec
from skewless.durations import format_duration_us
from skewless.engine.operator import HeavyKey, RunRef
from skewless.engine.report import InstanceLoad
from skewless.operators.pair import JoinSpec
from skewless.state.segments import SegmentInfo

NAMES = ("r", "s", "t")
STREAMS = (0, 1, 2)


@dataclass(frozen=True)
class Stream:
    """One input: its columns, its event time, and how late its rows may be."""

    schema: pa.Schema
    time: int
    late_us: int


@dataclass(frozen=True)
class Edge:
    """What joins stream `a` with stream `b`, a < b, as a two-way join would have it:
    ``a.time + lower <= b.time <= a.time + upper``."""

    a: int
    b: int
    pair: JoinSpec

    @property
    def name(self) -> str:
        return NAMES[self.a] + NAMES[self.b]

    def side(self, stream: int) -> SideSpec:
        return self.pair.left if stream == self.a else self.pair.right

    def other(self, stream: int) -> int:
        return self.b if stream == self.a else self.a

    def partner_bounds(self, stream: int) -> tuple[int, int]:
        """The interval around a row's time in which its partner's time lies."""
        return self.pair.partner_bounds("left" if stream == self.a else "right")


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result: the stream and column it is taken from."""

    stream: int
    index: int
    name: str


@dataclass(frozen=True)
class ThreeSpec:
    """What is joined with what."""

    streams: tuple[Stream, Stream, Stream]
    edges: tuple[Edge, ...]
    output: tuple[OutputColumn, ...]
    drop_null_times: bool = False

    def edge(self, x: int, y: int) -> Edge | None:
        pair = (min(x, y), max(x, y))
        return next((e for e in self.edges if (e.a, e.b) == pair), None)

    def edges_of(self, stream: int) -> list[Edge]:
        return [e for e in self.edges if stream in (e.a, e.b)]

    @property
    def is_cycle(self) -> bool:
        return len(self.edges) == 3

    @property
    def center(self) -> int:
        """The stream that has conditions with both others; any one in a cycle."""
        return next(x for x in STREAMS if len(self.edges_of(x)) == 2)

    def side_name(self, stream: int, edge: Edge) -> str:
        """Rows of a stream, sorted for an edge, as segments call them."""
        return f"{NAMES[stream]}-{edge.name}"

    def reach_us(self, x: int, y: int) -> int:
        """How much later than a row of x the row of y in one triple can be: directly, or by way of
        the third stream, whichever is less."""
        third = 3 - x - y
        by_third = self._direct_us(x, third) + self._direct_us(third, y)
        return min(self._direct_us(x, y), by_third)

    def _direct_us(self, x: int, y: int) -> int:
        edge = self.edge(x, y)
        return 2 * FAR_US if edge is None else edge.partner_bounds(x)[1]

    def keep_after_us(self, stream: int, watermark_us: int) -> int:
        """Rows of a stream older than this can be in no triple with a row to come."""
        reach = max(self.reach_us(stream, y) for y in STREAMS if y != stream)
        return max(watermark_us - reach, -FAR_US)

    def output_schema(self) -> pa.Schema:
        fields = [self.streams[c.stream].schema.field(c.index).with_name(c.name)
                  for c in self.output]  # fmt: skip
        return pa.schema([f.with_nullable(True).remove_metadata() for f in fields])

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""
        facts = {"kind": "three-way join"}
        for name, stream in zip(NAMES, self.streams, strict=True):
            columns = ", ".join(f"{f.name} {f.type}" for f in stream.schema)
            facts[f"{name} columns"] = columns
            facts[f"{name} time"] = stream.schema.field(stream.time).name
        for edge in self.edges:
            two = edge.pair.fingerprint()
            facts[edge.name] = f"{two['left keys']} with {two['right keys']}"
            bounds = [format_duration_us(us) for us in (edge.pair.lower_us, edge.pair.upper_us)]
            facts[f"{edge.name} within"] = " to ".join(bounds)
        return facts


Hop = tuple[int, int]  # from a stream that is bound already to the next one
Routes = tuple[tuple[Hop, Hop], ...]  # for new rows of r, s and t


def routes_of(spec: ThreeSpec, stream: int) -> list[tuple[Hop, Hop]]:
    """The ways in which a new row of a stream can find its two partners."""
    found = []
    for y, z in permutations([x for x in STREAMS if x != stream]):
        if spec.edge(stream, y) is None:
            continue
        found += [((stream, y), (via, z)) for via in (stream, y) if spec.edge(via, z) is not None]
    return found


@dataclass(frozen=True)
class StreamArrival:
    """What one task found in its part of a stream: a segment per edge, all of the same rows."""

    stream: int
    segments: tuple[RunRef, ...] = ()
    rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    nan_bands: int = 0
    time_max_us: int | None = None
    heavy_keys: tuple[HeavyKey, ...] = ()

    @staticmethod
    def from_json(data: dict[str, Any]) -> StreamArrival:
        data = dict(data)
        runs = tuple(
            RunRef(SegmentInfo.from_json(s["segment"]), s["probe_file"])
            for s in data.pop("segments")
        )
        heavy = tuple(HeavyKey(**k) for k in data.pop("heavy_keys"))
        return StreamArrival(segments=runs, heavy_keys=heavy, **data)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ThreePlan:
    """All that the instances need to know to work on one batch. `routes` are how new rows find
    their partners, where the strategy lets them choose."""

    batch_id: int
    root: str
    watermark_us: int
    instances: int
    keep_after_us: Mapping[str, int]
    new: tuple[RunRef, ...]
    old: tuple[SegmentInfo, ...]
    routes: Routes
    packing: bool = True
    compact: tuple[tuple[SegmentInfo, ...], ...] = ()
    report_folder: str = ""
    pairs: tuple[SegmentInfo, ...] = ()  # made by an earlier step of this batch
    kept: str | None = None  # the kind of pairs that an automatic join keeps
    fills: bool = False  # in a first step the pairs of all old rows are made


Met = tuple[int, int, int, int, int, int]  # new stream, from, to, probes, candidates, hits


@dataclass
class Tally:
    """What an instance counts while it works. For the new rows of each stream and each of their
    hops: the rows that probed, the candidates they met, and how many of them met any. `shipped` are
    new rows that came to this instance while others have them, too."""

    rows: int = 0
    matches: int = 0
    late: int = 0
    shipped: int = 0
    probes: Counter[tuple[int, Hop]] = field(default_factory=Counter)
    candidates: Counter[tuple[int, Hop]] = field(default_factory=Counter)
    hits: Counter[tuple[int, Hop]] = field(default_factory=Counter)

    def met(self, new: int, hop: Hop, probes: int, candidates: int, hits: int) -> None:
        self.probes[new, hop] += probes
        self.candidates[new, hop] += candidates
        self.hits[new, hop] += hits

    def hops(self) -> tuple[Met, ...]:
        return tuple(
            (new, *hop, probes, self.candidates[new, hop], self.hits[new, hop])
            for (new, hop), probes in sorted(self.probes.items())
        )


@dataclass(frozen=True)
class Told:
    """What one instance tells of a batch; `hops` as `Tally` has them."""

    load: InstanceLoad
    shipped: int = 0
    hops: tuple[Met, ...] = ()
    written: tuple[SegmentInfo, ...] = ()
    compacted: tuple[SegmentInfo, ...] = ()

    @staticmethod
    def from_json(data: dict[str, Any]) -> Told:
        return Told(
            InstanceLoad(**data["load"]),
            data["shipped"],
            tuple((new, a, b, n, m, hit) for new, a, b, n, m, hit in data["hops"]),
            tuple(SegmentInfo.from_json(s) for s in data["written"]),
            tuple(SegmentInfo.from_json(s) for s in data["compacted"]),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
