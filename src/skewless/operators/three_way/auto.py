"""The default way to join three streams, at work: it learns from batch to batch what is cheap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skewless.engine.operator import Batch
from skewless.operators.three_way.flat import FlatWork
from skewless.operators.three_way.layout import keep_after_us, layouts
from skewless.operators.three_way.materialization import MaterializationPolicy
from skewless.operators.three_way.materialized import MaterializedWork, OldPairsWork
from skewless.operators.three_way.packs import kind_of_side, kinds_of
from skewless.operators.three_way.reader import BatchSegments
from skewless.operators.three_way.routes import RouteChooser
from skewless.operators.three_way.spec import NAMES, ThreeSpec
from skewless.operators.three_way.strategies.base import RunningStrategy
from skewless.operators.three_way.tally import hops_in
from skewless.operators.three_way.work import ThreeWork
from skewless.placement.figures import Decision
from skewless.state.commits import OperatorState
from skewless.state.segment_set import SegmentSet

SETTLED_AFTER = 20  # batches, for bounds so long that the state never fills


class RunningAuto(RunningStrategy):
    """Chooses routes, and which pairs to materialize. That is known by the side of their segments:
    `materialized` is what the last batch had."""

    def __init__(self, spec: ThreeSpec, materialized: str | None) -> None:
        self._spec = spec
        kind = None if materialized is None else kind_of_side(spec, materialized)
        self.policy = MaterializationPolicy(spec, kind)
        self._routes = RouteChooser(spec)
        self._is_settled = False

    @property
    def _side(self) -> str | None:
        kind = self.policy.materialized
        return None if kind is None else kind.side

    def _is_filled(self, state: OperatorState) -> bool:
        """Whether the state has the packs that are to be there."""
        return self._side == state.facts.get("materialized")

    @property
    def stores_pairs(self) -> bool:
        return self.policy.materialized is not None

    def segments(self, state: OperatorState) -> SegmentSet:
        wanted = self._side if self._is_filled(state) else None
        unwanted = {k.side for k in kinds_of(self._spec)} - {wanted}
        return state.segments.only(layouts(self._spec).keys() - unwanted)

    def first_work(self, state: OperatorState, segments: BatchSegments) -> ThreeWork | None:
        kind = self.policy.materialized
        if kind is None or self._is_filled(state) or not segments.old:
            return None
        return OldPairsWork(self._spec, segments, kind)

    def work(self, segments: BatchSegments) -> ThreeWork:
        kind = self.policy.materialized
        if kind is None:
            return FlatWork(self._spec, segments, self._routes.routes)
        return MaterializedWork(self._spec, segments, kind)

    def facts(self) -> dict[str, Any]:
        return {"materialized": self._side}

    def observe(self, batch: Batch) -> Sequence[Decision]:
        self._is_settled |= self._settles(batch)
        if not self._is_settled:
            return ()
        hops = hops_in(batch.received())
        rows = [sum(a.rows for a in batch.arrivals if a.input == name) for name in NAMES]
        routed = () if self.stores_pairs else self._routes.observe(self._routes.routes, hops)
        return (*routed, *self.policy.observe(hops, rows))

    def _settles(self, batch: Batch) -> bool:
        """Whether figures can be trusted: the state is full, since rows in it are too old by now,
        or it takes too long to wait for that. Against a nearly empty state every way is cheap."""
        needed_us = keep_after_us(self._spec, batch.watermark_us)
        full = any(s.time_min_us < needed_us[s.side] for s in self.segments(batch.state))
        return full or batch.batch_id >= SETTLED_AFTER
