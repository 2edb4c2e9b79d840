"""What a virtual cluster tells of a batch, and of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from skewless.placement.figures import Decision


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the arrival of a row until it has probed, over all that probed."""

    mean_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class BatchFigures:
    """One batch on a virtual cluster.

    `probes` are rows sent, each counted at every instance it probes; `extra_probes` are those
    beyond one per row. `pairs` were compared, `matches` of them found. `migrated_rows` moved after
    the batch, and are paid for in the next, whose `stopped_ms` is how long the instance that it
    took longest stood still. `rows_per_s` is what the busiest instance could keep up with.
    `busiest_over_mean` is of service times; `max_over_min` is FastJoin's degree of imbalance, of
    stored times probing rows, and `deviation` LS-Stream's, of its weighted resources. `units` are
    the entries of the routing table and `isolated_keys` those for single keys.
    """

    batch_id: int
    rows: int
    probes: float
    extra_probes: float
    pairs: float
    matches: float
    stored_rows: float
    busiest_ms: float
    mean_ms: float
    busiest_over_mean: float
    max_over_min: float
    deviation: float
    rows_per_s: float
    backlog_ms: float
    latency: Latency
    units: int
    isolated_keys: int
    migrated_rows: float
    stopped_ms: float = 0.0
    decisions: tuple[Decision, ...] = ()

    @property
    def accepted(self) -> int:
        return sum(decision.accepted for decision in self.decisions)

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self) | {"decisions": len(self.decisions), "accepted": self.accepted}
        return plain | {"latency": asdict(self.latency)}


@dataclass(frozen=True)
class Summary:
    """Several batches in one line. Rates, times and degrees are means over the batches, `_worst`
    and latency's maximum are not; probes, moves and decisions are sums."""

    batches: int
    rows_per_s: float
    busiest_over_mean: float
    busiest_over_mean_worst: float
    max_over_min: float
    deviation: float
    latency: Latency
    extra_probes_per_row: float
    migrated_rows: float
    decisions: int
    accepted: int
    units: int
    isolated_keys: int

    @staticmethod
    def of(figures: Sequence[BatchFigures]) -> Summary:
        def mean(name: str) -> float:
            return float(np.mean([getattr(f, name) for f in figures]))

        rows = [f.rows for f in figures]
        # What takes in as many rows as it can: rows over the time that they take.
        busy_s = sum(f.rows / f.rows_per_s for f in figures if f.rows_per_s > 0)
        latency = Latency(
            float(np.average([f.latency.mean_ms for f in figures], weights=rows)),
            float(np.average([f.latency.p99_ms for f in figures], weights=rows)),
            max(f.latency.max_ms for f in figures),
        )
        return Summary(
            batches=len(figures),
            rows_per_s=sum(rows) / busy_s if busy_s else 0.0,
            busiest_over_mean=mean("busiest_over_mean"),
            busiest_over_mean_worst=max(f.busiest_over_mean for f in figures),
            max_over_min=mean("max_over_min"),
            deviation=mean("deviation"),
            latency=latency,
            extra_probes_per_row=sum(f.extra_probes for f in figures) / max(sum(rows), 1),
            migrated_rows=sum(f.migrated_rows for f in figures),
            decisions=sum(len(f.decisions) for f in figures),
            accepted=sum(f.accepted for f in figures),
            units=figures[-1].units,
            isolated_keys=figures[-1].isolated_keys,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
