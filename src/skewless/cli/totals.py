"""Many batch reports as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from statistics import median
from typing import Any

from skewless.engine.loss import late_needed_us, loss_text, put_together
from skewless.engine.report import (
    BatchReport,
    InstanceLoad,
    KeyShare,
    OperatorReport,
    loads_ms,
)
from skewless.placement.balancing.imbalance import max_over_mean

# Counters of what lies in the state after a batch: the latest says all.
IN_STATE = frozenset({"intermediates"})


@dataclass(frozen=True, kw_only=True)
class OperatorTotals:
    """Sums over batches of one operator. `heavy_keys` counts a key where it was among the heaviest
    of a batch, so its share is never given too high. `busiest_over_mean` is of the work summed by
    instance."""

    batches: int
    inputs: Mapping[str, int]
    dropped: Mapping[str, int]
    lateness: Mapping[str, int]
    counters: Mapping[str, int]
    instances: tuple[InstanceLoad, ...]
    heavy_keys: tuple[KeyShare, ...]

    @property
    def rows(self) -> int:
        return sum(self.inputs.values())

    @property
    def late(self) -> int:
        return self.dropped.get("late", 0)

    @property
    def loss(self) -> str:
        """What was lost, if it is more than 1 % of the rows, and what would have kept it."""
        return loss_text(self.inputs, self.dropped, self.lateness)

    @property
    def nulls(self) -> int:
        """Rows that could not take part: null keys, null times, what cannot be compared."""
        return sum(self.dropped.values()) - self.late

    @property
    def matches(self) -> int:
        return self.counters.get("matches", 0)

    @property
    def busiest_over_mean(self) -> float:
        return max_over_mean(loads_ms(self.instances))


@dataclass(frozen=True, kw_only=True)
class Totals(OperatorTotals):
    """Sums over batches of a query."""

    duration_ms: float
    median_ms: float
    median_rows_per_second: float

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.duration_ms * 1000 if self.duration_ms else 0.0

    def to_json(self) -> dict[str, Any]:
        inputs = {"left": 0, "right": 0} | dict(self.inputs)
        return {
            "batches": self.batches,
            "rows": self.rows,
            **{f"rows_{name}": rows for name, rows in inputs.items()},
            "late": self.late,
            "nulls": self.nulls,
            "dropped": dict(self.dropped),
            "late_needed_us": late_needed_us(self.lateness),
            "matches": self.matches,
            "counters": dict(self.counters),
            "duration_ms": round(self.duration_ms, 3),
            "median_batch_ms": round(self.median_ms, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "median_rows_per_second": round(self.median_rows_per_second, 1),
            "busiest_over_mean": round(self.busiest_over_mean, 4),
            "instances": [
                {
                    "instance": i.instance,
                    "rows": i.rows,
                    "pairs": i.pairs,
                    "work_ms": i.work_ms,
                    "time_ms": i.time_ms,
                }
                for i in self.instances
            ],
            "heavy_keys": [{"value": k.value, "share": k.share} for k in self.heavy_keys],
        }


def total(reports: Sequence[BatchReport]) -> Totals:
    """All batches as one."""
    durations = [r.duration_ms for r in reports]
    return Totals(
        **_sums(reports),
        duration_ms=sum(durations),
        median_ms=median(durations) if durations else 0.0,
        median_rows_per_second=median(map(speed, reports)) if reports else 0.0,
    )


def total_of_operator(reports: Sequence[OperatorReport]) -> OperatorTotals:
    """All batches of one operator as one."""
    return OperatorTotals(**_sums(reports))


def _sums(reports: Sequence[OperatorReport]) -> dict[str, Any]:
    counters = add_counts(r.counters for r in reports)
    for name in IN_STATE & counters.keys():
        counters[name] = reports[-1].counters.get(name, 0)
    return {
        "batches": len(reports),
        "inputs": add_counts(r.rows for r in reports),
        "dropped": add_counts(r.dropped for r in reports),
        "lateness": put_together([r.lateness for r in reports]),
        "counters": counters,
        "instances": add_loads(reports),
        "heavy_keys": add_keys(reports),
    }


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, summed; the names in the order in which they come up."""
    sums: dict[str, int] = {}
    for some in counts:
        for name, number in some.items():
            sums[name] = sums.get(name, 0) + number
    return sums


def rows(report: OperatorReport) -> int:
    """The rows of a batch, of all inputs together."""
    return sum(report.rows.values())


def speed(report: BatchReport) -> float:
    """Rows per second of a batch."""
    return rows(report) / report.duration_ms * 1000 if report.duration_ms else 0.0


def add_loads(reports: Sequence[OperatorReport]) -> tuple[InstanceLoad, ...]:
    """The load of each instance, summed; a restart may have changed how many there are."""
    count = max((len(r.instances) for r in reports), default=0)
    return tuple(
        reduce(InstanceLoad.plus, (r.instances[i] for r in reports if i < len(r.instances)))
        for i in range(count)
    )


def add_keys(reports: Sequence[OperatorReport], most: int = 10) -> tuple[KeyShare, ...]:
    """The heaviest keys over all batches, by their share of all rows."""
    counts: dict[str, float] = {}
    for report in reports:
        for key in report.heavy_keys:
            counts[key.value] = counts.get(key.value, 0.0) + key.share * rows(report)
    all_rows = sum(rows(r) for r in reports)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
    return tuple(KeyShare(value, round(n / all_rows, 6)) for value, n in ranked)
