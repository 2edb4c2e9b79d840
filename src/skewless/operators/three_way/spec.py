"""The values that describe a join of three streams. All frozen, all picklable.

The streams are numbered 0, 1, 2 and called r, s, t. Two of them that have a condition are joined by
an edge: two edges make a chain, three a cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import pyarrow as pa

from skewless.arrays.types import FAR_US, SideSpec
from skewless.engine.operator import Input
from skewless.engine.watermark import EventTimes, Party, joined_times
from skewless.operators.pair import JoinSpec

NAMES = ("r", "s", "t")
STREAMS = (0, 1, 2)


@dataclass(frozen=True)
class Stream:
    """One input: its columns, its event time, and how late its rows may be. Where times are not
    bounded, there need not be one."""

    schema: pa.Schema
    time: int | None
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

    def only(self, output: Sequence[int]) -> tuple[ThreeSpec, list[list[int]]]:
        """The same join with these columns of the result. All columns of the inputs are stored:
        packs of earlier batches have them by their numbers."""
        every = [list(range(len(stream.schema))) for stream in self.streams]
        return replace(self, output=tuple(self.output[i] for i in output)), every

    def edge(self, x: int, y: int) -> Edge | None:
        pair = (min(x, y), max(x, y))
        return next((e for e in self.edges if (e.a, e.b) == pair), None)

    def edges_of(self, stream: int) -> list[Edge]:
        return [e for e in self.edges if stream in (e.a, e.b)]

    @property
    def is_cycle(self) -> bool:
        return len(self.edges) == 3

    def side_name(self, stream: int, edge: Edge) -> str:
        """Rows of a stream, sorted for an edge, as segments call them."""
        return f"{NAMES[stream]}-{edge.name}"

    def max_lag_us(self, x: int, y: int) -> int:
        """How much later than a row of x the row of y in one triple can be: directly, or by way of
        the third stream, whichever is less. `FAR_US` where there is no limit."""
        third = 3 - x - y
        by_third = _added(self._direct_us(x, third), self._direct_us(third, y))
        return min(self._direct_us(x, y), by_third)

    def _direct_us(self, x: int, y: int) -> int:
        edge = self.edge(x, y)
        return FAR_US if edge is None else min(edge.partner_bounds(x)[1], FAR_US)

    def keep_after_us(self, stream: int, watermark_us: int) -> int:
        """Rows of a stream older than this can be in no triple with a row to come."""
        lags = (self.max_lag_us(stream, y) for y in STREAMS if y != stream)
        return before(watermark_us, max(lags))

    def kept_us(self) -> dict[str, int]:
        return {NAMES[x]: max(0, -self.keep_after_us(x, 0)) for x in STREAMS}

    def inputs(self) -> tuple[Input, ...]:
        return tuple(
            Input(name, x.schema, x.time, x.late_us, self.drop_null_times, f"input {name}")
            for name, x in zip(NAMES, self.streams, strict=True)
        )

    def event_times(self, below: Sequence[EventTimes]) -> EventTimes:
        """Which columns of the result have a watermark: none where rows can lie behind one another
        without limit."""
        lags = (self.max_lag_us(x, y) for x, y in permutations(STREAMS, 2))
        if max(lags) >= FAR_US:
            return EventTimes()
        times = (i.time_name for i in self.inputs())
        parties = [Party(of, str(time)) for of, time in zip(below, times, strict=True)]
        return joined_times(parties, self.max_lag_us, self._name_of)

    def _name_of(self, stream: int, column: str) -> str | None:
        """What an input's column is called in the result."""
        names = self.streams[stream].schema.names
        return next(
            (c.name for c in self.output if c.stream == stream and names[c.index] == column), None
        )

    def output_schema(self) -> pa.Schema:
        fields = [self.streams[c.stream].schema.field(c.index).with_name(c.name)
                  for c in self.output]  # fmt: skip
        return pa.schema([f.with_nullable(True).remove_metadata() for f in fields])

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""
        facts = {"kind": "three-way join"}
        for i in self.inputs():
            facts[f"{i.name} columns"] = ", ".join(f"{f.name} {f.type}" for f in i.schema)
            facts[f"{i.name} time"] = i.time_name or "none"
        for edge in self.edges:
            two = edge.pair.fingerprint()
            facts[edge.name] = f"{two['left keys']} with {two['right keys']}"
            facts[f"{edge.name} within"] = two["within"]
        return facts


def _added(one_us: int, other_us: int) -> int:
    """Two lags, one after the other. Without a limit, taking something off makes none."""
    return FAR_US if FAR_US in (one_us, other_us) else min(one_us + other_us, FAR_US)


def before(watermark_us: int, lag_us: int) -> int:
    """So far before a watermark; before everything, where there is no limit."""
    return -FAR_US if lag_us >= FAR_US else max(watermark_us - lag_us, -FAR_US)


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
