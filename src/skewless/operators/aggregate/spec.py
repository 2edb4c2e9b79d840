"""The values that describe an aggregation. All frozen, all picklable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from skewless.arrays.types import FAR_US, SideSpec
from skewless.durations import format_duration_us
from skewless.engine.operator import Input
from skewless.engine.watermark import EventTimes
from skewless.operators.aggregate.accumulators.base import Accumulator
from skewless.operators.aggregate.windows import Window
from skewless.state.rewriting import Layout

INPUT = "input"
PARTIALS = "partials"
WINDOW_FIELD = pa.field("__window", pa.int64(), nullable=False)

Mode = Literal["append", "update"]


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of the result: its name, what computes it, and from which input columns."""

    name: str
    accumulator: Accumulator
    columns: tuple[int, ...]


@dataclass(frozen=True)
class AggregateSpec:
    """What is aggregated. `input` has only the columns that are needed; its keys are the groups."""

    input: SideSpec
    aggregates: tuple[Aggregate, ...]
    window: Window | None
    drop_null_times: bool = False

    @property
    def key_fields(self) -> list[pa.Field]:
        return [self.input.schema.field(k.index) for k in self.input.keys]

    @property
    def window_index(self) -> int | None:
        """Where partial results have the begin of their window."""
        return None if self.window is None else 0

    @property
    def keys_at(self) -> int:
        """Where the key columns of a partial result begin."""
        return 0 if self.window is None else 1

    def inputs(self) -> tuple[Input, ...]:
        this = self.input
        title = INPUT  # there is only one
        return (Input(INPUT, this.schema, this.time, this.late_us, self.drop_null_times, title),)

    def kept_us(self) -> dict[str, int]:
        return {INPUT: FAR_US if self.window is None else self.window.size_us}

    def layouts(self) -> dict[str, Layout]:
        return {PARTIALS: Layout(self.partial_schema(), self.window_index)}

    def partial_schema(self) -> pa.Schema:
        """A partial result: the begin of its window, its keys, and the state of each aggregate."""
        fields = [] if self.window is None else [WINDOW_FIELD]
        fields += self.key_fields
        for aggregate in self.aggregates:
            kept = aggregate.accumulator.state.items()
            fields += [pa.field(f"{aggregate.name}.{name}", kind) for name, kind in kept]
        return pa.schema(fields)

    def output_schema(self) -> pa.Schema:
        fields = []
        if self.window is not None and self.input.time is not None:
            kind = self.input.schema.field(self.input.time).type
            ends = [pa.field("start", kind), pa.field("end", kind)]
            fields = [pa.field("window", pa.struct(ends))]
        fields += self.key_fields
        fields += [pa.field(a.name, a.accumulator.result) for a in self.aggregates]
        return pa.schema([f.with_nullable(True).remove_metadata() for f in fields])

    def event_times(self, below: Sequence[EventTimes]) -> EventTimes:
        """The ends of windows have a watermark. A window that is emitted was open by the watermark
        its batch was judged by, so it ended after it."""
        if self.window is None:
            return EventTimes()
        size = self.window.size_us
        return EventTimes(("window.start", "window.end"), (size - 1, -1), ((0, size), (-size, 0)))

    def closed_to_us(self, watermark_us: int) -> int:
        """Windows that begin up to here are closed."""
        if self.window is None:
            return -FAR_US
        return max(self.window.closed_to_us(watermark_us), -FAR_US)

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""
        names = self.input.schema.names

        def described(aggregate: Aggregate) -> str:
            columns = ", ".join(f"{names[i]} {self.input.schema.types[i]}"
                                for i in aggregate.columns)  # fmt: skip
            return f"{aggregate.name} = {aggregate.accumulator!r} of ({columns})"

        keys = [f"{names[k.index]} as {k.type}" for k in self.input.keys]
        facts = {
            "kind": "aggregation",
            "by": ", ".join(keys),
            "aggregates": "; ".join(described(a) for a in self.aggregates),
            "time": "none" if self.input.time is None else names[self.input.time],
            "window": "none",
        }
        if self.window is not None:
            size, slide = (
                format_duration_us(us) for us in (self.window.size_us, self.window.slide_us)
            )
            facts["window"] = f"{size} every {slide}"
        return facts
