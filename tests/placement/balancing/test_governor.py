"""What the governor accepts, refuses and remembers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from skewless.placement.balancing import Auto, Balancing
from skewless.placement.balancing.changes import Change, Move
from skewless.placement.balancing.governor import Governor
from skewless.placement.balancing.loads import StoredTimesProbing
from skewless.placement.balancing.moving import moved_rows
from skewless.placement.balancing.view import View
from skewless.placement.figures import Decision, LoadReport
from skewless.placement.places import Placement
from tests.placement.balancing.views import key_in, own, report, view

UNEVEN = [90.0, 60.0, 5.0, 5.0]
EVEN = [40.0, 40.0, 40.0, 40.0]


@dataclass(frozen=True, kw_only=True)
class Always(Balancing):
    """Proposes one thing whenever work is uneven, whatever it is good for."""

    slot: int = 1
    target: int = 1

    def wants_change(self, view: View) -> bool:
        loads = self.load.of_instances(view, view.placement)
        return bool(loads.max() > 1.1 * loads.mean())

    def propose(self, view: View) -> Iterator[Change]:
        source = int(view.placement.instance_of[self.slot])
        yield Move(self.slot, source, self.target, "because")


def observe(governor: Governor, told: LoadReport) -> list[Decision]:
    """A batch of which every row costs one millisecond, as the views have it."""
    work = np.array(told.instance_ms)
    return governor.observe(told, work, np.zeros(len(work)))


def governed(strategy: Balancing, instances: int = 2) -> Governor:
    return Governor(strategy, Placement.spread(4, instances))


def test_one_odd_batch_moves_nothing() -> None:
    governor = governed(Always(patience=2))
    assert [observe(governor, report(s, 2, batch_id=i)) for i, s in
            enumerate([EVEN, UNEVEN, EVEN, UNEVEN])] == [[], [], [], []]  # fmt: skip
    decisions = observe(governor, report(UNEVEN, 2, batch_id=4))
    assert [d.accepted for d in decisions] == [True]
    assert governor.placement.instance_of.tolist() == [0, 1, 1, 1]


def test_a_decision_tells_everything() -> None:
    governor = governed(Always(patience=1))
    assert observe(governor, report(UNEVEN, 2)) == [
        Decision("move", "slot 1", "instance 0", "instance 1", "because", True, rows=1200)
    ]


def test_no_gain_is_refused() -> None:
    governor = governed(Always(patience=1, slot=2, target=0))
    decisions = observe(governor, report(UNEVEN, 2))
    assert [(d.accepted, d.reason) for d in decisions] == [(False, "no gain; proposed as because")]
    assert governor.placement == Placement.spread(4, 2)


def test_what_just_changed_cools_down() -> None:
    governor = governed(Always(patience=1, cooldown=3))
    assert observe(governor, report(UNEVEN, 2, batch_id=0))[0].accepted
    governor.strategy = Always(patience=1, cooldown=3, target=0)
    swung = [1.0, 90.0, 60.0, 60.0]
    placement = governor.placement
    refused = observe(governor, report(swung, 2, placement=placement, batch_id=2))
    assert refused[0].reason.startswith("cooling down: changed after batch 0")
    assert observe(governor, report(swung, 2, placement=placement, batch_id=3))[0].accepted


def test_what_does_not_pay_is_refused() -> None:
    governor = governed(Always(patience=1, horizon=1))
    told = report(UNEVEN, 2)
    told.slots.stored_left[:] *= 1000
    decisions = observe(governor, told)
    assert decisions[0].reason.startswith("too costly: 600600 rows to move, ")
    assert governor.placement == Placement.spread(4, 2)


def test_a_dry_run_only_tells() -> None:
    governor = governed(Always(patience=1, dry_run=True))
    decisions = observe(governor, report(UNEVEN, 2))
    assert [(d.accepted, d.reason) for d in decisions] == [(False, "dry run; proposed as because")]
    assert governor.placement == Placement.spread(4, 2)


def test_pinned_keys_have_their_place_and_keep_it() -> None:
    hot = key_in(0, 4, 1)
    strategy = Auto(patience=1, floor_ms=0, noise=0)
    governor = Governor(strategy, Placement.spread(4, 2), {hot: own(hot, 4, 1)})
    assert governor.placement.isolated_key(hot) == own(hot, 4, 1)
    told = report([5.0, 5.0, 5.0, 5.0], 2, {hot: 90.0}, governor.placement)
    for number in range(4):
        observe(governor, LoadReport(number, told.slots, told.keys, told.key_figures,
                                     told.instance_ms))  # fmt: skip
    assert governor.placement.isolated_key(hot) == own(hot, 4, 1)


def test_one_line_in_the_log_per_decision(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "skewless"):
        observe(governed(Always(patience=1)), report(UNEVEN, 2, batch_id=7))
    assert caplog.messages == [
        "batch 7: move slot 1 from instance 0 to instance 1: because",
        "batch 7: 1 changes, busiest/mean 1.88, expected 1.12",
    ]


def test_moved_rows_count_shares() -> None:
    hot = key_in(0, 4, 1)
    seen = view([100.0, 1.0, 1.0, 1.0], 4, {hot: 60.0})
    before = seen.placement
    assert moved_rows(seen, before, before) == 0
    assert moved_rows(seen, before, before.with_slot(1, 0)) == 20
    # Of 600 rows a side, a quarter stays where the slot is.
    assert moved_rows(seen, before, before.with_isolated(own(hot, 4, 0, 1, 2, 3))) == 900


def test_what_is_remembered_is_bounded() -> None:
    governor = governed(Always(patience=1, cooldown=2, window=3), instances=2)
    for number in range(50):
        observe(governor, report(UNEVEN if number % 2 else EVEN, 2, batch_id=number))
    assert len(governor._changed) <= 4
    assert len(governor._monitor._reports) == 3


@dataclass(frozen=True, kw_only=True)
class ByProducts(Always):
    """Means stored times probing rows by load, whatever they cost."""

    @property
    def load(self) -> StoredTimesProbing:  # type: ignore[override]
        return StoredTimesProbing()


def test_what_would_take_longer_is_refused() -> None:
    """The first instance has the larger product, as it has many stored rows; the second has more
    pairs to compare, and so more to do."""
    governor = governed(ByProducts(patience=1))
    told = report([90.0, 60.0, 5.0, 5.0], 2)
    pairs = np.array([0.0, 0.0, 5e3, 5e3])
    told = replace(told, slots=replace(told.slots, pairs_left=pairs))
    [refused] = governor.observe(told, np.array([150.0, 10.0]), np.array([0.0, 1e4]))
    assert not refused.accepted
    # At the prices that are assumed at first: 60 rows more at 0.1 µs.
    assert refused.reason.startswith("no gain: it would take 0.006 ms longer per batch; proposed")
