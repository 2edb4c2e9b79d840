"""Many batch reports told as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from skewless.engine.report import BatchReport, InstanceLoad, KeyShare


@dataclass(frozen=True)
class Totals:
    """Sums over batches. `heavy_keys` counts a key where it was among the heaviest of a batch, so
    its share is never told too high. `busiest_over_mean` is of the time summed by instance."""

    batches: int
    rows_left: int
    rows_right: int
    late: int
    nulls: int
    matches: int
    duration_ms: float
    median_ms: float
    median_rows_per_second: float
    busiest_over_mean: float
    instances: tuple[InstanceLoad, ...]
    heavy_keys: tuple[KeyShare, ...]

    @property
    def rows(self) -> int:
        return self.rows_left + self.rows_right

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.duration_ms * 1000 if self.duration_ms else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "batches": self.batches,
            "rows": self.rows,
            "rows_left": self.rows_left,
            "rows_right": self.rows_right,
            "late": self.late,
            "nulls": self.nulls,
            "matches": self.matches,
            "duration_ms": round(self.duration_ms, 3),
            "median_batch_ms": round(self.median_ms, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "median_rows_per_second": round(self.median_rows_per_second, 1),
            "busiest_over_mean": round(self.busiest_over_mean, 4),
            "instances": [
                {"instance": i.instance, "rows": i.rows, "pairs": i.pairs, "time_ms": i.time_ms}
                for i in self.instances
            ],
            "heavy_keys": [{"value": k.value, "share": k.share} for k in self.heavy_keys],
        }


def total(reports: Sequence[BatchReport]) -> Totals:
    """All batches as one."""
    loads = add_loads(reports)
    times = [load.time_ms for load in loads]
    durations = [r.duration_ms for r in reports]
    return Totals(
        batches=len(reports),
        rows_left=sum(r.rows_left for r in reports),
        rows_right=sum(r.rows_right for r in reports),
        late=sum(r.late for r in reports),
        nulls=sum(nulls(r) for r in reports),
        matches=sum(r.matches for r in reports),
        duration_ms=sum(durations),
        median_ms=median(durations) if durations else 0.0,
        median_rows_per_second=median(map(speed, reports)) if reports else 0.0,
        busiest_over_mean=max(times) * len(times) / sum(times) if sum(times) > 0 else 1.0,
        instances=loads,
        heavy_keys=add_keys(reports),
    )


def nulls(report: BatchReport) -> int:
    """Rows that could not take part: null keys, null times, NaN in a band column."""
    return report.null_keys + report.null_times + report.nan_bands


def rows(report: BatchReport) -> int:
    return report.rows_left + report.rows_right + report.rows_third


def speed(report: BatchReport) -> float:
    """Rows per second of a batch."""
    return rows(report) / report.duration_ms * 1000 if report.duration_ms else 0.0


def add_loads(reports: Sequence[BatchReport]) -> tuple[InstanceLoad, ...]:
    """The load of each instance, summed; a restart may have changed how many there are."""
    count = max((len(r.instances) for r in reports), default=0)
    sums = []
    for instance in range(count):
        loads = [r.instances[instance] for r in reports if instance < len(r.instances)]
        sums.append(
            InstanceLoad(
                instance=instance,
                rows=sum(x.rows for x in loads),
                pairs=sum(x.pairs for x in loads),
                matches=sum(x.matches for x in loads),
                late_left=sum(x.late_left for x in loads),
                late_right=sum(x.late_right for x in loads),
                time_ms=round(sum(x.time_ms for x in loads), 3),
            )
        )
    return tuple(sums)


def add_keys(reports: Sequence[BatchReport], most: int = 10) -> tuple[KeyShare, ...]:
    """The heaviest keys over all batches, by their share of all rows."""
    counts: dict[str, float] = {}
    for report in reports:
        for key in report.heavy_keys:
            counts[key.value] = counts.get(key.value, 0.0) + key.share * rows(report)
    all_rows = sum(rows(r) for r in reports)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    return tuple(KeyShare(value, round(n / all_rows, 6)) for value, n in ranked)
