"""The state of balance in one line that people can read."""

from __future__ import annotations

from skewless.arrays.types import Floats
from skewless.placement.balancing.imbalance import max_over_mean
from skewless.placement.figures import LoadReport
from skewless.placement.places import IsolatedKey

NAMED_MAX = 3


def verdict(report: LoadReport, instances: Floats, own: dict[int, IsolatedKey]) -> str:
    """Which keys carry how much of the work, what was done about them, and how even it is.

    A key stands out when it has more than half of what one instance should have.
    """
    figures = report.key_figures
    work = figures.time_left_ms + figures.time_right_ms
    total = float(instances.sum())
    even = f"busiest/mean {max_over_mean(instances):.2f}"
    if total <= 0 or len(instances) < 2:
        return even
    heavy = [i for i in (-work).argsort(kind="stable") if work[i] > 0.5 * total / len(instances)]
    if not heavy:
        return f"no key stands out; {even}"
    share = float(work[heavy].sum()) / total
    names = [report.keys[i].value for i in heavy]
    who = f"key {names[0]} carries" if len(names) == 1 else f"{_named(names)} carry"
    return f"{who} {min(share, 1.0):.0%} of the work; {_done(report, heavy, own)}{even}"


def _named(names: list[str]) -> str:
    if len(names) > NAMED_MAX:
        return f"{len(names)} keys ({', '.join(names[:NAMED_MAX])}, …)"
    return f"keys {', '.join(names[:-1])} and {names[-1]}"


def _done(report: LoadReport, heavy: list[int], own: dict[int, IsolatedKey]) -> str:
    ways = [
        len(apart.instances)
        for i in heavy
        if (apart := own.get(report.keys[i].hash)) is not None and apart.is_split
    ]
    if not ways:
        return ""
    named = [str(n) for n in ways[:NAMED_MAX]]
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"split {listed}{' …' if len(ways) > NAMED_MAX else ''} ways; "
