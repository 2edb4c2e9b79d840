"""The report of a batch, from what its operators and their instances tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skewless.engine.hosts import by_host
from skewless.engine.loss import BAD_VALUES, put_together
from skewless.engine.operator import Arrival, Batch, Input, Outcome
from skewless.engine.pipeline import Node, Pipeline
from skewless.engine.report import BatchReport, OperatorReport, heaviest
from skewless.engine.watermark import known


def batch_report(
    pipeline: Pipeline,
    batches: Mapping[str, Batch],
    outcomes: Mapping[str, Outcome],
    notes: Mapping[str, tuple[str, ...]],
    phases_ms: Mapping[str, float],
    ended_us: int,
) -> BatchReport:
    """What happened in a batch; `notes` say of an operator what is new about it."""
    reports = [
        _operator_report(node, batches[node.name], outcomes[node.name], notes[node.name])
        for node in pipeline.nodes
    ]
    streams = {
        f"{node.name}.{i.name}": _rows_of(i, batches[node.name].arrivals)
        for node, i, _ in pipeline.streams()
    }
    batch_id = batches[pipeline.root.name].batch_id
    return BatchReport.of(batch_id, reports, streams, phases_ms, ended_us)


def _operator_report(
    node: Node, batch: Batch, outcome: Outcome, notes: tuple[str, ...]
) -> OperatorReport:
    dropped: dict[str, int] = {}
    for counts in (*(a.dropped for a in batch.arrivals), outcome.dropped):
        for cause, count in counts.items():
            dropped[cause] = dropped.get(cause, 0) + count
    dropped["late"] = dropped.get("late", 0) + sum(load.late for load in outcome.loads)
    reports = [r for step in batch.reports for r in step if r is not None]
    emitted, worked = sum(r.emitted for r in reports), [r.traffic for r in reports]
    return OperatorReport(
        name=node.name,
        rows={i.name: _rows_of(i, batch.arrivals) for i in node.operator.inputs},
        dropped={cause: count for cause, count in dropped.items() if count},
        lateness=_lateness(node, batch),
        counters={"matches": emitted} | dict(outcome.counters) | _bad_values(batch.arrivals),
        state_rows=outcome.segments.rows,
        state_bytes=outcome.segments.bytes,
        segments=len(outcome.segments),
        watermark_us=known(batch.watermark_us),
        instances=outcome.loads,
        heavy_keys=heaviest(batch.arrivals),
        decisions=outcome.decisions,
        verdict=outcome.verdict,
        slots=outcome.slots,
        keys=outcome.keys,
        key_figures=outcome.key_figures,
        notes=notes,
        idle=batch.idle,
        hosts=by_host((*(a.traffic for a in batch.arrivals), *worked)),
        latest_us=max((t for t in batch.state.time_max_us.values() if t is not None), default=None),
    )


def _lateness(node: Node, batch: Batch) -> dict[str, int]:
    """The late rows of a batch by the lateness that would have kept them, given for all inputs."""
    of_all = [r.lateness for step in batch.reports for r in step if r is not None]
    late_us = max((i.late_us for i, feed in node.fed() if feed.source is None), default=0)
    return put_together(of_all, late_us)


def _bad_values(arrivals: Sequence[Arrival]) -> dict[str, int]:
    """Values that were read as nulls, as they could not be parsed."""
    count = sum(a.bad_values for a in arrivals)
    return {BAD_VALUES: count} if count else {}


def _rows_of(i: Input, arrivals: Sequence[Arrival]) -> int:
    return sum(a.rows for a in arrivals if a.input == i.name)
