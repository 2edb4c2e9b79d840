"""The values that describe a similarity join, and one batch of it. All frozen, all picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from skewless.arrays.types import FAR_US, Side
from skewless.durations import format_duration_us
from skewless.engine.report import InstanceLoad
from skewless.operators.pair import OutputColumn
from skewless.operators.similarity.metrics import Metric
from skewless.state.commits import GrouperFile
from skewless.state.segments import SegmentInfo

HOME_FIELD = pa.field("__from_center", pa.float64(), nullable=False)
DISTANCE = "distance"


@dataclass(frozen=True)
class VectorSide:
    """One input: its columns, those that are compared, its event time, and how late rows may be."""

    schema: pa.Schema
    vector: tuple[int, ...]
    time: int
    late_us: int


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

    @property
    def sides(self) -> tuple[Side, ...]:
        return ("left",) if self.right is None else ("left", "right")

    def side(self, side: str) -> VectorSide:
        return self.left if side == "left" or self.right is None else self.right

    def partner_bounds(self, prober: str) -> tuple[int, int]:
        """The interval around a prober's time in which its partner's time lies."""
        if prober == "left" and self.right is not None:
            return self.lower_us, self.upper_us
        return -self.upper_us, -self.lower_us

    def keep_after_us(self, side: str, watermark_us: int) -> int:
        """Rows of a side older than this can meet no row at or after the watermark."""
        if self.window_us is not None:
            # A window whose end the watermark has reached gets no more rows.
            return max(watermark_us // self.window_us * self.window_us, -FAR_US)
        reach = self.upper_us if side == "left" else -self.lower_us
        if self.right is None:
            reach = max(self.upper_us, -self.lower_us)
        return max(watermark_us - reach, -FAR_US)

    @property
    def span_us(self) -> int:
        """How far apart in time rows can be that meet."""
        if self.window_us is not None:
            return self.window_us
        return max(abs(self.lower_us), abs(self.upper_us))

    def stored_schema(self, side: str) -> pa.Schema:
        """Rows in the state: as they came, and how far they are from the center of their set."""
        return self.side(side).schema.append(HOME_FIELD)

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
        for side in self.sides:
            this = self.side(side)
            facts[f"{side} columns"] = ", ".join(f"{f.name} {f.type}" for f in this.schema)
            facts[f"{side} compared"] = ", ".join(this.schema.names[i] for i in this.vector)
            facts[f"{side} time"] = this.schema.names[this.time]
        if self.window_us is not None:
            return facts | {"window": format_duration_us(self.window_us)}
        bounds = [format_duration_us(us) for us in (self.lower_us, self.upper_us)]
        return facts | {"within": " to ".join(bounds)}


@dataclass(frozen=True)
class VectorArrival:
    """What one task found in its part of a batch: rows sorted by (workset, time) as a segment, and
    the worksets they are in as a file."""

    side: Side
    segment: SegmentInfo | None
    worksets: GrouperFile | None = None
    rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    bad: int = 0
    time_max_us: int | None = None
    dimension: int | None = None

    @staticmethod
    def from_json(data: dict[str, Any]) -> VectorArrival:
        data = dict(data)
        segment, worksets = data.pop("segment"), data.pop("worksets")
        return VectorArrival(
            segment=None if segment is None else SegmentInfo.from_json(segment),
            worksets=None if worksets is None else GrouperFile(**worksets),
            **data,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SimilarityPlan:
    """All that the instances need to know to work on one batch. With `owners`, an instance works on
    its worksets only, for all new rows; without, on its share of the new rows, in all worksets."""

    batch_id: int
    root: str
    watermark_us: int
    instances: int
    keep_after_us: Mapping[str, int]
    new: tuple[SegmentInfo, ...]
    old: tuple[SegmentInfo, ...]
    worksets: GrouperFile | None
    owners: Mapping[int, int] | None = None
    compact: tuple[tuple[SegmentInfo, ...], ...] = ()
    report_folder: str = ""


@dataclass
class Tally:
    """What an instance counts while it works: `probes` are new rows times worksets they look into,
    `compared` pairs whose distance had to decide, `inner` pairs that the triangle inequality has
    decided; and per workset the pairs it met there."""

    rows: int = 0
    probes: int = 0
    compared: int = 0
    inner: int = 0
    matches: int = 0
    late: int = 0
    by_workset: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """What one instance tells of a batch."""

    load: InstanceLoad
    probes: int = 0
    inner: int = 0
    by_workset: tuple[tuple[int, int], ...] = ()
    compacted: tuple[SegmentInfo, ...] = ()

    @staticmethod
    def from_json(data: dict[str, Any]) -> Told:
        return Told(
            InstanceLoad(**data["load"]),
            data["probes"],
            data["inner"],
            tuple((w, n) for w, n in data["by_workset"]),
            tuple(SegmentInfo.from_json(s) for s in data["compacted"]),
        )

    def to_json(self) -> dict[str, Any]:
        # There may be thousands of worksets; `asdict` would take each of them apart.
        return asdict(replace(self, by_workset=())) | {"by_workset": self.by_workset}
