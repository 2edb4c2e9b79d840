"""What may change about a two-way join on its checkpoint."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from skewless.arrays.types import FAR_US, SIDES
from skewless.durations import parse_duration_us
from skewless.engine.changes import Adopted, Facts, adopt_columns, differing
from skewless.errors import ArgumentError
from skewless.operators.epochs import Epoch, next_epochs
from skewless.operators.pair import JoinSpec
from skewless.state.commits import OperatorState

EARLIER = "earlier_bounds"  # in the facts of the state
COLUMNS = {f"{side} columns": f"the {side} input" for side in SIDES}


def earlier_epochs(state: OperatorState | None) -> tuple[Epoch, ...]:
    """Former bounds that still hold for rows of then."""
    return () if state is None else tuple(Epoch(**e) for e in state.facts.get(EARLIER, ()))


def without_past(spec: JoinSpec, left_kept_us: int, watermark_us: int) -> JoinSpec:
    """The join without epochs that are over: no left row of their time is needed, or can come."""
    over_us = min(left_kept_us, watermark_us)
    return replace(spec, earlier=tuple(e for e in spec.earlier if e.until_us > over_us))


def adopt(
    spec: JoinSpec, state: OperatorState | None, before: Facts, after: Facts, *, feeds: bool
) -> Adopted:
    """How the join goes on from the state of another one. `feeds`: other operators take its
    rows."""
    adopted = adopt_columns(COLUMNS, state, before, after)
    changed = differing(before, after)
    if "condition" in changed:
        adopted = adopted.plus(_other_condition(spec, state))
    if "within" in changed:
        adopted = adopted.plus(_other_within(spec, state, before["within"], feeds=feeds))
    return adopted


def _other_condition(spec: JoinSpec, state: OperatorState | None) -> Adopted:
    """Pairs are judged when the later of their rows comes, rows without a partner when their time
    is over. Joins with both must come to one answer."""
    how = spec.how
    if how.first_met or (how.pairs and how.unmatched):
        why = f"in a {how.name} join, what has come out would not fit what is to come"
        return Adopted(state, refused={"condition": why})
    return Adopted(state, frozenset({"condition"}))


def _other_within(
    spec: JoinSpec, state: OperatorState | None, before: str, *, feeds: bool
) -> Adopted:
    bounds = parse_within(before)
    if bounds is None or not all(spec.is_decided(side) for side in SIDES):
        return Adopted(state, refused={"within": "a bound without limit cannot be changed"})
    if feeds and (spec.lower_us > bounds[0] or spec.upper_us < bounds[1]):
        why = "a shorter bound would make rows late that go to another operator"
        return Adopted(state, refused={"within": why})
    accepted = frozenset({"within"})
    if state is None:
        return Adopted(None, accepted)
    former = replace(spec, lower_us=bounds[0], upper_us=bounds[1], earlier=earlier_epochs(state))
    seen_us = state.time_max_us.get("left")
    *earlier, now = next_epochs(
        former.epochs,
        (spec.lower_us, spec.upper_us),
        state.watermark_us,
        -FAR_US if seen_us is None else seen_us,
    )
    facts = {**state.facts, EARLIER: [asdict(epoch) for epoch in earlier]}
    return Adopted(replace(state, facts=facts), accepted, notes=(_told(spec, now),))


def _told(spec: JoinSpec, epoch: Epoch) -> str:
    within = spec.fingerprint()["within"]
    if epoch.since_us <= -FAR_US:
        return f"within is now {within}"
    time = spec.inputs()[0].time_name
    since = np.datetime64(epoch.since_us, "us")
    return (
        f"within is now {within}: it holds, and results are complete, for left rows with {time} "
        f"from {since} (UTC) on; those before go by the former bound"
    )


def parse_within(text: str) -> tuple[int, int] | None:
    """Bounds as a fingerprint has them; None if they have no limit, on both ends or one.

    >>> parse_within("-5 seconds to 1 minute"), parse_within("0 seconds to unbounded")
    ((-5000000, 60000000), None)
    """
    try:
        lower, upper = (
            parse_duration_us(part, "within", allow_negative=True) for part in text.split(" to ")
        )
    except (ArgumentError, ValueError):
        return None
    return lower, upper
