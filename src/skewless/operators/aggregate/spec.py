"""The values that describe an aggregation, and one batch of it. All frozen, all picklable."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays.types import FAR_US, SideSpec
from skewless.durations import format_duration_us
from skewless.engine.operator import HeavyKey
from skewless.engine.report import InstanceLoad
from skewless.operators.aggregate.accumulators.accumulator import Accumulator
from skewless.operators.aggregate.windows import Window
from skewless.state.commits import GrouperFile
from skewless.state.segments import SegmentInfo

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

    def closed_to_us(self, watermark_us: int) -> int:
        """Windows that begin up to here are closed."""
        if self.window is None:
            return -FAR_US
        return max(self.window.closed_to_us(watermark_us), -FAR_US)

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""
        names = self.input.schema.names

        def told(aggregate: Aggregate) -> str:
            columns = ", ".join(f"{names[i]} {self.input.schema.types[i]}"
                                for i in aggregate.columns)  # fmt: skip
            return f"{aggregate.name} = {aggregate.accumulator!r} of ({columns})"

        keys = [f"{names[k.index]} as {k.type}" for k in self.input.keys]
        facts = {
            "kind": "aggregation",
            "by": ", ".join(keys),
            "aggregates": "; ".join(told(a) for a in self.aggregates),
            "time": "none" if self.input.time is None else names[self.input.time],
            "window": "none",
        }
        if self.window is not None:
            size, slide = (
                format_duration_us(us) for us in (self.window.size_us, self.window.slide_us)
            )
            facts["window"] = f"{size} every {slide}"
        return facts


@dataclass(frozen=True)
class KeyRun:
    """Rows of one heavy key that lie together in a file of arrived rows."""

    hash: int
    value: str
    begin: int
    rows: int


@dataclass(frozen=True)
class RowsArrived:
    """What one task found in its part of a batch, and the file it made of it.

    A grouping that looks at one row after the other was asked at once: rows `bounds[i]` up to
    `bounds[i + 1]` of the file are for instance i. One that sees the whole batch first is asked by
    the driver: the file is in the order of hashes, `bounds` are the homes of keys, and `runs` are
    the heavy keys.
    """

    file: SegmentInfo | None
    rows: int = 0
    null_times: int = 0
    time_max_us: int | None = None
    bounds: tuple[int, ...] = ()
    runs: tuple[KeyRun, ...] = ()
    heavy_keys: tuple[HeavyKey, ...] = ()
    grouper: GrouperFile | None = None

    @staticmethod
    def from_json(data: dict[str, Any]) -> RowsArrived:
        data = dict(data)
        file, grouper = data.pop("file"), data.pop("grouper")
        return RowsArrived(
            file=None if file is None else SegmentInfo.from_json(file),
            bounds=tuple(data.pop("bounds")),
            runs=tuple(KeyRun(**r) for r in data.pop("runs")),
            heavy_keys=tuple(HeavyKey(**k) for k in data.pop("heavy_keys")),
            grouper=None if grouper is None else GrouperFile(**grouper),
            **data,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class FileShare:
    """Some rows of a file: those from each begin up to its end."""

    file: SegmentInfo
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


@dataclass(frozen=True)
class AccumulatePlan:
    """What the instances need to make partial results of a batch's rows: `shares[i]` are the rows
    of instance i. Windows that began up to `closed_to_us` are closed; rows for them are late."""

    batch_id: int
    root: str
    closed_to_us: int
    shares: tuple[tuple[FileShare, ...], ...]
    compact: tuple[tuple[SegmentInfo, ...], ...] = ()

    @property
    def instances(self) -> int:
        return len(self.shares)


@dataclass(frozen=True)
class Accumulated:
    """What one instance has made: its partial results as segments, and its share of compactions."""

    load: InstanceLoad
    partials: tuple[SegmentInfo, ...]
    compacted: tuple[SegmentInfo, ...]

    @staticmethod
    def from_json(data: dict[str, Any]) -> Accumulated:
        return Accumulated(
            InstanceLoad(**data["load"]),
            tuple(SegmentInfo.from_json(s) for s in data["partials"]),
            tuple(SegmentInfo.from_json(s) for s in data["compacted"]),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class FinishPlan:
    """What the instances need to make results of partial ones: of windows that begin after
    `after_us` up to `closed_to_us` or, if `touched`, of every group that `new` has a part of."""

    batch_id: int
    root: str
    instances: int
    old: tuple[SegmentInfo, ...]
    new: tuple[SegmentInfo, ...]
    after_us: int
    closed_to_us: int
    touched: bool
    report_folder: str
