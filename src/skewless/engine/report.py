"""What happened in a batch: what every instance tells, every operator, and the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skewless.arrays.types import Floats
from skewless.engine.hosts import NO_TRAFFIC, Traffic, added
from skewless.engine.loss import late_needed_us, put_together
from skewless.engine.output import NOTHING_WRITTEN, Written
from skewless.placement.balancing.imbalance import max_over_mean
from skewless.placement.figures import Decision, Figures, WatchedKey
from skewless.state.segments import SegmentInfo

if TYPE_CHECKING:
    from skewless.engine.operator import Arrival

HEAVY_KEYS_TOLD = 10
INTERMEDIATES = "intermediates"  # the counter of what is in the state that no input has brought


@dataclass(frozen=True)
class InstanceLoad:
    """What one instance did in one batch: `rows` that it worked on, `pairs` compared, `matches`
    found, bytes that it handed on, and the processor time of all that. `work_ms` is what was
    counted at the prices that were measured over many batches: the same, without the noise of one.
    `isolated_…` is the part of it that was on keys with places of their own."""

    instance: int
    rows: int = 0
    pairs: int = 0
    matches: int = 0
    late: int = 0
    time_ms: float = 0.0
    isolated_rows: int = 0
    isolated_pairs: int = 0
    isolated_ms: float = 0.0
    bytes_out: int = 0
    work_ms: float = 0.0

    def plus(self, other: InstanceLoad) -> InstanceLoad:
        """The work of two steps."""
        sums: dict[str, Any] = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(self)
            if f.name != "instance"
        }
        rounded: dict[str, Any] = {
            n: round(v, 6) if isinstance(v, float) else v for n, v in sums.items()
        }
        return replace(self, **rounded)


@dataclass(frozen=True)
class InstanceReport:
    """What one instance tells of one step: its load, how many rows it emitted, what it has written
    and rewritten, by how many microseconds rows came too late, and what became of rows that it
    wrote to files. `detail` is what its operator measures."""

    load: InstanceLoad
    emitted: int = 0
    written: tuple[SegmentInfo, ...] = ()
    compacted: tuple[SegmentInfo, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    lateness: Mapping[str, int] = field(default_factory=dict)
    traffic: Traffic = NO_TRAFFIC
    output: Written = NOTHING_WRITTEN

    @staticmethod
    def from_json(data: dict[str, Any]) -> InstanceReport:
        return InstanceReport(
            InstanceLoad(**data["load"]),
            data["emitted"],
            tuple(SegmentInfo.from_json(s) for s in data["written"]),
            tuple(SegmentInfo.from_json(s) for s in data["compacted"]),
            data["detail"],
            data["lateness"],
            Traffic(**data["traffic"]),
            Written.from_json(data["output"]),
        )

    def to_json(self) -> dict[str, Any]:
        # The detail may be large, and is plain already.
        return asdict(replace(self, detail={})) | {"detail": self.detail}


def loads_ms(loads: Sequence[InstanceLoad]) -> Floats:
    """What each instance had to do: as it was counted, or, where earlier versions have written the
    report, as it was measured."""
    counted = np.array([load.work_ms for load in loads], float)
    return counted if counted.any() else np.array([load.time_ms for load in loads], float)


@dataclass(frozen=True)
class KeyShare:
    """A heavy key by value, with its share of the batch's rows."""

    value: str
    share: float


def heaviest(arrivals: Sequence[Arrival]) -> tuple[KeyShare, ...]:
    """The heaviest keys of a batch by their share of its rows, all inputs together."""
    rows: dict[str, int] = {}
    for arrival in arrivals:
        for key in arrival.heavy_keys:
            rows[key.value] = rows.get(key.value, 0) + key.rows
    all_rows = sum(a.rows for a in arrivals)
    ranked = sorted(rows.items(), key=lambda item: (-item[1], item[0]))[:HEAVY_KEYS_TOLD]
    return tuple(KeyShare(value, round(count / all_rows, 6)) for value, count in ranked)


@dataclass(frozen=True, kw_only=True, repr=False)
class OperatorReport:
    """What one operator did in one batch.

    `rows` are counted by input, `dropped` by cause ("late", "ahead", "null keys", "null times",
    "NaN in a band", "not comparable", "bad values"), late ones also by the `late` in microseconds
    that would have kept them. Of the `counters`, "matches" are the rows it emitted, "bad values"
    what `sk.from_json` could not parse and read as nulls; others are its own. `slots` has
    the figures of every slot, `key_figures` those of the heaviest `keys`; `verdict` sums up how
    even the work is. `notes` say what has changed since the batch before, as the query was started
    again with other arguments, or the number of instances is another. `idle` are the inputs that
    have had no rows for so long that the watermark goes on without them. `hosts` are the bytes that
    each host fetched from a remote store and wrote there, its requests, and how often it had
    already what was asked for (`hits`) or not (`misses`). `latest_us` is the latest event time that
    any input has had so far.
    """

    name: str
    rows: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    lateness: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    state_rows: int = 0
    state_bytes: int = 0
    segments: int = 0
    watermark_us: int | None = None
    instances: tuple[InstanceLoad, ...] = ()
    heavy_keys: tuple[KeyShare, ...] = ()
    decisions: tuple[Decision, ...] = ()
    verdict: str = ""
    slots: Figures | None = field(default=None, compare=False)
    keys: tuple[WatchedKey, ...] = ()
    key_figures: Figures | None = field(default=None, compare=False)
    notes: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    hosts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    latest_us: int | None = None

    def __repr__(self) -> str:
        return f"OperatorReport({self.name}: {self._in_short()})"

    def _in_short(self) -> str:
        rows = ", ".join(f"{n:,} {name}" for name, n in self.rows.items())
        dropped = sum(self.dropped.values())
        return f"{rows} rows, {self.matches:,} matches, {dropped:,} dropped"

    @property
    def matches(self) -> int:
        """Rows that the operator emitted, before `where`."""
        return self.counters.get("matches", 0)

    @property
    def late(self) -> int:
        return self.dropped.get("late", 0)

    @property
    def late_needed_us(self) -> int | None:
        """The `late` that would have kept 99 % of the late rows."""
        return late_needed_us(self.lateness)

    @property
    def null_keys(self) -> int:
        return self.dropped.get("null keys", 0)

    @property
    def null_times(self) -> int:
        return self.dropped.get("null times", 0)

    @property
    def nan_bands(self) -> int:
        """Rows that cannot be compared: NaN in a band, or a bad vector."""
        return self.dropped.get("NaN in a band", 0) + self.dropped.get("not comparable", 0)

    @property
    def rows_left(self) -> int:
        return self._rows_of(0)

    @property
    def rows_right(self) -> int:
        return self._rows_of(1)

    @property
    def rows_third(self) -> int:
        return self._rows_of(2)

    def _rows_of(self, number: int) -> int:
        counts = list(self.rows.values())
        return counts[number] if number < len(counts) else 0

    @property
    def intermediates(self) -> int:
        """Pairs of a three-way join that wait in the state for their third row."""
        return self.counters.get("intermediates", 0)

    @property
    def comparisons(self) -> dict[str, int]:
        """Of a similarity join: what was looked into, compared, and known without."""
        names = ("probes", "compared", "inner")
        return {n: self.counters[n] for n in names if n in self.counters}

    @property
    def busiest_over_mean(self) -> float:
        """Work of the busiest instance over the mean, as it was counted: 1.0 is perfect balance."""
        return max_over_mean(loads_ms(self.instances))

    @property
    def measured_over_mean(self) -> float:
        """The same by measured time, which in small batches is mostly noise."""
        return max_over_mean(np.array([load.time_ms for load in self.instances], float))

    def to_json(self) -> dict[str, Any]:
        figures = {"slots": self.slots, "key_figures": self.key_figures}
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in figures}
        for name in ("instances", "heavy_keys", "decisions", "keys"):
            plain[name] = [asdict(item) for item in plain[name]]
        plain |= {name: None if f is None else f.to_json() for name, f in figures.items()}
        return plain

    @classmethod
    def plain_from_json(cls, data: dict[str, Any]) -> dict[str, Any]:
        """The fields of a report, from what `to_json` gave."""
        known = {f.name for f in fields(cls)}
        data = {k: v for k, v in data.items() if k in known}
        data["instances"] = tuple(InstanceLoad(**i) for i in data["instances"])
        data["heavy_keys"] = tuple(KeyShare(**k) for k in data["heavy_keys"])
        data["decisions"] = tuple(Decision(**d) for d in data["decisions"])
        data["keys"] = tuple(WatchedKey(**k) for k in data["keys"])
        for name in ("notes", "idle"):
            data[name] = tuple(data.get(name, ()))
        for name in ("slots", "key_figures"):
            if data[name] is not None:
                data[name] = Figures.from_json(data[name])
        return data


# What is most asked for, by name, in JSON and SQL too.
SUMMARY = (
    "matches", "late", "rows_left", "rows_right", "rows_third", "null_keys", "null_times",
    "nan_bands", "intermediates", "late_needed_us",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class BatchReport(OperatorReport):
    """What happened in one micro-batch of a query.

    `duration_ms` is the sum of the phases up to the commit, which is written after the report. A
    query of one operator has that operator's figures. In one of several, `operators` has a report
    for each, the lowest first; here then are the rows of the streams, everything that was dropped,
    the state and the decisions of all, and what the last one emitted and how it was balanced.
    `ended_us` is when the report was written, by the driver's clock; older versions did not say.
    """

    batch_id: int
    duration_ms: float = 0.0
    phases_ms: Mapping[str, float] = field(default_factory=dict)
    operators: tuple[OperatorReport, ...] = ()
    ended_us: int | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return (
            f"BatchReport(batch {self.batch_id} of {self.name}: {self._in_short()}, "
            f"{self.duration_ms:.0f} ms, busiest/mean {self.busiest_over_mean:.2f})"
        )

    @staticmethod
    def of(
        batch_id: int,
        operators: Sequence[OperatorReport],
        streams: Mapping[str, int],
        phases_ms: Mapping[str, float],
        ended_us: int | None = None,
    ) -> BatchReport:
        """The report of a query, from those of its operators, the lowest first. `streams` are the
        rows that came from outside."""
        timing: dict[str, Any] = {
            "batch_id": batch_id,
            "duration_ms": round(sum(phases_ms.values()), 3),
            "phases_ms": {k: round(v, 3) for k, v in phases_ms.items()},
            "ended_us": ended_us,
        }
        root = operators[-1]
        own = {f.name: getattr(root, f.name) for f in fields(OperatorReport)}
        if len(operators) == 1:
            return BatchReport(**own, **timing)
        dropped: dict[str, int] = {}
        for report in operators:
            for cause, count in report.dropped.items():
                dropped[cause] = dropped.get(cause, 0) + count
        own |= {
            "name": " → ".join(report.name for report in operators),
            "rows": dict(streams),
            "dropped": dropped,
            "lateness": put_together([report.lateness for report in operators]),
            "state_rows": sum(report.state_rows for report in operators),
            "state_bytes": sum(report.state_bytes for report in operators),
            "segments": sum(report.segments for report in operators),
            "decisions": tuple(
                replace(d, subject=f"{report.name}: {d.subject}")
                for report in operators
                for d in report.decisions
            ),
            "verdict": "; ".join(f"{r.name}: {r.verdict}" for r in operators if r.verdict),
            "notes": tuple(f"{r.name}: {note}" for r in operators for note in r.notes),
            "idle": tuple(f"{r.name}.{name}" for r in operators for name in r.idle),
            "hosts": added(item for r in operators for item in r.hosts.items()),
        }
        return BatchReport(**own, **timing, operators=tuple(operators))

    @staticmethod
    def from_json(data: dict[str, Any]) -> BatchReport:
        below = tuple(
            OperatorReport(**OperatorReport.plain_from_json(o)) for o in data["operators"]
        )
        return BatchReport(**BatchReport.plain_from_json(data) | {"operators": below})

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {
            "operators": [report.to_json() for report in self.operators],
            **{name: getattr(self, name) for name in SUMMARY},
            "busiest_over_mean": round(self.busiest_over_mean, 4),
        }
