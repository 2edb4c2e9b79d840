"""The work of one instance in one batch: its triples; then its report, as a small file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pyarrow as pa

from skewless import failpoints
from skewless.arrays.types import FAR_US
from skewless.engine.report import InstanceLoad
from skewless.operators.three_way.flat import join_flat
from skewless.operators.three_way.materialized import KeptInstance, old_pairs
from skewless.operators.three_way.packs import PackKind, kind_named
from skewless.operators.three_way.reader import Shelf, layout_of
from skewless.operators.three_way.spec import STREAMS, Tally, ThreePlan, ThreeSpec, Told
from skewless.operators.three_way.strategies import ThreeStrategy, Tree, TriJoin
from skewless.operators.three_way.tree import join_pairs, kind_of, make_pairs
from skewless.operators.three_way.trijoin import TriJoinInstance
from skewless.state.cache import CACHE
from skewless.state.files import Folder
from skewless.state.rewriting import Layout, compact_groups
from skewless.state.segments import Rows, SegmentInfo, write_segment


class _Clock:
    """Processor time of this thread, without that of whoever takes the results."""

    def __init__(self) -> None:
        self.spent_s, self._begun = 0.0, time.thread_time()

    def stop(self) -> None:
        self.spent_s += time.thread_time() - self._begun

    def go_on(self) -> None:
        self._begun = time.thread_time()


def tree_order(spec: ThreeSpec, strategy: Tree) -> tuple[int, int, int]:
    """The order of a tree's joins, as numbers of streams."""
    if strategy.order is not None:
        first, second, third = ("rst".index(name) for name in strategy.order)
        return first, second, third
    edge = spec.edges[0]
    return edge.a, edge.b, 3 - edge.a - edge.b


def run_three(
    spec: ThreeSpec, plan: ThreePlan, strategy: ThreeStrategy, instance: int
) -> Iterator[pa.RecordBatch]:
    """The triples of an instance. Running it twice gives the same rows and does no harm."""
    failpoints.hit("instance.begun", plan.batch_id)
    shelf, tally, clock = Shelf(spec, plan, CACHE), Tally(), _Clock()
    made: list[tuple[PackKind, Rows]] = []
    if isinstance(strategy, TriJoin):
        unit = TriJoinInstance(spec, plan, instance, shelf, tally)
        results, made = unit.results(), unit.packs
    elif isinstance(strategy, Tree):
        kind = kind_of(spec, tree_order(spec, strategy))
        results = join_pairs(spec, plan, kind, instance, shelf, tally)
    elif plan.kept is not None:
        keeper = KeptInstance(spec, plan, kind_named(spec, plan.kept), instance, shelf, tally)
        results, made = keeper.results(), keeper.packs
    else:
        results = join_flat(spec, plan, instance, shelf, tally)
    if instance == 0:
        tally.late = sum(shelf.late_rows(stream) for stream in STREAMS)
    for batch in results:
        clock.stop()
        yield batch
        clock.go_on()
    written = [_write(spec, plan, kind, rows) for kind, rows in made]
    clock.stop()
    failpoints.hit("instance.worked", plan.batch_id)
    told = Told(
        _load(instance, tally, clock.spent_s),
        tally.shipped,
        tally.hops(),
        tuple(written),
        tuple(_compact(spec, plan, instance)),
    )
    folder = Folder(plan.root)
    folder.write_atomically(
        f"{plan.report_folder}/{instance}.json", json.dumps(told.to_json()).encode()
    )
    CACHE.keep_only(folder, {s.name for s in (*plan.old, *(r.segment for r in plan.new))})
    failpoints.hit("instance.reported", plan.batch_id)


def run_pairs(spec: ThreeSpec, plan: ThreePlan, strategy: ThreeStrategy, instance: int) -> Told:
    """A first step: the new pairs of a tree, or all old pairs of a kind that is kept from now."""
    shelf, tally, clock = Shelf(spec, plan, CACHE), Tally(), _Clock()
    if isinstance(strategy, Tree):
        kind = kind_of(spec, tree_order(spec, strategy))
        pairs = make_pairs(spec, plan, kind, instance, shelf, tally)
    else:
        assert plan.kept is not None
        kind = kind_named(spec, plan.kept)
        pairs = old_pairs(spec, plan, kind, instance, shelf, tally)
    written = [] if pairs is None else [_write(spec, plan, kind, pairs)]
    clock.stop()
    return Told(_load(instance, tally, clock.spent_s), tally.shipped, tally.hops(), tuple(written))


def _load(instance: int, tally: Tally, spent_s: float) -> InstanceLoad:
    return InstanceLoad(
        instance,
        rows=tally.rows,
        pairs=sum(tally.candidates.values()),
        matches=tally.matches,
        late_left=tally.late,
        time_ms=round(spent_s * 1000, 3),
    )


def _write(spec: ThreeSpec, plan: ThreePlan, kind: PackKind, rows: Rows) -> SegmentInfo:
    return write_segment(
        Folder(plan.root), kind.name, kind.schema(spec), rows,
        floor_us=-FAR_US, level=0, batch_id=plan.batch_id,
    )  # fmt: skip


def _compact(spec: ThreeSpec, plan: ThreePlan, instance: int) -> Iterator[SegmentInfo]:
    sides = layout_of(spec)
    layout = Layout(
        {side: schema for side, (schema, _) in sides.items()},
        {side: time for side, (_, time) in sides.items()},
        plan.keep_after_us,
    )
    share = (instance, plan.instances)
    return compact_groups(Folder(plan.root), plan.compact, share, layout, plan.batch_id, CACHE)
