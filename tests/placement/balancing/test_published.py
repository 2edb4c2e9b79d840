"""Paper mode: what a published strategy proposes is done, as its paper has it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skewless.errors import ArgumentError
from skewless.placement.balancing import FastJoin, LSStream
from skewless.placement.balancing.governor import Governor
from skewless.placement.balancing.published import Published
from skewless.placement.figures import Decision
from skewless.placement.places import IsolatedKey, Placement
from tests.placement.balancing.views import key_in, own, report

SLOTS = 4
HEAVY = {key_in(0, SLOTS, n): 30.0 for n in range(3)}
UNEVEN = [180.0, 10.0, 5.0, 5.0]


def observed(strategy: Published, pinned: dict[int, IsolatedKey] | None = None) -> list[Decision]:
    """What is decided after one batch in which moving a row costs a thousand times what it saves:
    rows that probe take no time."""
    governor = Governor(strategy, Placement.spread(SLOTS, 2), pinned)
    told = report(UNEVEN, 2, HEAVY, placement=governor.placement)
    free = replace(told, instance_ms=(1e-6, 1e-6))
    return governor.observe(free, np.full(2, 1e9), np.zeros(2))


def test_as_published_it_acts_at_once_and_asks_nobody() -> None:
    assert observed(FastJoin()) == []  # patience
    judged = observed(FastJoin(patience=1, horizon=1))
    assert judged
    assert {d.reason.split(":")[0] for d in judged if not d.accepted} == {"too costly"}
    done = observed(FastJoin(paper=True))
    assert done
    assert all(d.accepted for d in done)


def test_what_is_pinned_stays_in_any_case() -> None:
    key = min(HEAVY)
    done = observed(FastJoin(paper=True), {key: own(key, SLOTS, 0)})
    assert any(d.accepted for d in done)
    assert {d.reason.split(";")[0] for d in done if not d.accepted} <= {"pinned"}


def test_keys_may_move_again_in_the_next_batch() -> None:
    governor = Governor(FastJoin(paper=True), Placement.spread(SLOTS, 2))
    went = governor.observe(report(UNEVEN, 2, HEAVY), np.ones(2), np.zeros(2))
    assert {d.source for d in went} == {"instance 0"}
    swung = report([10.0, 10.0, 90.0, 90.0], 2, HEAVY, placement=governor.placement, batch_id=1)
    back = governor.observe(swung, np.ones(2), np.zeros(2))
    assert back
    assert all(d.accepted for d in back)
    assert {d.source for d in back} == {"instance 1"}


@pytest.mark.parametrize("strategy", [FastJoin, LSStream])
@pytest.mark.parametrize(("name", "value"), [("patience", 3), ("cooldown", 5), ("horizon", 10)])
def test_settings_of_the_governor_are_refused(
    strategy: type[Published], name: str, value: int
) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` must be left out where `paper` is True"):
        strategy(paper=True, **{name: value})
    with pytest.raises(ArgumentError, match="`paper` must be True or False"):
        strategy(paper=1)  # type: ignore[arg-type]


def test_it_is_a_value_that_can_be_changed() -> None:
    assert replace(FastJoin(paper=True), theta=3.0) == FastJoin(paper=True, theta=3.0)
    assert FastJoin(paper=True).window == 1
    assert FastJoin(paper=True) != FastJoin()
