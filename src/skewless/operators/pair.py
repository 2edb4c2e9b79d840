"""What a join of two inputs compares. Three-way joins have one of these per edge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import pyarrow as pa

from skewless.arrays.types import FAR_US, SIDES, Side, SideSpec, other_side
from skewless.durations import format_duration_us
from skewless.engine.changes import columns_facts
from skewless.engine.operator import Input
from skewless.engine.watermark import EventTimes, Party, joined_times
from skewless.expressions import Condition
from skewless.operators.epochs import Epoch
from skewless.operators.join_type import INNER, JoinType
from skewless.operators.pair_condition import PairCondition


def keyless(side: str) -> str:
    """The name under which rows of a side are stored that can match nothing: they have no key."""
    return f"{side}-keyless"


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result: the input side and column it is taken from. Where one column stands
    for equal ones of both sides, and a row may lack the one side, `other` is where the other side
    has it, and `type` what both are cast to."""

    side: Side
    index: int
    name: str
    other: int | None = None
    type: pa.DataType | None = None


@dataclass(frozen=True)
class JoinSpec:
    """What is joined with what: ``left.time + lower <= right.time <= left.time + upper``. Left rows
    of `earlier` epochs are joined by the bounds of then."""

    left: SideSpec
    right: SideSpec
    lower_us: int
    upper_us: int
    output: tuple[OutputColumn, ...]
    drop_null_times: bool = False
    how: JoinType = INNER
    condition: PairCondition | None = None
    filter: PairCondition | None = None  # of the result, asked here already
    earlier: tuple[Epoch, ...] = ()

    def side(self, side: str) -> SideSpec:
        return self.left if side == "left" else self.right

    @property
    def bounded(self) -> bool:
        """Whether there is a bound at all, on one end or both."""
        return self.lower_us > -FAR_US or self.upper_us < FAR_US

    def is_decided(self, side: str) -> bool:
        """Whether the rows of a side can be told one day to have no partner to come: left ones need
        an upper bound, right ones a lower bound."""
        return self.upper_us < FAR_US if side == "left" else self.lower_us > -FAR_US

    @property
    def looked_up(self) -> tuple[Side, ...]:
        """Sides whose rows are decided about by looking for partners, when none can come."""
        return self.how.looked_up

    def lags_us(self) -> tuple[int, int]:
        """How far the times of both sides can lie behind the watermark in a row that is emitted: a
        new row is at or after it, so that its partner is at most the bound behind."""
        return max(0, self.upper_us), max(0, -self.lower_us)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """By which bounds left rows of which times are joined; almost always one."""
        since_us = self.earlier[-1].until_us if self.earlier else -FAR_US
        return (*self.earlier, Epoch(since_us, FAR_US, self.lower_us, self.upper_us))

    def partner_bounds(self, prober: Side) -> tuple[int, int]:
        """The interval around a prober's time in which its partner's time lies, in any epoch."""
        bounds = [epoch.partner_bounds(prober) for epoch in self.epochs]
        return min(lower for lower, _ in bounds), max(upper for _, upper in bounds)

    def decided_before_us(self, side: Side, watermark_us: int) -> int:
        """Rows of `side` older than this can meet no row at or after the watermark."""
        latest_us = self.partner_bounds(side)[1]
        return -FAR_US if latest_us >= FAR_US else max(watermark_us - latest_us, -FAR_US)

    def keep_after_us(
        self, side: Side, watermark_us: int, decided_us: Mapping[str, int] | None = None
    ) -> int:
        """Rows of `side` older than this are needed no more by rows at or after the watermark. Of
        the sides that are looked up, rows before `decided_us` have been: the others must still be
        there, and all that they might have met."""
        keep = self.decided_before_us(side, watermark_us)
        for asked in self.looked_up:
            since = (decided_us or {}).get(asked, -FAR_US)
            keep = min(keep, since if asked == side else since + self.partner_bounds(asked)[0])
        return max(keep, -FAR_US)

    def kept_us(self) -> dict[str, int]:
        decided = {str(side): self.decided_before_us(side, 0) for side in self.looked_up}
        return {side: max(0, -self.keep_after_us(side, 0, decided)) for side in SIDES}

    def only(self, output: Sequence[int]) -> tuple[Self, list[list[int]]]:
        """The same join with these columns of the result; and the columns of each input that are
        still needed."""
        columns = [self.output[i] for i in output]
        needed = {side: sorted(self._needed(side, columns)) for side in SIDES}
        place = {side: {old: new for new, old in enumerate(needed[side])} for side in SIDES}
        left, right = (self.side(side).only(needed[side]) for side in SIDES)
        moved = tuple(
            replace(
                c,
                index=place[c.side][c.index],
                other=None if c.other is None else place[other_side(c.side)][c.other],
            )
            for c in columns
        )
        condition, filter_ = (
            None if asked is None else asked.over(lambda side, index: place[side][index])
            for asked in (self.condition, self.filter)
        )
        pruned = replace(
            self, left=left, right=right, output=moved, condition=condition, filter=filter_
        )
        return pruned, list(needed.values())

    def _needed(self, side: Side, output: Sequence[OutputColumn]) -> set[int]:
        found = self.side(side).parts
        found |= set() if self.on_pairs is None else set(self.on_pairs.used(side))
        found |= {c.index for c in output if c.side == side}
        return found | {c.other for c in output if c.other is not None and c.side != side}

    def where(self, condition: Condition) -> JoinSpec:
        """The same join with a condition over the columns of the result, which is a condition on
        its pairs: every row is one."""
        assert self.how == INNER, self.how.name
        assert all(c.type is None for c in self.output), self.output
        asked = PairCondition(condition, tuple((c.side, c.index) for c in self.output))
        return replace(self, filter=asked)

    @cached_property
    def on_pairs(self) -> PairCondition | None:
        """What is asked of pairs with equal keys."""
        return self.condition if self.filter is None else self.filter.after(self.condition)

    def output_schema(self) -> pa.Schema:
        fields = [self.side(c.side).schema.field(c.index).with_name(c.name) for c in self.output]
        fields = [
            f if c.type is None else f.with_type(c.type)
            for f, c in zip(fields, self.output, strict=True)
        ]
        return pa.schema([f.with_nullable(True).remove_metadata() for f in fields])

    def inputs(self) -> tuple[Input, ...]:
        return tuple(
            Input(side, this.schema, this.time, this.late_us, self.drop_null_times)
            for side, this in zip(SIDES, (self.left, self.right), strict=True)
        )

    def event_times(self, below: Sequence[EventTimes]) -> EventTimes:
        """Which columns of the result have a watermark: none of a side that is kept for ever, and
        none of one that a row may lack. A row without a partner comes before its time is further
        behind the watermark than a partner's could be."""
        times = [i.time_name for i in self.inputs()]
        if not self.bounded or None in times:
            return EventTimes()
        parties = [Party(of, str(time)) for of, time in zip(below, times, strict=True)]
        behind_us = {(0, 1): self.upper_us, (1, 0): -self.lower_us}
        return joined_times(
            parties, lambda x, y: behind_us[x, y], self._name_of, self.lags_us().__getitem__
        )

    def _name_of(self, party: int, column: str) -> str | None:
        """What an input's column is called in the result."""
        side = SIDES[party]
        names = self.side(side).schema.names
        if not self.how.is_always_there(side) or not self.is_decided(side):
            return None
        return next(
            (c.name for c in self.output if c.side == side and names[c.index] == column), None
        )

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""

        def keys(side: SideSpec) -> str:
            parts = [
                f"{side.schema.field(k.index).name} as {k.type}{' or null' if k.null_safe else ''}"
                for k in side.keys
            ]
            parts += [f"{side.schema.field(b.index).name} ± {b.width}" for b in side.bands]
            return ", ".join(parts)

        def time(side: SideSpec) -> str:
            return "none" if side.time is None else str(side.schema.field(side.time).name)

        facts = {"kind": "two-way join"}
        if self.how != INNER:
            facts["how"] = self.how.name
        if self.condition is not None:
            facts["condition"] = self.condition.condition.sql
        for name, side in (("left", self.left), ("right", self.right)):
            facts |= columns_facts(f"{name} columns", side.schema, side.left_out)
            facts[f"{name} keys"] = keys(side)
            facts[f"{name} time"] = time(side)
        bounds = [
            format_duration_us(us) if abs(us) < FAR_US else "unbounded"
            for us in (self.lower_us, self.upper_us)
        ]
        return facts | {"within": " to ".join(bounds) if self.bounded else "unbounded"}
