"""When to migrate, if nobody sets a threshold: once imbalance has cost as much as a migration.

A threshold weighs what imbalance costs against what a migration costs, without knowing either. Both
can be measured. How long the load will stay as it is cannot, so this is the question of renting or
buying: who rents until the rent has come to the price, and buys then, never pays more than about
twice what was necessary, whatever the future brings. So a migration that is dear or gains little
waits, and what drifts fast is not chased.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skewless.placement.balancing.changes import Change
from skewless.placement.balancing.loads import MeasuredTime
from skewless.placement.balancing.moving import moved_rows
from skewless.placement.balancing.view import View
from skewless.placement.places import Placement


def rent_ms(view: View, plan: Sequence[Change]) -> float:
    """What a batch costs more than with the plan, in milliseconds of the busiest instance.

    A plan relieves the busiest instance, but then the next one is the busiest. To get from the
    first to below the k-th takes k such plans, hence a k-th of what that saves is due to each; the
    most, over all k. No plan brings the busiest below what it leaves to those that it touches.
    """
    if not plan:
        return 0.0
    now, then = (MeasuredTime().of_instances(view, p) for p in (view.placement, _after(view, plan)))
    touched = sorted({i for change in plan for i in (change.source, *change.targets)})
    reached = float(then[touched].max())
    ranked = np.sort(now)[::-1]
    levels = np.maximum(ranked[1:], reached)
    each = (ranked[0] - levels) / np.arange(1, len(now))
    return max(float(each.max()), 0.0) if len(each) else 0.0


def is_due(view: View, plan: Sequence[Change]) -> bool:
    """Whether what was paid in rent so far is the price of a plan."""
    if not plan or rent_ms(view, plan) <= 0:
        return False
    rows = moved_rows(view, view.placement, _after(view, plan))
    return view.rent_ms >= view.pause_ms + rows * view.moved_row_ms


def _after(view: View, plan: Sequence[Change]) -> Placement:
    placement = view.placement
    for change in plan:
        placement = change.on(placement)
    return placement
