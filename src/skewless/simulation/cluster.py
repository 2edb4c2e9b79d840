"""The virtual cluster: real strategies on counted rows and a virtual clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from skewless.arrays.types import Floats
from skewless.errors import ArgumentError
from skewless.placement.balancing.imbalance import deviation_from_mean, max_over_mean, max_over_min
from skewless.placement.figures import Decision
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.strategy import PlacementStrategy, Placing
from skewless.placement.units import RoutingTable
from skewless.simulation.costs import PAUSE_MS, Costs
from skewless.simulation.division import Division, Ints, Loads, Work
from skewless.simulation.measuring import (
    Keys,
    compared_by_instance,
    compared_by_slot,
    load_report,
    products,
    reported_by_instances,
    resources,
)
from skewless.simulation.queues import Queues
from skewless.simulation.report import BatchFigures
from skewless.simulation.workloads import Batch


class VirtualCluster:
    """A join of two streams on so many `instances`, with the state of the last `window_batches`.

    The strategy is begun as in Spark, and observes reports that say the same as those there.
    `slots` are 16 per instance, or what the strategy wants.
    """

    def __init__(
        self,
        strategy: PlacementStrategy,
        instances: int,
        slots: int | None = None,
        costs: Costs | None = None,
        window_batches: int = 10,
        seed: int = 0,
    ) -> None:
        if instances < 1 or window_batches < 1:
            name = "instances" if instances < 1 else "window_batches"
            raise ArgumentError(name, min(instances, window_batches), "at least 1")
        self.costs = costs or Costs()
        if self.costs.pause_ms is None and strategy.stops_to_move:
            self.costs = replace(self.costs, pause_ms=PAUSE_MS)
        self.slots = slots or (strategy.slots_wanted or 16) * instances
        self.instances = instances
        # Of the last batch: the time that each instance needed, of which it stood still for so
        # long, and the rows that probed there.
        self.service_ms: Floats = np.zeros(instances)
        self.stopped_ms: Floats = np.zeros(instances)
        self.probing: Floats = np.zeros(instances)
        self._strategy, self._seed = strategy, seed
        self._placing: Placing = strategy.begin(self.slots, instances)
        self._keys = Keys(np.empty(0, np.int64), self.slots, seed)
        self._window: deque[tuple[Floats, Floats]] = deque(maxlen=window_batches)
        self._stored: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))
        self._queues = Queues(instances, self.costs.interval_ms)
        self._moving: Floats = np.zeros(instances)
        self._table: RoutingTable | None = None
        self._division: Division | None = None
        self._batch_id = 0

    @property
    def placement(self) -> Placement | None:
        """Where everything is now, if that can change."""
        return self._placing.placement

    def run(self, batches: Iterable[Batch]) -> list[BatchFigures]:
        return [self.step(batch) for batch in batches]

    def step(self, batch: Batch) -> BatchFigures:
        """Work on a batch, tell of it, and let the strategy decide about the next."""
        left, right = self._take_in(batch)
        isolated = self._positions_of(self.placement)
        by_key = Work(left, right, *self._stored, *_pairs_by_key(left, right, *self._stored))
        by_slot = compared_by_slot(by_key, self._keys.slots, self.slots, isolated)
        work = by_slot if self.costs.scan == "slot" else by_key
        division = self._divided()
        loads = division.loads(work)
        if self.costs.scan == "instance":
            loads = compared_by_instance(loads)
        service, stopped = self._service_ms(loads), self._stopped_ms()
        latency = self._queues.serve(loads.probing, service, stopped)
        self.service_ms, self.stopped_ms = service + stopped, stopped
        self.probing = loads.probing
        self._moving = np.zeros(self.instances)
        by_partition = loads if self.costs.scan == "instance" else division.loads(by_slot)
        self._store(left, right)
        decisions, migrated = self._decide(work, loads, service, isolated, float(stopped.max()))
        busiest = float(self.service_ms.max())
        figures = BatchFigures(
            batch_id=self._batch_id,
            rows=batch.rows,
            probes=float(loads.probing.sum()),
            extra_probes=float(loads.probing.sum()) - batch.rows,
            pairs=float(loads.pairs.sum()),
            matches=float(by_key.pairs_left.sum() + by_key.pairs_right.sum()),
            stored_rows=float(self._stored[0].sum() + self._stored[1].sum()),
            busiest_ms=busiest,
            mean_ms=float(self.service_ms.mean()),
            busiest_over_mean=max_over_mean(self.service_ms),
            max_over_min=max_over_min(products(loads)),
            deviation=deviation_from_mean(resources(by_partition)),
            rows_per_s=1000 * batch.rows / busiest if busiest > 0 else 0.0,
            backlog_ms=float(self._queues.backlog_ms.max()),
            latency=latency,
            units=division.units,
            isolated_keys=len(isolated),
            migrated_rows=migrated,
            stopped_ms=float(stopped.max()),
            decisions=tuple(decisions),
        )
        self._batch_id += 1
        return figures

    def _take_in(self, batch: Batch) -> tuple[Floats, Floats]:
        """The counts in the order of the keys' hashes. Keys never met before join the others."""
        known = self._keys
        if batch.keys is not known.ids:
            if not known.has_all(batch.keys):
                self._widen(np.union1d(known.ids, batch.keys) if len(known.ids) else batch.keys)
            if batch.keys is not self._keys.ids:
                return self._scattered(batch)
        order = self._keys.order
        return batch.left[order].astype(float), batch.right[order].astype(float)

    def _scattered(self, batch: Batch) -> tuple[Floats, Floats]:
        at = self._keys.positions(batch.keys)
        left, right = np.zeros(len(self._keys.ids)), np.zeros(len(self._keys.ids))
        np.add.at(left, at, batch.left)
        np.add.at(right, at, batch.right)
        return left, right

    def _widen(self, ids: Ints) -> None:
        old, new = self._keys, Keys(ids, self.slots, self._seed)
        at = np.searchsorted(new.hashes, old.hashes)

        def wider(counts: Floats) -> Floats:
            result: Floats = np.zeros(len(ids))
            result[at] = counts
            return result

        self._keys, self._division = new, None
        self._stored = wider(self._stored[0]), wider(self._stored[1])
        for i, (left, right) in enumerate(self._window):
            self._window[i] = wider(left), wider(right)

    def _divided(self) -> Division:
        table = self._placing.table
        if self._division is None or table is not self._table:
            self._table, self._division = table, Division(table, self._keys.hashes)
        return self._division

    def _service_ms(self, loads: Loads) -> Floats:
        costs = self.costs
        new = loads.new_left + loads.new_right
        per_row = costs.row_ms + costs.sent_ms
        time = per_row * loads.probing + costs.pair_ms * loads.pairs + costs.stored_ms * new
        return time if costs.pause_ms is not None else time + costs.migrated_ms * self._moving

    def _stopped_ms(self) -> Floats:
        """How long each instance stands still for rows that move."""
        if self.costs.pause_ms is None:
            return np.zeros(self.instances)
        pause = np.where(self._moving > 0, self.costs.pause_ms, 0.0)
        return np.asarray(pause + self.costs.migrated_ms * self._moving)

    def _store(self, left: Floats, right: Floats) -> None:
        if len(self._window) == self._window.maxlen:
            old_left, old_right = self._window[0]
            self._stored = self._stored[0] - old_left, self._stored[1] - old_right
        self._window.append((left, right))
        self._stored = self._stored[0] + left, self._stored[1] + right

    def _decide(
        self, work: Work, loads: Loads, service: Floats, isolated: Ints, stopped_ms: float
    ) -> tuple[Sequence[Decision], float]:
        before = self.placement
        if before is None:
            return (), 0.0
        if self.costs.scan == "instance":
            work = reported_by_instances(work, loads, self._keys, isolated, before)
        watched = self._strategy.keys_told
        report = load_report(self._batch_id, self._keys, work, before, isolated, service, watched)
        report = replace(report, stopped_ms=stopped_ms)
        decisions = self._placing.observe(report, loads.probing, loads.pairs)
        after = self.placement
        if after is None or after is before:
            return decisions, 0.0
        gone, come = self._migrations(before, after)
        self._moving = gone + come
        return decisions, float(come.sum())

    def _migrations(self, before: Placement, after: Placement) -> tuple[Floats, Floats]:
        """The stored rows that leave each instance, and those that come to it. What several share
        counts by shares."""
        is_isolated = np.zeros(len(self._keys.hashes), bool)
        for placement in (before, after):
            is_isolated[self._positions_of(placement)] = True
        stored = np.where(is_isolated, 0.0, self._stored[0] + self._stored[1])
        of_slots = np.bincount(self._keys.slots, stored, minlength=self.slots)
        moved = np.where(before.instance_of != after.instance_of, of_slots, 0.0)
        gone = np.bincount(before.instance_of, moved, self.instances).astype(float)
        come = np.bincount(after.instance_of, moved, self.instances).astype(float)
        for at in np.flatnonzero(is_isolated):
            key = int(self._keys.hashes[at])
            old, new = before.isolated_key(key), after.isolated_key(key)
            slot = int(self._keys.slots[at])
            if old is not None and old == new:
                continue
            for prober, rows in ((0, self._stored[1][at]), (1, self._stored[0][at])):
                was, will = (_shares(p, isolated, slot, prober)
                             for p, isolated in ((before, old), (after, new)))  # fmt: skip
                gone += rows * np.maximum(was - will, 0.0)
                come += rows * np.maximum(will - was, 0.0)
        return gone, come

    def _positions_of(self, placement: Placement | None) -> Ints:
        """Where among the sorted keys those are that have places of their own."""
        isolated = () if placement is None else placement.isolated
        return np.searchsorted(self._keys.hashes, np.array([o.hash for o in isolated], np.uint64))


def _shares(placement: Placement, isolated: IsolatedKey | None, slot: int, prober: int) -> Floats:
    if isolated is None:
        here: tuple[int, ...] = (int(placement.instance_of[slot]),)
    else:
        here = isolated.right if prober else isolated.left
    return np.bincount(here, minlength=placement.instances) / len(here)


def _pairs_by_key(
    left: Floats, right: Floats, stored_left: Floats, stored_right: Floats
) -> tuple[Floats, Floats]:
    return left * stored_right, right * (stored_left + left)
