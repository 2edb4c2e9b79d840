"""The values that the parts of skewless hand to one another. All frozen, all picklable.

A join is described once by a `JoinSpec`. State is a list of `SegmentInfo`. A batch is planned by a
`BatchPlan` and told about by a `BatchReport`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.durations import format_duration_us

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")

Floats = npt.NDArray[np.float64]

HASH_MAX = (1 << 64) - 1
FAR_US = 1 << 62  # further than any event time: "no bound"


class Unbounded(Enum):
    """The type of `UNBOUNDED`."""

    UNBOUNDED = "unbounded"

    def __repr__(self) -> str:
        return "sk.UNBOUNDED"


UNBOUNDED = Unbounded.UNBOUNDED


@dataclass(frozen=True)
class Band:
    """A condition ``|left - right| <= width`` as the user wrote it; made by `sk.band`."""

    left: str
    right: str
    width: object


def band(left: str, right: str, width: object) -> Band:
    """Join rows whose columns are at most `width` apart: ``|left - right| <= width``.

    `width` is a number for numeric columns, a duration ("5 seconds") for timestamps and a number of
    whole days ("2 days") for dates. A wider band compares more rows: all that
    lie within about twice the width.

    >>> band("price", "quote", width=0.5)
    Band(left='price', right='quote', width=0.5)
    """
    return Band(left, right, width)


@dataclass(frozen=True)
class Equal:
    """A condition ``left = right`` of a three-way join as the user wrote it; made by `sk.equal`."""

    left: str
    right: str


def equal(left: str, right: str) -> Equal:
    """Join rows whose columns are equal. In `sk.join3` columns begin with their input.

    >>> equal("r.user", "s.user")
    Equal(left='r.user', right='s.user')
    """
    return Equal(left, right)


@dataclass(frozen=True)
class KeyColumn:
    """A column compared for equality: where it is in its side, and the type both sides share."""

    index: int
    type: pa.DataType


@dataclass(frozen=True)
class BandColumn:
    """A column compared by distance. `width` counts units of the column (microseconds for
    times, days for dates)."""

    index: int
    type: pa.DataType
    width: int | float | Decimal


@dataclass(frozen=True)
class SideSpec:
    """One input of a join: its columns and the part each plays."""

    schema: pa.Schema
    keys: tuple[KeyColumn, ...]
    bands: tuple[BandColumn, ...]
    time: int | None
    late_us: int


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result: the input side and column it is taken from."""

    side: Side
    index: int
    name: str


@dataclass(frozen=True)
class JoinSpec:
    """What is joined with what: ``left.time + lower <= right.time <= left.time + upper``."""

    left: SideSpec
    right: SideSpec
    lower_us: int
    upper_us: int
    output: tuple[OutputColumn, ...]
    drop_null_times: bool = False

    def side(self, side: str) -> SideSpec:
        return self.left if side == "left" else self.right

    @property
    def bounded(self) -> bool:
        return self.upper_us < FAR_US

    def partner_bounds(self, prober: Side) -> tuple[int, int]:
        """The interval around a prober's time in which its partner's time lies."""
        if prober == "left":
            return self.lower_us, self.upper_us
        return -self.upper_us, -self.lower_us

    def keep_after_us(self, side: str, watermark_us: int) -> int:
        """Rows of `side` older than this can meet no row at or after the watermark."""
        after = watermark_us - self.upper_us if side == "left" else watermark_us + self.lower_us
        return max(after, -FAR_US)

    def output_schema(self) -> pa.Schema:
        fields = [self.side(c.side).schema.field(c.index).with_name(c.name) for c in self.output]
        return pa.schema([f.with_nullable(True).remove_metadata() for f in fields])

    def fingerprint(self) -> dict[str, str]:
        """What must stay the same for a checkpoint to be continued, in words people understand."""

        def columns(side: SideSpec) -> str:
            return ", ".join(f"{f.name} {f.type}" for f in side.schema)

        def keys(side: SideSpec) -> str:
            parts = [f"{side.schema.field(k.index).name} as {k.type}" for k in side.keys]
            parts += [f"{side.schema.field(b.index).name} ± {b.width}" for b in side.bands]
            return ", ".join(parts)

        def time(side: SideSpec) -> str:
            return "none" if side.time is None else str(side.schema.field(side.time).name)

        facts = {"kind": "two-way join"}
        for name, side in (("left", self.left), ("right", self.right)):
            facts[f"{name} columns"] = columns(side)
            facts[f"{name} keys"] = keys(side)
            facts[f"{name} time"] = time(side)
        bounds = [format_duration_us(us) for us in (self.lower_us, self.upper_us)]
        return facts | {"within": " to ".join(bounds) if self.bounded else "unbounded"}


@dataclass(frozen=True)
class SegmentInfo:
    """A sorted, immutable file of stored rows.

    `floor_us` is the watermark when its rows arrived: older rows in it came too late and do not
    count. `level` is how often its rows were compacted, `batch_id` when they were last written.
    """

    name: str
    side: str
    rows: int
    bytes: int
    crc32: int
    hash_min: int
    hash_max: int
    time_min_us: int
    time_max_us: int
    floor_us: int = -FAR_US
    level: int = 0
    batch_id: int = -1

    @staticmethod
    def from_json(data: dict[str, Any]) -> SegmentInfo:
        return SegmentInfo(**data)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class HeavyKey:
    """A key that stands out: its value, and the rows it had in a batch."""

    value: str
    rows: int


@dataclass(frozen=True)
class Arrival:
    """What one task found in its part of a batch, and the segment it made of it."""

    side: Side
    segment: SegmentInfo | None
    probe_file: str | None = None
    rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    nan_bands: int = 0
    time_max_us: int | None = None
    heavy_keys: tuple[HeavyKey, ...] = ()

    @staticmethod
    def from_json(data: dict[str, Any]) -> Arrival:
        data = dict(data)
        segment = data.pop("segment")
        heavy = tuple(HeavyKey(**k) for k in data.pop("heavy_keys"))
        return Arrival(
            segment=None if segment is None else SegmentInfo.from_json(segment),
            heavy_keys=heavy,
            **data,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Cut:
    """A share of the probing that one side's new rows do: part number `part` of `parts` equal ones,
    either of the rows that probe, each meeting all its stored partners, or of the stored rows, each
    part met by all that probe. Both are cut by where rows lie in immutable files: a task that runs
    again takes the same rows."""

    part: int = 0
    parts: int = 1
    of: Literal["probers", "stored"] = "stored"


WHOLE = Cut()


@dataclass(frozen=True)
class WorkUnit:
    """A share of the work: the rows whose hash is in [hash_min, hash_max], and how much of what
    left and right rows have to probe there (None: nothing). The cuts of all units of one range and
    side are the parts 0 to n-1 of one kind, so that every prober meets every stored row of its
    range in exactly one unit."""

    hash_min: int = 0
    hash_max: int = HASH_MAX
    left: Cut | None = WHOLE
    right: Cut | None = WHOLE
    own: bool = False  # one key that has a place of its own, apart from its slot

    def cut(self, prober: Side) -> Cut | None:
        return self.left if prober == "left" else self.right


def slot_bounds(first: int, last: int, slots: int) -> tuple[int, int]:
    """The hashes that belong to the slots first…last. A slot is an equal range of hashes, so
    neighbouring slots are neighbours in every segment and are worked on as one.

    >>> slot_bounds(0, 0, 2)
    (0, 9223372036854775807)
    """
    low = -(-(first << 64) // slots)
    high = -(-((last + 1) << 64) // slots) - 1
    return low, high


@dataclass(frozen=True)
class RoutingTable:
    """Which instance works on what: `units[i]` is the work of instance i."""

    strategy: str
    slots: int
    units: tuple[tuple[WorkUnit, ...], ...]

    @property
    def instances(self) -> int:
        return len(self.units)


@dataclass(frozen=True)
class RunRef:
    """A segment that takes part in a batch, and, for new rows of a band join, its probe file."""

    segment: SegmentInfo
    probe_file: str | None = None


@dataclass(frozen=True)
class BatchPlan:
    """All that the instances need to know to work on one batch."""

    batch_id: int
    root: str
    watermark_us: int
    keep_after_us: Mapping[str, int]
    routing: RoutingTable
    new: tuple[RunRef, ...]
    old: tuple[SegmentInfo, ...]
    compact: tuple[tuple[SegmentInfo, ...], ...] = ()
    report_folder: str = ""
    keys_watched: int = 8

    def new_of(self, side: Side) -> list[RunRef]:
        return [r for r in self.new if r.segment.side == side]

    def old_of(self, side: Side) -> list[SegmentInfo]:
        return [s for s in self.old if s.side == side]


@dataclass(frozen=True)
class InstanceLoad:
    """What one instance did in one batch: `rows` that probed, `pairs` compared, processor time.
    `own_…` is the part of it that was on keys with places of their own."""

    instance: int
    rows: int = 0
    pairs: int = 0
    matches: int = 0
    late_left: int = 0
    late_right: int = 0
    time_ms: float = 0.0
    own_rows: int = 0
    own_pairs: int = 0
    own_ms: float = 0.0


@dataclass(frozen=True)
class Figures:
    """Work and state, item by item: one array per figure, one element per slot or key.

    Of one batch: `probing` rows of a side, the `pairs` they were compared with, and the time that
    took. And what lies `stored`. A pair belongs to the side whose row probed.
    """

    stored_left: Floats
    stored_right: Floats
    bytes_left: Floats
    bytes_right: Floats
    probing_left: Floats
    probing_right: Floats
    pairs_left: Floats
    pairs_right: Floats
    matches: Floats
    time_left_ms: Floats
    time_right_ms: Floats

    @staticmethod
    def zeros(items: int) -> Figures:
        return Figures(*(np.zeros(items) for _ in fields(Figures)))

    def __len__(self) -> int:
        return len(self.stored_left)

    def arrays(self) -> dict[str, Floats]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def take(self, items: Any) -> Figures:
        return Figures(*(array[items] for array in self.arrays().values()))

    def plus(self, other: Figures, factor: float = 1.0) -> Figures:
        pairs = zip(self.arrays().values(), other.arrays().values(), strict=True)
        return Figures(*(mine + factor * theirs for mine, theirs in pairs))

    def times(self, factor: float) -> Figures:
        return Figures(*(array * factor for array in self.arrays().values()))

    @staticmethod
    def joined(parts: Sequence[Figures]) -> Figures:
        """The items of several, one after the other."""
        names = [f.name for f in fields(Figures)]
        return Figures(*(np.concatenate([np.zeros(0), *(getattr(p, n) for p in parts)])
                         for n in names))  # fmt: skip

    def to_json(self) -> dict[str, list[float]]:
        return {name: np.round(array, 6).tolist() for name, array in self.arrays().items()}

    @staticmethod
    def from_json(data: dict[str, list[float]]) -> Figures:
        return Figures(**{name: np.array(values, float) for name, values in data.items()})


@dataclass(frozen=True)
class WatchedKey:
    """A key heavy enough to be told apart: its hash, its value as people write it, its slot, and
    whether it has a place of its own (then its figures are not among those of its slot)."""

    hash: int
    value: str
    slot: int
    own: bool = False


@dataclass(frozen=True)
class LoadReport:
    """The figures of one batch, all instances together: per slot, without the keys that have places
    of their own, and per watched key; and per instance its measured time."""

    batch_id: int
    slots: Figures
    keys: tuple[WatchedKey, ...]
    key_figures: Figures
    instance_ms: tuple[float, ...]


@dataclass(frozen=True)
class Decision:
    """A change of the routing that was proposed, and what became of it. `rows` are the stored rows
    that came along."""

    kind: str
    subject: str
    source: str
    target: str
    reason: str
    accepted: bool
    rows: int = 0


@dataclass(frozen=True)
class KeyShare:
    """A heavy key by value, with its share of the batch's rows."""

    value: str
    share: float


@dataclass(frozen=True)
class BatchReport:
    """What happened in one micro-batch.

    `matches` are pairs that fit keys and times, before `where`. `duration_ms` is the sum of the
    phases up to the commit, which is written after the report. `slots` has the figures of every
    slot, `key_figures` those of the heaviest `keys`; `verdict` sums up how even the work is.

    An aggregation has one input, the left; its `matches` are results, and an instance's `pairs` are
    partial results. A three-way join has a third input, and `intermediates` in its state. Of a
    similarity join `comparisons` says what was looked into, compared, and known without.
    """

    batch_id: int
    rows_left: int
    rows_right: int
    late: int
    null_keys: int
    null_times: int
    nan_bands: int
    matches: int
    duration_ms: float
    phases_ms: dict[str, float]
    state_rows: int
    state_bytes: int
    segments: int
    watermark_us: int | None
    instances: tuple[InstanceLoad, ...] = ()
    heavy_keys: tuple[KeyShare, ...] = ()
    decisions: tuple[Decision, ...] = field(default=())
    verdict: str = ""
    slots: Figures | None = field(default=None, compare=False)
    keys: tuple[WatchedKey, ...] = ()
    key_figures: Figures | None = field(default=None, compare=False)
    rows_third: int = 0
    intermediates: int = 0
    comparisons: dict[str, int] = field(default_factory=dict)

    @property
    def busiest_over_mean(self) -> float:
        """Time of the busiest instance over the mean: 1.0 is perfect balance."""
        times = [load.time_ms for load in self.instances]
        return max(times) * len(times) / sum(times) if sum(times) > 0 else 1.0

    @staticmethod
    def from_json(data: dict[str, Any]) -> BatchReport:
        data = {k: v for k, v in data.items() if k != "busiest_over_mean"}
        data["instances"] = tuple(InstanceLoad(**i) for i in data["instances"])
        data["heavy_keys"] = tuple(KeyShare(**k) for k in data["heavy_keys"])
        data["decisions"] = tuple(Decision(**d) for d in data["decisions"])
        data["keys"] = tuple(WatchedKey(**k) for k in data.get("keys", ()))
        for name in ("slots", "key_figures"):
            if data.get(name) is not None:
                data[name] = Figures.from_json(data[name])
        return BatchReport(**data)

    def to_json(self) -> dict[str, Any]:
        figures = {"slots": self.slots, "key_figures": self.key_figures}
        plain = asdict(replace(self, slots=None, key_figures=None))
        plain |= {name: None if f is None else f.to_json() for name, f in figures.items()}
        return plain | {"busiest_over_mean": round(self.busiest_over_mean, 4)}
