"""Who decides: strategies propose, the governor judges each change, enacts it and keeps the record.

It refuses what is pinned, what changed a moment ago, what does not help by the strategy's own
measure of load, and what moves more rows than it saves work. Every proposal becomes a `Decision`
with the reason it was accepted or refused for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.changes import Change, Merge
from skewless.placement.balancing.imbalance import max_over_mean
from skewless.placement.balancing.loads import MeasuredTime
from skewless.placement.balancing.monitor import Monitor
from skewless.placement.balancing.moving import moved_rows
from skewless.placement.balancing.tally import Tally
from skewless.placement.balancing.view import View
from skewless.placement.figures import Decision, LoadReport, Work
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.strategy import Placing
from skewless.placement.units import RoutingTable

if TYPE_CHECKING:
    from skewless.placement.balancing.base import Balancing

log = logging.getLogger("skewless")

ROUNDING = 1e-12  # what sums that are kept up may be off by, relatively


class Governor(Placing):
    """The balancing of one running join. `pinned` maps hashes of keys to where they stay."""

    def __init__(
        self,
        strategy: Balancing,
        placement: Placement,
        pinned: Mapping[int, IsolatedKey] | None = None,
    ) -> None:
        self.strategy = strategy
        self._pinned = dict(pinned or {})
        for isolated in self._pinned.values():
            placement = placement.with_isolated(isolated)
        self._placement = placement
        pinned_keys = frozenset(self._pinned)
        self._monitor = Monitor(strategy.window, pinned_keys, strategy.batches_apart)
        self._uneven = 0
        self._changed: dict[object, int] = {}

    @property
    def placement(self) -> Placement:
        return self._placement

    @cached_property
    def table(self) -> RoutingTable:
        return self._placement.table(self.strategy.name)

    def _place(self, placement: Placement) -> None:
        self._placement = placement
        vars(self).pop("table", None)

    def observe(
        self, report: LoadReport, rows: Floats, pairs: Floats, isolated: Work | None = None
    ) -> list[Decision]:
        work = Work(rows, pairs, np.array(report.instance_ms))
        rest = work if isolated is None else work.minus(isolated)
        self._monitor.add(report, rest, isolated)
        latest = self._monitor.latest(self.placement)
        latest = replace(latest, rent_ms=self._monitor.charge(self.strategy.rent_ms(latest)))
        self._uneven = self._uneven + 1 if self.strategy.wants_change(latest) else 0
        if self._uneven < self.strategy.patience:
            return []
        view = latest if self.strategy.window == 1 else self._monitor.view(self.placement)
        before = self.strategy.load.of_instances(view, self.placement)
        decisions = self._judge(list(self.strategy.propose(view)), view)
        if any(decision.accepted for decision in decisions):
            self._monitor.changed(sum(d.rows for d in decisions if d.accepted))
        self._forget(report.batch_id)
        self._tell(decisions, view, before)
        return decisions

    def _judge(self, changes: list[Change], view: View) -> list[Decision]:
        """Each change by itself; or, where a strategy is trusted, or has planned them together and
        they help together, only whether it may be made at all."""
        strategy = self.strategy
        together = strategy.trusted or (strategy.judged_together and self._helps(changes, view))
        tallies = None if together else _Tallies.of(view, self.placement, self.strategy)
        return [self._decide(change, view, tallies) for change in changes]

    def _helps(self, changes: list[Change], view: View) -> bool:
        """Whether changes lower the highest load together, as far as they may be made, and pay for
        the rows that they move."""
        load, placement, rows, moved = self.strategy.load, self.placement, 0, False
        for change in changes:
            if self._forbidden(change, view) is None:
                after = change.on(placement)
                rows += _rows_of(change, view, placement, after)
                moved |= not isinstance(change, Merge)
                placement = after
        now, then = (float(load.of_instances(view, p).max()) for p in (self.placement, placement))
        if not moved:
            return then <= now * (1 + 1e-9)
        cost_ms = view.pause_ms + rows * view.moved_row_ms
        return then < now * (1 - ROUNDING) and (now - then) * self.strategy.horizon >= cost_ms

    def _decide(self, change: Change, view: View, tallies: _Tallies | None) -> Decision:
        """Without tallies, the gain is no longer in question."""
        after = change.on(self.placement)
        rows = _rows_of(change, view, self.placement, after)
        refusal = self._forbidden(change, view)
        if refusal is None and tallies is not None:
            refusal = self._useless(change, view, after, rows, tallies)
        if refusal is None and not self.strategy.dry_run:
            for tally in set() if tallies is None else {tallies.load, tallies.time}:
                tally.enact(change, after)
            self._place(after)
            self._changed[change.cools] = view.batch_id
        if refusal is None and self.strategy.dry_run:
            refusal = "dry run"
        return Decision(
            kind=change.kind,
            subject=change.subject,
            source=f"instance {change.source}",
            target=_instances(change.targets),
            reason=change.reason if refusal is None else f"{refusal}; proposed as {change.reason}",
            accepted=refusal is None,
            rows=rows,
        )

    def _forbidden(self, change: Change, view: View) -> str | None:
        """Why something may not be changed now, whatever it would help."""
        if change.key_hash in self._pinned:
            return "pinned"
        changed = self._changed.get(change.cools)
        if changed is not None and view.batch_id - changed < self.strategy.cooldown:
            return f"cooling down: changed after batch {changed}"
        return None

    def _useless(
        self, change: Change, view: View, after: Placement, rows: int, tallies: _Tallies
    ) -> str | None:
        """Why a change is not worth it."""
        touched = sorted({change.source, *change.targets, *self._homes(change)})
        now, then = tallies.load.loads(), tallies.load.loads_after(change, after)
        if isinstance(change, Merge):
            return None if then.max() <= now.max() * (1 + 1e-9) else "no gain: it would unbalance"
        if not then[touched].max() < now[touched].max() * (1 - ROUNDING):
            return "no gain"
        if tallies.time is not tallies.load:
            now, then = tallies.time.loads(), tallies.time.loads_after(change, after)
        saved_ms = float(now[touched].max() - then[touched].max())
        cost_ms = view.pause_ms + rows * view.moved_row_ms
        if saved_ms < -ROUNDING * float(now[touched].max()):
            return f"no gain: it would take {-saved_ms:.3g} ms longer per batch"
        if 0 < saved_ms * self.strategy.horizon < cost_ms:
            return (
                f"too costly: {rows} rows to move, {saved_ms:.3g} ms saved per batch pay for "
                f"{saved_ms * self.strategy.horizon / cost_ms * rows:.0f} "
                f"within {self.strategy.horizon} batches"
            )
        return None

    def _homes(self, change: Change) -> tuple[int, ...]:
        key = change.key_hash
        own = None if key is None else self.placement.isolated_key(key)
        return () if own is None else own.instances

    def _forget(self, batch_id: int) -> None:
        """Let go of what has cooled down."""
        old = batch_id - self.strategy.cooldown
        self._changed = {what: when for what, when in self._changed.items() if when > old}

    def _tell(self, decisions: list[Decision], view: View, before: Floats) -> None:
        for decision in decisions:
            log.log(
                logging.INFO if decision.accepted else logging.DEBUG,
                "batch %d: %s %s from %s to %s: %s%s",
                view.batch_id, decision.kind, decision.subject, decision.source, decision.target,
                decision.reason, "" if decision.accepted else " (refused)",
            )  # fmt: skip
        if any(d.accepted for d in decisions):
            after = self.strategy.load.of_instances(view, self.placement)
            log.info(
                "batch %d: %d changes, busiest/mean %.2f, expected %.2f", view.batch_id,
                sum(d.accepted for d in decisions), max_over_mean(before), max_over_mean(after),
            )  # fmt: skip


@dataclass(frozen=True)
class _Tallies:
    """The loads of a round, as the strategy means them and as time."""

    load: Tally
    time: Tally

    @staticmethod
    def of(view: View, placement: Placement, strategy: Balancing) -> _Tallies:
        load = Tally(view, placement, strategy.load)
        if isinstance(strategy.load, MeasuredTime):
            return _Tallies(load, load)
        return _Tallies(load, Tally(view, placement, MeasuredTime()))


def _rows_of(change: Change, view: View, before: Placement, after: Placement) -> int:
    key = change.key_hash
    return moved_rows(view, before, after, frozenset() if key is None else frozenset({key}))


def _instances(ids: tuple[int, ...]) -> str:
    names = ", ".join(map(str, ids))
    return f"instance {names}" if len(ids) == 1 else f"instances {names}"
