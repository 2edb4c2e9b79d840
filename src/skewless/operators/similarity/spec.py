"""What a similarity join compares. Frozen and picklable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from skewless.arrays.types import FAR_US, SIDES, Side
from skewless.durations import format_duration_us
from skewless.engine.changes import columns_facts
from skewless.engine.operator import Input
from skewless.engine.watermark import EventTimes, Party, joined_times
from skewless.operators.pair import OutputColumn
from skewless.operators.similarity.metrics import Metric
from skewless.state.rewriting import Layout

FROM_CENTER = pa.field("__from_center", pa.float64(), nullable=False)
DISTANCE = "distance"


@dataclass(frozen=True)
class VectorSide:
    """One input: its columns, those that are compared, its event time, and how late rows may be.
    Where times are not bounded, there need not be one."""

    schema: pa.Schema
    vector: tuple[int, ...]
    time: int | None
    late_us: int
    left_out: tuple[str, ...] = ()  # columns that the input has, and nobody needs

    def only(self, columns: Sequence[int]) -> VectorSide:
        """The same with these columns, among which are all that play a part."""
        schema = pa.schema([self.schema.field(i) for i in columns])
        vector = tuple(columns.index(i) for i in self.vector)
        time = None if self.time is None else columns.index(self.time)
        gone = (name for i, name in enumerate(self.schema.names) if i not in columns)
        return VectorSide(schema, vector, time, self.late_us, (*self.left_out, *gone))


@dataclass(frozen=True)
class SimilaritySpec:
    """What is compared with what: ``distance <= threshold`` and ``left.time + lower <= right.time
    <= left.time + upper``, and in one window of `window_us` if there is one. Without a `right` side
    the left one is joined with itself: each pair once, no row with itself."""

    left: VectorSide
    right: VectorSide | None
    metric: Metric
    threshold: float
    lower_us: int
    upper_us: int
    window_us: int | None
    output: tuple[OutputColumn, ...]
    dimension: int | None = None
    drop_bad: bool = False
    drop_null_times: bool = False
    check_metric: bool = False

    def only(self, output: Sequence[int]) -> tuple[SimilaritySpec, list[list[int]]]:
        """The same join with these columns of the result, and the distance; and the columns of each
        input that are still needed."""
        columns = [self.output[i] for i in output if i < len(self.output)]
        needed = {side: sorted(self._needed(side, columns)) for side in self.sides}
        sides = [self.side(side).only(of) for side, of in needed.items()]
        moved = tuple(
            replace(c, index=needed[self._stored(c.side)].index(c.index)) for c in columns
        )
        right = None if self.is_self_join else sides[1]
        return replace(self, left=sides[0], right=right, output=moved), list(needed.values())

    def _needed(self, side: Side, output: Sequence[OutputColumn]) -> set[int]:
        this = self.side(side)
        parts = {*this.vector} | (set() if this.time is None else {this.time})
        return parts | {c.index for c in output if self._stored(c.side) == side}

    def _stored(self, side: Side) -> Side:
        """Where rows of a side lie: the one stream of a self-join is both."""
        return "left" if self.is_self_join else side

    @property
    def is_self_join(self) -> bool:
        return self.right is None

    @property
    def bounded(self) -> bool:
        """Whether rows expire at all."""
        return self.lower_us > -FAR_US and self.upper_us < FAR_US

    @property
    def sides(self) -> tuple[Side, ...]:
        return ("left",) if self.is_self_join else SIDES

    def side(self, side: str) -> VectorSide:
        return self.left if side == "left" or self.right is None else self.right

    def other(self, side: str) -> Side:
        """Where rows of a side find their partners."""
        return "left" if self.is_self_join or side == "right" else "right"

    def inputs(self) -> tuple[Input, ...]:
        sides = ((side, self.side(side)) for side in self.sides)
        return tuple(
            Input(side, this.schema, this.time, this.late_us, self.drop_null_times)
            for side, this in sides
        )

    def partner_bounds(self, prober: str) -> tuple[int, int]:
        """The interval around a prober's time in which its partner's time lies."""
        if prober == "left" and not self.is_self_join:
            return self.lower_us, self.upper_us
        return -self.upper_us, -self.lower_us

    @property
    def span_us(self) -> int:
        """How far apart in time rows can be that meet."""
        if self.window_us is not None:
            return self.window_us
        return min(max(abs(self.lower_us), abs(self.upper_us)), FAR_US)

    def keep_after_us(self, side: str, watermark_us: int) -> int:
        """Rows of a side older than this can meet no row at or after the watermark."""
        if not self.bounded:
            return -FAR_US
        if self.window_us is not None:
            # A window whose end the watermark has reached gets no more rows.
            return max(watermark_us // self.window_us * self.window_us, -FAR_US)
        max_lag_us = self.upper_us if side == "left" else -self.lower_us
        if self.is_self_join:
            max_lag_us = self.span_us
        return max(watermark_us - max_lag_us, -FAR_US)

    def keep_all_after_us(self, watermark_us: int) -> dict[str, int]:
        """The same for every side."""
        return {side: self.keep_after_us(side, watermark_us) for side in self.sides}

    def kept_us(self) -> dict[str, int]:
        if self.window_us is not None:
            return dict.fromkeys(self.sides, self.window_us)
        return {side: max(0, -us) for side, us in self.keep_all_after_us(0).items()}

    def keep_sets_after_us(self, watermark_us: int) -> tuple[int, int]:
        """Sets whose latest row is older than this hold none that can meet another; and from when
        on a set is known that has become empty, which is for as long again."""
        keep_after_us = min(self.keep_all_after_us(watermark_us).values())
        return keep_after_us, max(keep_after_us - self.span_us, -FAR_US)

    def event_times(self, below: Sequence[EventTimes]) -> EventTimes:
        """Which columns of the result have a watermark: none where times are not bounded."""
        times = [i.time_name for i in self.inputs()]
        if not self.bounded or None in times:
            return EventTimes()
        parties = [Party(of, str(time)) for of, time in zip(below, times, strict=True)]
        behind_us = {(0, 1): self.upper_us, (1, 0): -self.lower_us}
        if self.is_self_join:
            # Both rows are of the one input, and the earlier one comes first.
            parties, behind_us = parties * 2, {(0, 1): self.span_us, (1, 0): 0}
        return joined_times(parties, lambda x, y: behind_us[x, y], self._name_of)

    def _name_of(self, party: int, column: str) -> str | None:
        """What an input's column is called in the result."""
        side = SIDES[party]
        names = self.side(side).schema.names
        return next(
            (c.name for c in self.output if c.side == side and names[c.index] == column), None
        )

    def layouts(self) -> dict[str, Layout]:
        """Rows in the state: as they came, and how far they are from the center of their set."""
        return {side: Layout(self.stored_schema(side), self.side(side).time) for side in self.sides}

    def stored_schema(self, side: str) -> pa.Schema:
        return self.side(side).schema.append(FROM_CENTER)

    def output_schema(self) -> pa.Schema:
        fields = [self.side(c.side).schema.field(c.index).with_name(c.name) for c in self.output]
        fields.append(pa.field(DISTANCE, pa.float64()))
        return pa.schema([f.with_nullable(True).remove_metadata() for f in fields])

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""
        facts = {
            "kind": "similarity join",
            "metric": repr(self.metric),
            "threshold": repr(self.threshold),
        }
        for i in self.inputs():
            names = i.schema.names
            facts |= columns_facts(f"{i.name} columns", i.schema, self.side(i.name).left_out)
            facts[f"{i.name} compared"] = ", ".join(names[n] for n in self.side(i.name).vector)
            facts[f"{i.name} time"] = i.time_name or "none"
        if self.window_us is not None:
            return facts | {"window": format_duration_us(self.window_us)}
        bounds = [format_duration_us(us) for us in (self.lower_us, self.upper_us)]
        return facts | {"within": " to ".join(bounds) if self.bounded else "unbounded"}
