"""When to migrate, if nobody sets a threshold: once imbalance has cost as much as a migration.

A threshold weighs what imbalance costs against what a migration costs, without knowing either. Both
can be measured. How long the load will stay as it is cannot, so this is the question of renting or
buying: who rents until the rent has come to the price, and buys then, never pays more than twice
what was necessary, whatever the future brings. Rent is what a plan would have saved per batch since
the last change; the price is the time that instances stand still for it, and for each of its rows.
So a migration that is dear or gains little waits, and what drifts fast is not chased.
"""

from __future__ import annotations

from collections.abc import Sequence

from skewless.placement.balancing.changes import Change
from skewless.placement.balancing.loads import MeasuredTime
from skewless.placement.balancing.moving import moved_rows
from skewless.placement.balancing.view import View


def pays_by_now(view: View, plan: Sequence[Change]) -> bool:
    """Whether a plan would have paid for itself, had it been carried out after the last change.

    Of the instances that it touches, the busiest counts, before and after: others may be as busy,
    and are next.
    """
    after = view.placement
    for change in plan:
        after = change.on(after)
    touched = sorted({i for change in plan for i in (change.source, *change.targets)})
    if not touched:
        return False
    now, then = (
        float(MeasuredTime().of_instances(view, placement)[touched].max())
        for placement in (view.placement, after)
    )
    rows = moved_rows(view, view.placement, after)
    price = view.pause_ms + rows * view.moved_row_ms
    return now > then and (now - then) * view.settled >= price
