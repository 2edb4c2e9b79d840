"""What all instances of a batch did, in all its steps."""

from __future__ import annotations

from collections.abc import Iterable

from skewless.engine.operator import Batch
from skewless.engine.report import InstanceLoad


def loads_of(batch: Batch) -> tuple[InstanceLoad, ...]:
    """What each instance did."""
    loads = [InstanceLoad(i) for i in range(batch.instances)]
    for report in (r for step in batch.reports for r in step if r is not None):
        number = report.load.instance
        loads[number] = loads[number].plus(report.load)
    return tuple(loads)


def counters_of(batch: Batch, names: Iterable[str]) -> dict[str, int]:
    """What tasks and instances have counted, all together."""
    details = [arrival.detail for arrival in batch.arrivals]
    details += [r.detail for step in batch.reports for r in step if r is not None]
    return {name: sum(detail.get(name, 0) for detail in details) for name in names}
