"""The virtual cluster: its arithmetic against loops over rows, and what strategies make of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from skewless.arrays.types import SIDES
from skewless.errors import ArgumentError
from skewless.placement.balancing.auto import Auto
from skewless.placement.balancing.base import Balancing
from skewless.placement.balancing.changes import Change, Move, Split
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.none import NoBalancing
from skewless.placement.balancing.view import View
from skewless.placement.figures import WatchedKey
from skewless.placement.places import IsolatedKey
from skewless.placement.routing import Broadcast, ContRand, Hash, Routing
from skewless.placement.strategy import PlacementStrategy
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.costs import PAUSE_MS, Costs
from skewless.simulation.division import Division, Work
from skewless.simulation.measuring import Keys
from skewless.simulation.queues import Queues
from skewless.simulation.report import Summary
from skewless.simulation.workloads import Batch, HotKey, Zipf

ROUTINGS: list[PlacementStrategy] = [
    Hash(), ContRand(groups=2), Broadcast(), NoBalancing(), Auto(floor_ms=0, patience=1)
]  # fmt: skip
PLAIN = Costs(row_ms=1.0, pair_ms=0.0, stored_ms=0.0, sent_ms=0.0, migrated_ms=0.0)


def batch(**counts: tuple[int, int]) -> Batch:
    keys = np.array([int(name[1:]) for name in counts])
    left, right = (np.array([pair[side] for pair in counts.values()]) for side in range(2))
    return Batch(keys, left, right)


def tiny() -> list[Batch]:
    return [
        batch(k1=(3, 2), k2=(0, 4)), batch(k3=(1, 1), k1=(2, 0)), batch(k2=(5, 1), k9=(1, 7)),
        batch(k1=(1, 1)),
    ]  # fmt: skip


def pairs_by_nested_loops(batches: list[Batch], window: int) -> list[int]:
    """Left rows of a batch are stored before its right rows probe."""
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    found = []
    for now, new in enumerate(batches):
        left = [row for row in left if now - row[0] <= window]
        right = [row for row in right if now - row[0] <= window]
        mine, theirs = (
            [(now, int(k)) for k, n in zip(new.keys, side, strict=True) for _ in range(n)]
            for side in (new.left, new.right)
        )
        pairs = sum(a[1] == b[1] for a, b in product(mine, right))
        left += mine
        found.append(pairs + sum(a[1] == b[1] for a, b in product(theirs, left)))
        right += theirs
    return found


@pytest.mark.parametrize("strategy", ROUTINGS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("window", [1, 2, 9])
def test_pairs_are_those_of_nested_loops(strategy: PlacementStrategy, window: int) -> None:
    cluster = VirtualCluster(strategy, 3, window_batches=window)
    told = cluster.run(tiny())
    assert [b.pairs for b in told] == pytest.approx(pairs_by_nested_loops(tiny(), window))


@pytest.mark.parametrize("strategy", ROUTINGS, ids=lambda s: type(s).__name__)
def test_work_is_the_same_whoever_does_it(strategy: PlacementStrategy) -> None:
    stream = Zipf(keys=300, left=1.5, right=0.5, rows_left=5000, rows_right=3000)
    batches = [stream.batch(i) for i in range(8)]
    hashed = VirtualCluster(Hash(), 1, window_batches=3).run(batches)
    told = VirtualCluster(strategy, 5, window_batches=3).run(batches)
    for mine, theirs in zip(told, hashed, strict=True):
        assert mine.rows == theirs.rows
        assert mine.pairs == pytest.approx(theirs.pairs)
        assert mine.stored_rows == theirs.stored_rows
        assert mine.probes - mine.extra_probes == pytest.approx(theirs.probes)


@pytest.mark.parametrize(
    ("routing", "copies"), [(Hash(), 1), (ContRand(groups=2), 2), (Broadcast(), 4)]
)
def test_cuts_of_stored_rows_are_probed_by_all(routing: Routing, copies: int) -> None:
    told = VirtualCluster(routing, 4).step(tiny()[0])
    assert told.probes == copies * told.rows
    assert told.extra_probes == (copies - 1) * told.rows


def test_a_key_apart_is_divided_as_its_cuts_say() -> None:
    own = IsolatedKey(1 << 63, "7", 2, (0, 1, 2), (3,), "probers")
    stored = IsolatedKey(1 << 63, "7", 2, (0, 1), (1, 2), "stored", "stored")
    hashes = np.array([1 << 63], np.uint64)
    work = Work(*(np.array([float(n)]) for n in (7, 2, 9, 5, 35, 32)))
    start = NoBalancing().start(4, 4)
    probers = Division(start.with_isolated(own).table(""), hashes).loads(work)
    assert probers.probing_left.tolist() == [2, 2, 3, 0]
    assert probers.pairs_left.tolist() == [10, 10, 15, 0]
    assert probers.pairs_right.tolist() == [0, 0, 0, 32]
    assert probers.stored_left.tolist() == [0, 0, 0, 9]
    cut = Division(start.with_isolated(stored).table(""), hashes).loads(work)
    assert cut.probing_left.tolist() == [7, 7, 0, 0]
    assert cut.pairs_left.tolist() == pytest.approx([14, 21, 0, 0])
    assert cut.pairs_right.tolist() == pytest.approx([0, 16, 16, 0])
    assert cut.stored_right.tolist() == pytest.approx([2, 3, 0, 0])


@pytest.mark.parametrize("scan", ["slot", "instance"])
def test_coarser_scans_compare_with_more(scan: str) -> None:
    costs = Costs(scan=scan)  # type: ignore[arg-type]
    told = VirtualCluster(Hash(), 1, slots=1, costs=costs).run(tiny()[:2])
    # All in one slot: 3 left and 6 right rows; then 3 and 1, with 3 and 6 stored.
    assert [b.pairs for b in told] == [6 * 3, 3 * 6 + 1 * 6]


def test_backlogs_carry_over() -> None:
    queues = Queues(2, interval_ms=10.0)
    first = queues.serve(np.array([4.0, 1.0]), np.array([16.0, 4.0]))
    assert (first.mean_ms, first.max_ms) == ((4 * 8 + 1 * 2) / 5, 16.0)
    assert queues.backlog_ms.tolist() == [6, 0]
    second = queues.serve(np.array([1.0, 3.0]), np.array([2.0, 12.0]))
    assert (second.mean_ms, second.max_ms) == ((7 + 3 * 6) / 4, 12.0)
    assert queues.backlog_ms.tolist() == [0, 2]
    idle = queues.serve(np.zeros(2), np.zeros(2))
    assert (idle.mean_ms, idle.p99_ms, idle.max_ms) == (0, 0, 0)


def test_quantiles_are_of_rows() -> None:
    latency = Queues(2, 1000.0).serve(np.array([990.0, 10.0]), np.array([10.0, 100.0]))
    # By 10 ms all of the first and a tenth of the second instance's rows are done: 991 of 1000.
    assert latency.p99_ms == pytest.approx(990 / (99 + 0.1), rel=1e-6)


def test_throughput_is_that_of_the_busiest() -> None:
    cluster = VirtualCluster(Hash(), 4, costs=PLAIN)
    told = cluster.run(tiny())[0]
    assert told.rows_per_s == 1000 * told.rows / told.busiest_ms
    assert told.busiest_over_mean == told.busiest_ms / (told.rows / 4)


class Once(Balancing):
    """Moves one slot, then one key, and nothing else."""

    def wants_change(self, view: View) -> bool:
        return True

    def propose(self, view: View) -> Iterator[Change]:
        heavy = max(range(len(view.keys)), key=lambda i: view.key_figures.probing_left[i])
        key = view.keys[heavy]
        source = int(view.instance_of[key.slot])
        if view.batch_id == 0:
            yield Move(key.slot, source, 1 - source, "first")
        elif view.batch_id == 1:
            yield Split(
                IsolatedKey(key.hash, key.value, key.slot, (0, 1), (0, 1)), source, "second"
            )


def test_migrated_rows_are_counted_and_paid_for() -> None:
    costs = Costs(row_ms=1.0, pair_ms=0.0, stored_ms=0.0, sent_ms=0.0, migrated_ms=0.5)
    cluster = VirtualCluster(Once(window=1, patience=1, cooldown=0), 2, slots=2, costs=costs)
    rows = batch(k1=(60, 40))
    first = cluster.step(rows)
    assert [d.accepted for d in first.decisions] == [False]  # one load elsewhere is no gain
    second = cluster.step(rows)
    assert [d.accepted for d in second.decisions] == [True]
    assert second.migrated_rows == second.decisions[0].rows == 100  # half of 120 and 80
    third = cluster.step(rows)
    assert third.isolated_keys == 1
    assert cluster.service_ms.tolist() == [50 + 0.5 * 100, 50 + 0.5 * 100]
    assert third.migrated_rows == 0
    assert cluster.step(rows).busiest_ms == 50


def test_who_passes_rows_on_stands_still_and_all_its_rows_wait() -> None:
    prices = {"row_ms": 1.0, "pair_ms": 0.0, "stored_ms": 0.0, "sent_ms": 0.0, "migrated_ms": 0.5}
    strategy = Once(window=1, patience=1, cooldown=0)
    cluster = VirtualCluster(strategy, 2, slots=2, costs=Costs(pause_ms=7.0, **prices))
    rows = batch(k1=(60, 40))
    assert [cluster.step(rows).stopped_ms for _ in range(2)] == [0, 0]
    third = cluster.step(rows)  # half of 200 stored rows have moved from one to the other
    assert third.stopped_ms == 7 + 0.5 * 100
    assert cluster.service_ms.tolist() == [50 + 57, 50 + 57]
    assert (third.latency.mean_ms, third.latency.max_ms) == (57 + 25, 57 + 50)
    assert third.rows_per_s == 1000 * 100 / 107
    assert cluster.step(rows).stopped_ms == 0


@pytest.mark.parametrize("paper", [True, False])
def test_as_published_instances_stop_for_what_moves(paper: bool) -> None:
    """Nobody has to give a price for it."""
    rows = batch(**{f"k{n}": (400, 400) for n in range(8)}, k8=(4000, 4000))
    strategy = FastJoin(theta=1.1, load_min=0, paper=paper, keys_watched="all")
    told = VirtualCluster(strategy, 3).run([rows] * 12)
    moved = [b.migrated_rows > 0 for b in told]
    assert any(moved)
    stopped = [b.stopped_ms > PAUSE_MS for b in told]
    assert stopped == [False, *(paper and now for now in moved[:-1])]


def test_a_price_of_a_pause_counts_for_all() -> None:
    for strategy in (FastJoin(paper=True), FastJoin(), Hash()):
        assert VirtualCluster(strategy, 3, costs=Costs(pause_ms=7.0)).costs.pause_ms == 7.0


def test_a_pause_is_never_negative() -> None:
    with pytest.raises(ArgumentError, match="`pause_ms` must be"):
        Costs(pause_ms=-1)


def test_an_instance_is_one_partition_where_it_is_scanned_as_a_whole() -> None:
    """LS-Stream's degree (its eqs. 7 to 14), counted by hand from the rows of each instance."""
    stream = Zipf(keys=50, left=0.8, right=0.8, rows_left=400, rows_right=400)
    cluster = VirtualCluster(Hash(), 4, 64, Costs(scan="instance"), window_batches=3)
    told = [cluster.step(stream.batch(i)) for i in range(2)]
    keys = Keys(stream.ids, 64, 0)
    home = np.empty(50, np.int64)
    home[keys.order] = keys.slots // 16
    first, second = (
        [np.bincount(home, side, 4) for side in (b.left, b.right)]
        for b in (stream.batch(0), stream.batch(1))
    )
    stored = first[0] + first[1] + second[0] + second[1]
    pairs = second[0] * first[1] + second[1] * (first[0] + second[0])
    loads = 0.5 * (stored + second[0] + second[1]) + 0.5 * pairs
    deviation = max(loads.max() - loads.mean(), loads.mean() - loads.min()) / loads.mean()
    assert told[1].deviation == pytest.approx(deviation)
    assert cluster.probing.tolist() == (second[0] + second[1]).tolist()
    assert not cluster.stopped_ms.any()


def test_all_keys_are_told_if_asked() -> None:
    told: list[tuple[WatchedKey, ...]] = []

    class Listening(Once):
        def wants_change(self, view: View) -> bool:
            told.append(view.keys)
            return False

    rows = Zipf(keys=500, left=1.0, right=1.0, rows_left=2000, rows_right=2000).batch(0)
    for watched in (3, "all"):
        VirtualCluster(Listening(keys_watched=watched), 4).step(rows)  # type: ignore[arg-type]
    assert len(told[0]) == 4 * 3
    assert len(told[1]) == int(((rows.left + rows.right) > 0).sum())
    assert {key.hash for key in told[0]} < {key.hash for key in told[1]}


def test_the_same_seed_tells_the_same() -> None:
    def run(seed: int) -> list[object]:
        stream = Zipf(keys=500, left=1.2, right=1.2, rows_left=9000, rows_right=9000, seed=1)
        cluster = VirtualCluster(Auto(floor_ms=0), 4, seed=seed, window_batches=3)
        return [b.to_json() for b in cluster.run(stream.batch(i) for i in range(5))]

    assert run(0) == run(0)
    assert run(0) != run(1)


def stream_of(skew: float, instances: int, keys: int = 20_000, **changes: object) -> Zipf:
    rows = 60_000 * instances
    return Zipf(
        keys=keys, left=skew, right=skew, rows_left=rows, rows_right=rows, **changes  # type: ignore[arg-type]
    )  # fmt: skip


def test_hashing_skewed_keys_is_uneven() -> None:
    stream = stream_of(1.5, 8)
    told = VirtualCluster(Hash(), 8).run(stream.batch(i) for i in range(3))
    assert min(b.busiest_over_mean for b in told) > 4


@pytest.mark.parametrize(("skew", "instances"), [(0.6, 8), (1.0, 16), (1.5, 8), (2.0, 32)])
def test_auto_is_even_three_batches_after_a_change(skew: float, instances: int) -> None:
    stream = HotKey.on(stream_of(skew, instances, reshuffled=(12,)), share=0.1, since=6)
    cluster = VirtualCluster(Auto(), instances, window_batches=4)
    told = cluster.run(stream.batch(i) for i in range(18))
    for change in (0, 6, 12):
        assert max(b.busiest_over_mean for b in told[change + 3 : change + 6]) <= 1.10
    assert Summary.of(told).extra_probes_per_row == pytest.approx(0, abs=0.05)


def test_auto_leaves_uniform_data_alone() -> None:
    stream = stream_of(0.0, 8, keys=80_000)
    told = VirtualCluster(Auto(), 8).run(stream.batch(i) for i in range(5))
    assert sum(len(b.decisions) for b in told) == 0


def test_work_units_of_all_keys_have_both_sides() -> None:
    cluster = VirtualCluster(Auto(floor_ms=0), 4)
    stream = stream_of(1.5, 4, keys=100)
    cluster.run(stream.batch(i) for i in range(4))
    assert cluster.placement is not None
    for own in cluster.placement.isolated:
        for side in SIDES:
            assert own.ways(side) >= 1


def test_senseless_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="instances"):
        VirtualCluster(Hash(), 0)
    with pytest.raises(ArgumentError, match="window_batches"):
        VirtualCluster(Hash(), 2, window_batches=0)
    with pytest.raises(ArgumentError, match="interval_ms"):
        Costs(interval_ms=0)
