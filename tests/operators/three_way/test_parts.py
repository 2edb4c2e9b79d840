"""The parts of a three-way join, each on its own: duties, packs, routes, how long rows are kept,
and how new ones are dealt out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.columns import Columns
from skewless.arrays.types import FAR_US, HASH_MAX, KeyColumn, SideSpec
from skewless.engine.batch import run_batch
from skewless.engine.executor import InProcessExecutor
from skewless.engine.instance import StepTask
from skewless.engine.pipeline import Node
from skewless.engine.report import BatchReport
from skewless.engine.watermark import EventTimes
from skewless.operators.pair import JoinSpec
from skewless.operators.three_way import bindings, packs
from skewless.operators.three_way.bindings import Bound, Probes, StoredRun, candidates
from skewless.operators.three_way.duties import duties_of, members
from skewless.operators.three_way.layout import keep_after_us
from skewless.operators.three_way.operator import ThreeWayOperator
from skewless.operators.three_way.packs import PackKind, UnpackedPairs, kinds_of, pack, run_of
from skewless.operators.three_way.portions import WHOLE, Share, cut
from skewless.operators.three_way.reader import BatchSegments, SegmentReader
from skewless.operators.three_way.routes import WORSE, RouteChooser
from skewless.operators.three_way.spec import (
    STREAMS,
    Edge,
    OutputColumn,
    Routes,
    Stream,
    ThreeSpec,
    routes_of,
)
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from skewless.operators.three_way.tally import Met
from skewless.operators.three_way.trijoin import makers_of, part_of_packs
from skewless.state.segments import read_segment
from tests.operators.three_way.driver import Batch, Setup, ThreeDriver
from tests.operators.three_way.oracle import Pair, Question, answers
from tests.operators.three_way.strategies import EPOCH, SHAPES, TIME, UNBOUNDED, spec_of
from tests.operators.three_way.test_properties import tables_of
from tests.oracle import multiset, rows_of
from tests.queries import FileSink
from tests.strategies import examples

CHAIN, OTHER_CHAIN, _, CYCLE = SHAPES
FAR = (-10_000, 10_000)


def whole_spec(
    shape: Sequence[tuple[int, int]] = CHAIN,
    within: Sequence[tuple[int, int]] = (FAR, FAR, FAR),
    late: int = 0,
) -> tuple[Question, ThreeSpec]:
    """A join of the given shape in which each pair compares one column of whole numbers."""
    columns: list[list[str]] = [[], [], []]
    pairs = []
    for (a, b), bounds in zip(shape, within, strict=False):
        columns[a].append("whole")
        columns[b].append("whole")
        pairs.append(Pair(a, b, ((1 + len(columns[a]), 1 + len(columns[b])),), (), bounds))
    question = Question(tuple(pairs), 0, (late, late, late))
    return question, spec_of(question, columns)


def rows(spec: ThreeSpec, stream: int, times: Sequence[int], *keys: Sequence[int]) -> list:
    """A task's rows: times, numbers that tell them apart, and keys."""
    schema = spec.streams[stream].schema
    moments = [EPOCH + timedelta(microseconds=int(t)) for t in times]
    columns = [moments, list(range(len(times))), *map(list, keys)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, schema=schema)]


# Duties ----------------------------------------------------------------------------------------


HASHES = st.lists(st.integers(0, HASH_MAX), max_size=30).map(sorted)


@given(
    st.integers(1, 60),
    st.integers(1, 4),
    st.integers(1, 5),
    st.lists(HASHES, max_size=5),
    st.sampled_from([0, 1, 20, 400]),
)
def test_duties_cover_every_row_of_every_group_once(
    instances: int, groups: int, subgroups: int, runs: list[list[int]], run_cost: int
) -> None:
    held: dict[int, Counter[int]] = {group: Counter() for group in range(groups)}
    stored = [
        StoredRun(np.array(hashes, np.uint64), np.zeros(len(hashes), np.int64), Columns())
        for hashes in runs
    ]
    for instance in range(instances):
        for duty in duties_of(instance, instances, groups, subgroups):
            mine = [run.of_subgroup(duty.part.subgroup) for run in stored]
            for number, begin, end in cut(duty.part.share, list(map(len, mine)), run_cost):
                held[duty.group].update(mine[number].slice(begin, end).hashes.tolist())
    assert held == {group: Counter(h for run in runs for h in run) for group in range(groups)}


@given(st.integers(1, 200), st.sampled_from([CHAIN, OTHER_CHAIN, CYCLE]), st.integers(0, 300))
def test_packs_of_every_kind_are_held_once(
    instances: int, shape: Sequence[tuple[int, int]], length: int
) -> None:
    _, spec = whole_spec(shape)
    for kind in kinds_of(spec):
        held: Counter[int] = Counter()
        for instance in range(instances):
            for duty in duties_of(instance, instances, len(STREAMS)):
                if duty.group in makers_of(spec, kind):
                    share = part_of_packs(spec, kind, duty, instances).share
                    held.update(at for _, *ends in cut(share, [length]) for at in range(*ends))
        assert held == Counter(range(length))


@given(
    st.integers(1, 50),
    st.lists(st.integers(0, 10**7), min_size=1, max_size=8),
    st.sampled_from([0, 1, 1000]),
)
def test_shares_cost_alike(parts: int, lengths: list[int], run_cost: int) -> None:
    """Rows and runs together; only a run that two of them have to open comes on top."""
    most = (sum(lengths) + run_cost * len(lengths)) / parts + run_cost
    for part in range(parts):
        mine = [end - begin for _, begin, end in cut((part, parts), lengths, run_cost)]
        assert sum(mine) + run_cost * len(mine) <= most + 1


@st.composite
def runs_and_probes(draw: st.DrawFn) -> tuple[Probes, list[StoredRun]]:
    """Few hashes and times, so that much is met; one hash may be everywhere."""

    def sorted_pairs(most: int) -> tuple[np.ndarray, np.ndarray]:
        pair = st.tuples(st.integers(0, 3), st.integers(0, 9))
        found = sorted(draw(st.lists(pair, max_size=most)))
        hashes = np.array([h for h, _ in found], np.uint64)
        return hashes, np.array([t for _, t in found], np.int64)

    hashes, times = sorted_pairs(12)
    rows = np.array(draw(st.permutations(range(len(hashes)))), np.int64)
    runs = [StoredRun(*sorted_pairs(20), Columns()) for _ in range(draw(st.integers(0, 4)))]
    return Probes(hashes, times, rows, np.zeros(len(hashes), np.bool_)), runs


@examples(200)
@given(runs_and_probes(), st.integers(1, 7), st.integers(1, 9))
def test_shares_of_candidates_are_all_of_them(
    given: tuple[Probes, list[StoredRun]], parts: int, chunk: int
) -> None:
    probes, runs = given

    def found(share: Share) -> list[tuple[int, int, int]]:
        return [
            (next(n for n, r in enumerate(runs) if r is run), row, partner)
            for run, rows, partners in candidates(probes, (-2, 3), runs, share)
            for row, partner in zip(rows.tolist(), partners.tolist(), strict=True)
        ]

    with mock.patch.object(bindings, "PAIRS_PER_CHUNK", chunk):
        every = found(WHOLE)
        hit = probes.hit.copy()
        dealt = [found((part, parts)) for part in range(parts)]
    assert every == [
        (n, int(row), partner)
        for n, run in enumerate(runs)
        for hash_, time, row in zip(probes.hashes, probes.times, probes.rows, strict=True)
        for partner in range(len(run))
        if run.hashes[partner] == hash_ and -2 <= run.times[partner] - time <= 3
    ]
    assert [one for part in dealt for one in part] == every
    assert hit.nonzero()[0].tolist() == sorted({row for _, row, _ in every})
    sizes = [len(part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1


def test_a_hot_key_is_split_even_if_few_rows_come(tmp_path: Path) -> None:
    _, spec = whole_spec(CHAIN)
    driver = ThreeDriver(tmp_path, spec, Setup(AutoThree(), 4))
    many, few = 3000, 7
    driver.run(0, [[], [rows(spec, 1, [0] * many, [1] * many, [1] * many)], []])
    outcome = driver.run(1, [[rows(spec, 0, [0] * few, [1] * few)], [], []])
    assert outcome.report is not None
    pairs = [load.pairs for load in outcome.report.instances]
    assert sum(pairs) == many * few
    assert max(pairs) <= 1.1 * sum(pairs) / 4


@given(st.integers(3, 200))
def test_groups_are_even_and_an_instance_is_in_one(instances: int) -> None:
    groups = [duties_of(instance, instances, groups=3) for instance in range(instances)]
    assert all(len(duties) == 1 for duties in groups)
    sizes = Counter(duties[0].group for duties in groups)
    assert sizes == {group: members(group, instances, groups=3) for group in range(3)}
    assert max(sizes.values()) - min(sizes.values()) <= 1


# Packs -----------------------------------------------------------------------------------------

NESTED = pa.list_(pa.struct([("x", pa.int64()), ("s", pa.string())]))
HUB_TYPES = {
    "plain": pa.string(),
    "real": pa.float64(),
    "none": pa.null(),
    "span": pa.duration("us"),
    "money": pa.decimal128(20, 2),
    "bytes": pa.binary(),
    "nested": NESTED,
    "map": pa.map_(pa.string(), pa.int64()),
}
VALUES: dict[str, list[Any]] = {
    "plain": ["", "a", None],
    "real": [0.0, -0.0, float("nan"), None],
    "none": [None],
    "span": [timedelta(0), timedelta(1), None],
    "money": [Decimal("1.00"), Decimal("1.01"), None],
    "bytes": [b"", b"a", None],
    "nested": [[{"x": 1, "s": None}], [], None],
    "map": [[("a", 1)], [], None],
}


def pack_spec(hub_type: pa.DataType) -> ThreeSpec:
    """A chain r - s - t by whole numbers, in which s has a column of another type, too, and r a
    nested one."""
    s = pa.schema([("at", TIME), ("k", pa.int64()), ("more", hub_type)])
    r = pa.schema([("at", TIME), ("k", pa.int64()), ("many", NESTED)])
    t = pa.schema([("at", TIME), ("k", pa.int64())])
    sides = [SideSpec(schema, (KeyColumn(1, pa.int64()),), (), 0, 0) for schema in (r, s, t)]
    edges = tuple(Edge(a, b, JoinSpec(sides[a], sides[b], *FAR, ())) for a, b in CHAIN)
    output = tuple(
        OutputColumn(x, i, f"{x}.{i}")
        for x, schema in enumerate((r, s, t))
        for i in range(len(schema))
    )
    return ThreeSpec((Stream(r, 0, 0), Stream(s, 0, 0), Stream(t, 0, 0)), edges, output)


KIND = PackKind(1, 0)  # rows of s with their partners in r


def pairs_of(spec: ThreeSpec, drawn: list[tuple[int, int, Any, int, Any]]) -> Bound:
    """Pairs of (time of s, key, value; time of r, value)."""
    times_s, keys, more, times_r, many = (list(c) for c in zip(*drawn, strict=True))
    schema_r, schema_s = spec.streams[0].schema, spec.streams[1].schema
    of_s = [pa.array(c, f.type) for c, f in zip((times_s, keys, more), schema_s, strict=True)]
    of_r = [pa.array(c, f.type) for c, f in zip((times_r, keys, many), schema_r, strict=True)]
    return Bound({1: Columns(of_s), 0: Columns(of_r)}, {1: np.array(times_s), 0: np.array(times_r)})


def pairs_told(bound: Bound) -> Counter:
    columns = [c.to_pylist() for c in (*bound.columns[0], *bound.columns[1])]
    times = [bound.times[0].tolist(), bound.times[1].tolist()]
    return multiset(list(zip(*columns, *times, strict=True)))


@examples(60)
@given(st.sampled_from(sorted(HUB_TYPES)), st.booleans(), st.data())
def test_packing_and_unpacking_gives_the_same_pairs(
    name: str, packing: bool, data: st.DataObject
) -> None:
    """Also of hubs that are equal in every column: a pair is there as often as before."""
    spec = pack_spec(HUB_TYPES[name])
    pair = st.tuples(
        st.integers(0, 1), st.integers(1, 2), st.sampled_from(VALUES[name]), st.integers(0, 2),
        st.sampled_from(VALUES["nested"]),
    )  # fmt: skip
    drawn = data.draw(st.lists(pair, min_size=1, max_size=12))
    pairs = pairs_of(spec, drawn)
    cut = data.draw(st.integers(0, len(pairs)))
    parts = [pairs.take(np.arange(cut)), pairs.take(np.arange(cut, len(pairs)))]
    (packed,) = pack(spec, KIND, parts, packing=packing)
    run = run_of(packed)
    order = list(zip(run.hashes.tolist(), run.times.tolist(), strict=True))
    assert order == sorted(order)
    assert [c.type for c in packed.columns] == KIND.schema(spec).types
    (unpacked,) = UnpackedPairs.of(spec, KIND, run).pairs()
    assert pairs_told(unpacked) == pairs_told(pairs)


def test_equal_hubs_share_a_pack_and_others_do_not() -> None:
    spec = pack_spec(pa.string())
    drawn = [(0, 1, "a", 5, None), (0, 1, "a", 6, None), (0, 1, "a", 5, None),
             (0, 1, None, 5, None), (1, 1, "a", 5, None), (0, 2, "a", 5, None)]  # fmt: skip
    pairs = pairs_of(spec, drawn)
    (packed,) = pack(spec, KIND, [pairs], packing=True)
    lengths = Counter(packed.columns[-1].value_lengths().to_pylist())
    assert lengths == Counter({3: 1, 1: 3})
    (apart,) = pack(spec, KIND, [pairs], packing=False)
    assert apart.columns[-1].value_lengths().to_pylist() == [1] * 6
    nested = pack_spec(NESTED)
    same = [(0, 1, [{"x": 1, "s": "a"}], 5, None)] * 2
    (taken,) = pack(nested, KIND, [pairs_of(nested, same)], packing=True)
    assert len(taken) == 2, "nested values are not compared"


def test_nothing_makes_no_pack() -> None:
    spec = pack_spec(pa.string())
    empty = pairs_of(spec, [(0, 1, "a", 5, None)]).take(np.arange(0))
    assert not list(pack(spec, KIND, [], packing=True))
    assert not list(pack(spec, KIND, [empty], packing=True))


def test_kinds_of_packs() -> None:
    """The hub has conditions with both others."""
    assert kinds_of(whole_spec(CHAIN)[1]) == [PackKind(1, 0), PackKind(1, 2)]
    assert kinds_of(whole_spec(OTHER_CHAIN)[1]) == [PackKind(0, 1), PackKind(0, 2)]
    assert len(kinds_of(whole_spec(CYCLE)[1])) == 6
    assert packs.hub_of(whole_spec(CHAIN)[1], earlier=1, later=0) == 1
    assert packs.hub_of(whole_spec(CYCLE)[1], earlier=1, later=0) == 0


def skewed_batch(spec: ThreeSpec, number: int, count: int = 20) -> Batch:
    """Nine of ten rows of r and s have one key; t finds one row of s in twenty."""
    times = range(100 * number, 100 * number + count)
    hot = [1 if i % 10 else i for i in range(count)]
    return [
        [rows(spec, 0, times, hot)],
        [rows(spec, 1, times, hot, range(count))],
        [rows(spec, 2, times, [3] * count)],
    ]


def test_packing_holds_fewer_intermediates_of_a_hot_key(tmp_path: Path) -> None:
    question, spec = whole_spec(CHAIN)
    batches = [skewed_batch(spec, number) for number in range(2)]
    expected = [a.rows for a in answers(question, [tables_of(b, spec) for b in batches])]
    assert sum(map(len, expected)) > 20
    for instances in (1, 4):
        held, comparisons = {}, {}
        for packing in (True, False):
            setup = Setup(TriJoin(packing), instances)
            driver = ThreeDriver(tmp_path / f"{instances}-{packing}", spec, setup)
            outcomes = [driver.run(n, batch) for n, batch in enumerate(batches)]
            assert [o.rows for o in outcomes] == expected
            held[packing] = [o.report.intermediates for o in outcomes]
            comparisons[packing] = sum(i.pairs for o in outcomes for i in o.report.instances)
        # 18 of 20 rows have the hot key: so many pairs there are with r, and few with t.
        assert held[False][0] >= 18 * 18
        assert all(few * 3 < many for few, many in zip(held[True], held[False], strict=True))
        assert comparisons[True] < comparisons[False]


def test_packs_of_nested_columns_through_batches(tmp_path: Path) -> None:
    """Nested columns of hub and partner are stored, probed, and come out as they were."""
    spec = pack_spec(NESTED)

    def task(stream: int, batch: int) -> list[pa.RecordBatch]:
        schema = spec.streams[stream].schema
        values = [VALUES["nested"][i] for i in (0, 1, 2, 0)]
        columns = [[batch] * 4, [1, 1, 2, 1], values][: len(schema)]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return [pa.RecordBatch.from_arrays(arrays, schema=schema)]

    batches = [[[task(x, n)] if n == x else [] for x in STREAMS] for n in STREAMS]
    told = [rows_of(task(x, x)[0]) for x in STREAMS]
    expected = multiset(
        [r + s + t for r, s, t in product(*told) if r[1] == s[1] == t[1]],
    )
    assert expected.total() == 28
    for strategy in (AutoThree(), TriJoin(), TriJoin(packing=False), Tree()):
        driver = ThreeDriver(tmp_path / repr(strategy), spec, Setup(strategy, 2))
        outcomes = [driver.run(n, batch) for n, batch in enumerate(batches)]
        assert [o.rows.total() for o in outcomes] == [0, 0, 28]
        assert outcomes[2].rows == expected, strategy


# What nobody reads ------------------------------------------------------------------------------


class Unread(InProcessExecutor):
    """Results are made when they are asked for, and the sink does not ask."""

    drained = False

    def rows(self, task: StepTask, node: Node) -> list[list[pa.RecordBatch]]:
        self.ran.append(task)
        return []

    def drain(self, rows: list[list[pa.RecordBatch]]) -> None:
        self.drained = True
        super().rows(self.ran[-1], self.pipeline.root)


def run_unread(
    driver: ThreeDriver, batch: Batch, *, may_skip: bool = False
) -> tuple[Unread, BatchReport]:
    executor = Unread(driver.pipeline, driver.root, driver.streams(batch), faithful=True)
    sink = FileSink(driver.query, driver.schema, None, may_skip=may_skip)
    report = run_batch(driver.query, executor, sink, 0)
    assert report is not None
    return executor, report


@pytest.mark.parametrize("strategy", [AutoThree(), Tree(), Tree(("t", "s", "r"))], ids=repr)
def test_pairs_of_a_batch_that_no_sink_has_read_are_kept(
    strategy: ThreeStrategy, tmp_path: Path
) -> None:
    """The instances of the last step never run; what comes later is found all the same."""
    question, spec = whole_spec(CHAIN)
    batches = [skewed_batch(spec, number, 10) for number in range(3)]
    expected = [a.rows for a in answers(question, [tables_of(b, spec) for b in batches])]
    driver = ThreeDriver(tmp_path, spec, Setup(strategy, 2))
    executor, report = run_unread(driver, batches[0])
    assert not executor.ran[-1].step.must_finish
    assert not executor.drained
    assert (report.matches, report.decisions) == (0, ())
    assert [load.matches for load in report.instances] == [0, 0]
    for number in (1, 2):
        assert driver.run(number, batches[number]).rows == expected[number] != Counter()


def test_what_a_sink_has_already_is_worked_on_for_the_reports(tmp_path: Path) -> None:
    question, spec = whole_spec(CHAIN)
    batch = skewed_batch(spec, 0, 10)
    expected = next(iter(answers(question, [tables_of(batch, spec)]))).rows
    executor, report = run_unread(
        ThreeDriver(tmp_path, spec, Setup(Tree(), 2)), batch, may_skip=True
    )
    assert executor.drained and report.matches == expected.total() > 0


@pytest.mark.parametrize("kind", [None, *kinds_of(whole_spec(CHAIN)[1])])
def test_pairs_that_nobody_else_makes_are_made_without_a_reader(
    kind: PackKind | None, tmp_path: Path
) -> None:
    question, spec = whole_spec(CHAIN)
    batches = [skewed_batch(spec, number, 10) for number in range(3)]
    expected = [a.rows for a in answers(question, [tables_of(b, spec) for b in batches])]
    driver = ThreeDriver(tmp_path, spec, Setup(TriJoin() if kind is None else AutoThree(), 2))
    if kind is not None:
        driver.coordinator.running.policy.materialized = kind
    executor, report = run_unread(driver, batches[0])
    assert executor.ran[-1].step.must_finish
    assert executor.drained
    assert report.intermediates > 0
    assert report.matches == expected[0].total()
    for number in (1, 2):
        assert driver.run(number, batches[number]).rows == expected[number] != Counter()


# Routes ----------------------------------------------------------------------------------------


def hops(routes: Routes, costs: dict[int, float], rows: int = 100) -> list[Met]:
    """What two instances report when new rows of a stream meet so many candidates each."""
    found = []
    for _ in range(2):
        for stream, cost in costs.items():
            first, second = routes[stream]
            found.append(Met(stream, *first, rows // 2, int(rows // 2 * cost * 0.25), 1))
            found.append(Met(stream, *second, rows // 7, int(rows // 2 * cost * 0.75), 1))
    return found


def test_the_ways_of_a_chain_and_of_a_cycle() -> None:
    chain, cycle = whole_spec(CHAIN)[1], whole_spec(CYCLE)[1]
    assert routes_of(chain, 0) == [((0, 1), (1, 2))]
    assert routes_of(chain, 1) == [((1, 0), (1, 2)), ((1, 2), (1, 0))]
    assert routes_of(chain, 2) == [((2, 1), (1, 0))]
    for stream in STREAMS:
        ways = routes_of(cycle, stream)
        assert len(set(ways)) == 4
        assert all(a == stream and via in (stream, y) and len({stream, y, z}) == 3
                   for (a, y), (via, z) in ways)  # fmt: skip


def test_every_route_is_tried_once_and_the_cheapest_taken() -> None:
    spec = whole_spec(CYCLE)[1]
    chooser = RouteChooser(spec)
    costs = dict(zip(routes_of(spec, 0), (40.0, 30.0, 8.0, 20.0), strict=True))
    tried = []
    for _ in range(3):
        tried.append(chooser.routes[0])
        assert chooser.observe(chooser.routes, hops(chooser.routes, {0: costs[tried[-1]]})) == ()
    tried.append(chooser.routes[0])
    (decision,) = chooser.observe(chooser.routes, hops(chooser.routes, {0: costs[tried[-1]]}))
    assert sorted(tried) == sorted(costs)
    assert (decision.kind, decision.subject, decision.source) == ("route", "new rows of r", "r")
    assert decision.accepted
    (_, y), (via, z) = best = min(costs, key=costs.__getitem__)
    assert decision.target == f"{'rst'[y]}, then {'rst'[z]} by its condition with {'rst'[via]}"
    assert decision.reason == "8.00 candidates per new row, the next best way has 20.00"
    for _ in range(5):
        assert chooser.routes[0] == best
        assert chooser.observe(chooser.routes, hops(chooser.routes, {0: 8.0})) == ()


def test_all_routes_are_tried_again_when_the_cost_has_doubled() -> None:
    spec = whole_spec(CHAIN)[1]
    chooser = RouteChooser(spec)
    first, second = routes_of(spec, 1)
    for cost in (10.0, 30.0):
        chooser.observe(chooser.routes, hops(chooser.routes, {1: cost}))
    assert chooser.routes[1] == first
    # Not by one batch alone: costs are averaged.
    assert chooser.observe(chooser.routes, hops(chooser.routes, {1: 10 * WORSE + 4})) == ()
    decisions = ()
    batches = 0
    while not decisions:
        decisions = chooser.observe(chooser.routes, hops(chooser.routes, {1: 10 * WORSE + 4}))
        batches += 1
        assert batches < 20
    (decision,) = decisions
    assert decision.kind == "try routes"
    assert "where there were 10.00: all ways are tried again" in decision.reason
    used = []
    for cost in (60.0, 5.0):
        used.append(chooser.routes[1])
        decisions = chooser.observe(chooser.routes, hops(chooser.routes, {1: cost}))
    assert set(used) == {first, second}
    assert chooser.routes[1] == second
    assert decisions[0].kind == "route"


def test_batches_without_rows_decide_nothing() -> None:
    chooser = RouteChooser(whole_spec(CHAIN)[1])
    before = chooser.routes
    for _ in range(5):
        assert chooser.observe(chooser.routes, hops(chooser.routes, {1: 5.0}, rows=0)) == ()
    assert chooser.routes == before


# How long rows are kept ------------------------------------------------------------------------


def chains_and_cycles() -> st.SearchStrategy[ThreeSpec]:
    def bounds(drawn: list[tuple[int, int]]) -> list[tuple[int, int]]:
        return [(lower, lower + width) for lower, width in drawn]

    three = st.lists(st.tuples(st.integers(-6, 5), st.integers(0, 6)), min_size=3, max_size=3)
    return st.builds(
        lambda shape, within: whole_spec(shape, within)[1], st.sampled_from(SHAPES),
        three.map(bounds),
    )  # fmt: skip


def triples_at(spec: ThreeSpec, stream: int) -> list[list[int]]:
    """Times of all triples, in which the row of one stream is at 0."""
    times = [range(1) if x == stream else range(-24, 25) for x in STREAMS]
    return [
        list(at)
        for at in product(*times)
        if all(e.pair.lower_us <= at[e.b] - at[e.a] <= e.pair.upper_us for e in spec.edges)
    ]


@examples(60)
@given(chains_and_cycles(), st.integers(-30, 30))
def test_rows_are_kept_as_long_as_any_triple_needs_them(spec: ThreeSpec, watermark: int) -> None:
    for x in STREAMS:
        found = triples_at(spec, x)
        for y in (y for y in STREAMS if y != x):
            latest = max((at[y] for at in found), default=None)
            if latest is not None:
                assert spec.max_lag_us(x, y) >= latest, "a row that is needed would be dropped"
                if not spec.is_cycle:
                    assert spec.max_lag_us(x, y) == latest, "a row would be kept for nothing"
        reach = max(spec.max_lag_us(x, y) for y in STREAMS if y != x)
        assert spec.keep_after_us(x, watermark) == watermark - reach
    assert spec.keep_after_us(0, -FAR_US) >= -FAR_US


def test_a_cycle_is_kept_no_longer_than_its_tightest_way() -> None:
    """From r to t directly within 100, or by way of s within 2 + 3."""
    _, spec = whole_spec(CYCLE, [(0, 2), (-100, 100), (-1, 3)])
    assert [spec.max_lag_us(0, y) for y in (1, 2)] == [2, 5]
    assert spec.keep_after_us(0, 50) == 45


# Pairs whose times may be any ------------------------------------------------------------------


def test_lags_without_a_limit() -> None:
    _, chain = whole_spec(CHAIN, [UNBOUNDED, (-5, -3)])
    assert [chain.max_lag_us(x, y) for x, y in permutations(STREAMS, 2)] == [
        FAR_US, FAR_US, FAR_US, -3, FAR_US, 5,
    ]  # fmt: skip
    for x in STREAMS:
        assert chain.keep_after_us(x, 10**17) == -FAR_US, "what has no limit is kept forever"
    assert set(keep_after_us(chain, 10**17).values()) == {-FAR_US, 10**17 + 3}
    assert keep_after_us(chain, 10**17)["s-r"] == 10**17 + 3, "a pair waits for t alone"
    assert chain.fingerprint()["rs within"] == "unbounded"
    # In a cycle, the way by the third stream is a limit.
    _, cycle = whole_spec(CYCLE, [UNBOUNDED, (-1, 4), (-2, 3)])
    assert (cycle.max_lag_us(0, 1), cycle.max_lag_us(1, 0)) == (4 + 2, 3 + 1)


@pytest.mark.parametrize(
    "strategy", [AutoThree(), TriJoin(), TriJoin(packing=False), Tree(), Tree(("t", "s", "r"))],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("shape", [CHAIN, OTHER_CHAIN, CYCLE])
def test_rows_of_an_unbounded_pair_meet_however_far_apart(
    shape: Sequence[tuple[int, int]], strategy: ThreeStrategy, tmp_path: Path
) -> None:
    """From the first year that can be written to the last: bounds are added to these times."""
    if isinstance(strategy, Tree) and strategy.order and (1, 2) not in shape:
        strategy = Tree(("t", "r", "s"))
    question, spec = whole_spec(shape, [UNBOUNDED, UNBOUNDED, UNBOUNDED])
    first, last = (
        (datetime(*day, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
        for day in ((1, 1, 1), (9999, 12, 31))
    )
    widths = [len(spec.streams[x].schema) - 2 for x in STREAMS]
    batches = [
        [[rows(spec, x, [at + x, at], *([[1, 2]] * widths[x]))] for x in STREAMS]
        for at in (first, 0, last - 10, last - 5)
    ]
    expected = [a.rows for a in answers(question, [tables_of(b, spec) for b in batches])]
    assert [rows.total() for rows in expected] == [2, 14, 38, 74]
    driver = ThreeDriver(tmp_path, spec, Setup(strategy, 3))
    if isinstance(strategy, AutoThree):
        driver.run(0, batches[0])
        driver.coordinator.running.policy.materialized = kinds_of(spec)[0]
        assert driver.run(1, batches[1]).rows == expected[1]
        rest = range(2, 4)
    else:
        rest = range(4)
    outcomes = [driver.run(n, batches[n]) for n in rest]
    assert [o.rows for o in outcomes] == [expected[n] for n in rest]
    assert sum(s.rows for s in driver.state.segments if s.side == "r-rs") == 8


# What is known of the times of triples ---------------------------------------------------------


@examples(60)
@given(chains_and_cycles())
def test_event_times_hold_for_every_triple(spec: ThreeSpec) -> None:
    below = [EventTimes.of_stream("at")] * 3
    times = ThreeWayOperator(spec, AutoThree(), 1).event_times(below)
    assert times.columns == ("0.0", "1.0", "2.0")
    for new in STREAMS:
        # The new row is at the watermark, 0.
        for at in triples_at(spec, new):
            assert all(-at[x] <= times.lag_us[x] for x in STREAMS)
            assert all(at[y] - at[x] <= times.behind_us[x][y] for x, y in product(STREAMS, STREAMS))


def test_event_times_of_columns_that_are_there() -> None:
    _, spec = whole_spec(CHAIN, [(-2, 7), (-3, 11)])
    below = [EventTimes.of_stream("at")] * 3
    assert spec.event_times(below) == EventTimes(
        ("0.0", "1.0", "2.0"),
        (7 + 11, 11, 3 + 2),
        ((0, 7, 18), (2, 0, 11), (5, 3, 0)),
    )
    some = tuple(c for c in spec.output if (c.stream, c.index) != (1, 0))
    assert replace(spec, output=some).event_times(below) == EventTimes(
        ("0.0", "2.0"), (18, 5), ((0, 18), (5, 0))
    )
    _, unbounded = whole_spec(CHAIN, [UNBOUNDED, (-3, 11)])
    assert unbounded.event_times(below) == EventTimes()


LONG = 25


@pytest.mark.parametrize("strategy", [AutoThree(), TriJoin(), Tree()], ids=repr)
def test_rows_and_packs_leave_the_state(strategy: ThreeStrategy, tmp_path: Path) -> None:
    """A long stream takes no more room than a short one, and finds the same triples."""
    question, spec = whole_spec(CHAIN, [(-12, 12), (-5, 12)], late=2)
    driver = ThreeDriver(tmp_path, spec, Setup(strategy, 2))
    batches = []
    for number in range(LONG):
        times = [10 * number + i for i in range(6)]
        keys = [1, 1, 1, 1, 2, 3]
        batches.append([
            [rows(spec, 0, times, keys)], [rows(spec, 1, times, keys, keys)],
            [rows(spec, 2, times, keys)],
        ])  # fmt: skip
    outcomes = [driver.run(n, batch) for n, batch in enumerate(batches)]
    packs_held = [o.report.intermediates for o in outcomes]
    rows_held = [o.report.state_rows - o.report.intermediates for o in outcomes]
    # A row is stored for each of its edges, and needed for 24 + 2 us: that is four batches.
    assert max(rows_held) <= 4 * 6 * 4
    assert rows_held[-1] == rows_held[-2]
    if isinstance(strategy, AutoThree):  # which keeps some for a while, for reasons of its own
        assert max(packs_held) <= 4 * 6 * 2
    else:
        assert 0 < packs_held[-1] <= max(packs_held[8:]) <= max(packs_held[:8])
    # An oracle of few batches is enough: nothing reaches farther.
    few = answers(question, [tables_of(b, spec) for b in batches[:8]])
    assert [o.rows for o in outcomes[:8]] == [a.rows for a in few]
    totals = {o.rows.total() for o in outcomes[5:]}
    assert totals == {few[7].rows.total()} != {0}


# Dealing ---------------------------------------------------------------------------------------

HOT = 77


@examples(25)
@given(
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=3),
)
def test_a_hot_keys_rows_are_dealt_out_evenly(
    tmp_path_factory: pytest.TempPathFactory, instances: int, tasks: list[tuple[int, int]]
) -> None:
    """Tasks have so many rows of a hot key, and so many of a key of their own each."""
    _, spec = whole_spec(CHAIN)
    driver = ThreeDriver(tmp_path_factory.mktemp("deal"), spec, Setup(AutoThree(), instances))
    arriving = [
        rows(spec, 1, range(hot + rest), [HOT] * hot + list(range(rest)), range(hot + rest))
        for hot, rest in tasks
    ]
    runs = driver.begun(0, [[], arriving, []]).new_runs()
    edge = spec.edge(0, 1)
    assert edge is not None
    seen: Counter[int] = Counter()
    for run in (r for r in runs if r.segment.side == "s-rs"):
        read = partial(read_segment, driver.query.folder, time_index=0)
        reader = SegmentReader(spec, BatchSegments((run,), ()), read)
        dealt = []
        for i in range(instances):
            hands = [bound.columns[1] for bound in reader.new_rows(1, edge, (i, instances))]
            keys = [key for hand in hands for key in hand[2].to_pylist()]
            seen.update(n for hand in hands for n in hand[3].to_pylist())
            dealt.append((len(keys), keys.count(HOT)))
        for counts in zip(*dealt, strict=True):
            assert max(counts) - min(counts) <= 1
    assert seen == Counter(n for hot, rest in tasks for n in range(hot + rest))
