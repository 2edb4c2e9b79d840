"""What TriJoin's paper says of its schemes, counted: who gets which rows (figures 1, 4, 5), what a
pack saves (section 3.3), what is compared (section 4), and that nobody waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest

from skewless.engine.operator import Batch as EngineBatch
from skewless.operators.three_way.duties import members
from skewless.operators.three_way.packs import PROBED_PACKS, PackKind, kinds_of
from skewless.operators.three_way.spec import ThreeSpec
from skewless.operators.three_way.strategies import RunningStrategy, ThreeStrategy, Tree, TriJoin
from skewless.operators.three_way.tally import Met, hops_in
from skewless.operators.three_way.trijoin import makers_of
from tests.operators.three_way.driver import Batch, Setup, ThreeDriver
from tests.operators.three_way.test_parts import CHAIN, CYCLE, rows, whole_spec

KEYS = {CHAIN: (1, 2, 1), CYCLE: (2, 2, 2)}  # how many columns of each stream are compared
R, S, T = range(3)


class Watched(ThreeDriver):
    """Notes what new rows have met on every hop, step by step."""

    def hops(self, batch_id: int, batch: Batch) -> list[Met]:
        seen: list[Met] = []

        def observe(_: RunningStrategy, batch: EngineBatch) -> Sequence[object]:
            for step in range(len(batch.reports)):
                seen.extend(hops_in(batch.received(step)))
            return ()

        with mock.patch.object(type(self.coordinator.running), "observe", observe):
            self.last = self.run(batch_id, batch)
        return seen


def compared(hops: list[Met], new: int, hop: tuple[int, int]) -> int:
    return sum(met.candidates for met in hops if (met.new, met.hop) == (new, hop))


def arriving(spec: ThreeSpec, shape: Sequence[tuple[int, int]], *counts: int) -> Batch:
    """So many rows of r, s and t at once, all with the same keys: every pair fits."""
    widths = KEYS[tuple(shape)]
    return [
        [rows(spec, x, [0] * n, *([[1] * n] * width))] if n else []
        for x, (n, width) in enumerate(zip(counts, widths, strict=True))
    ]


def began(
    tmp_path: Path, shape: Sequence[tuple[int, int]], strategy: ThreeStrategy, instances: int
) -> Watched:
    _, spec = whole_spec(shape)
    return Watched(tmp_path, spec, Setup(strategy, instances))


# Who gets what ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [CHAIN, CYCLE], ids=["chain", "cycle"])
@pytest.mark.parametrize("instances", [3, 4, 7])
def test_a_row_is_sent_to_the_other_two_groups(
    shape: Sequence[tuple[int, int]], instances: int, tmp_path: Path
) -> None:
    """In a cycle nothing else is ever sent: no pair, no pack (figure 4)."""
    driver = began(tmp_path, shape, TriJoin(), instances)
    sizes = [members(group, instances, 3) for group in (R, S, T)]
    for number, stream in enumerate((R, S, T, R, T)):
        counts = [4 if x == stream else 0 for x in (R, S, T)]
        outcome = driver.run(number, arriving(driver.spec, shape, *counts))
        shipped = outcome.report.counters["shipped"]
        if shape is CYCLE or stream != S:
            assert shipped == 4 * (instances - sizes[stream])
        else:
            assert shipped > 4 * (instances - sizes[stream]), "packs go on to the far end"
    assert outcome.rows.total() == 4 * 4 * 8


def test_packs_stay_in_the_group_that_makes_them() -> None:
    _, cycle = whole_spec(CYCLE)
    assert {k.side: makers_of(cycle, k) for k in kinds_of(cycle)} == {
        "r-s": [S], "r-t": [T], "s-r": [R], "s-t": [T], "t-r": [R], "t-s": [S],
    }  # fmt: skip
    _, chain = whole_spec(CHAIN)
    assert {k.side: makers_of(chain, k) for k in kinds_of(chain)} == {"s-r": [R, S], "s-t": [S, T]}


@pytest.mark.parametrize("instances", [4, 8, 9])
def test_the_tree_has_four_groups_and_sends_every_pair(instances: int, tmp_path: Path) -> None:
    """Figure 1: r and s meet, pairs are stored by a group of their own and sent to all of t's."""
    driver = began(tmp_path, CHAIN, Tree(), instances)
    hubs, partners, thirds, pairs = (members(group, instances, 4) for group in range(4))
    outcome = driver.run(0, arriving(driver.spec, CHAIN, 2, 3, 0))
    assert outcome.report.intermediates == 6
    assert outcome.report.counters["shipped"] == 2 * hubs + 3 * partners + 6 * (1 + thirds)
    outcome = driver.run(1, arriving(driver.spec, CHAIN, 0, 0, 5))
    assert outcome.report.counters["shipped"] == 5 * pairs
    assert outcome.rows.total() == 6 * 5


def test_with_subgroups_rows_are_sent_to_one_of_them(tmp_path: Path) -> None:
    """ContRand: all rows have one key, so that half of a group never hears of them."""
    driver = began(tmp_path, CHAIN, Tree(subgroups=2), 16)
    outcome = driver.run(0, arriving(driver.spec, CHAIN, 2, 3, 0))
    assert outcome.report.counters["shipped"] == 2 * 2 + 3 * 2 + 6 * (1 + 2)
    outcome = driver.run(1, arriving(driver.spec, CHAIN, 0, 0, 5))
    assert outcome.report.counters["shipped"] == 5 * 2
    assert outcome.rows.total() == 6 * 5


# What a pack saves -----------------------------------------------------------------------------


@pytest.mark.parametrize(("packing", "held"), [(True, 1), (False, 4)])
def test_the_example_of_the_symmetric_scheme(packing: bool, held: int, tmp_path: Path) -> None:
    """A row s with r1 … r4: one pack or four pairs, and so many comparisons with a new t."""
    driver = began(tmp_path, CYCLE, TriJoin(packing), 3)
    driver.run(0, arriving(driver.spec, CYCLE, 4, 0, 0))
    assert driver.run(1, arriving(driver.spec, CYCLE, 0, 1, 0)).report.intermediates == held
    hops = driver.hops(2, arriving(driver.spec, CYCLE, 0, 0, 1))
    assert compared(hops, PROBED_PACKS, (T, S)) == held
    assert driver.last.rows.total() == 4


@pytest.mark.parametrize(("packing", "sent"), [(True, 1), (False, 3)])
def test_the_example_of_the_semi_symmetric_scheme(packing: bool, sent: int, tmp_path: Path) -> None:
    """A row s with r1, r2, r3: n_t messages and |K_T| comparisons for a pack, three times as many
    for three pairs."""
    instances, stored_t, groups_t = 6, 5, 2
    driver = began(tmp_path, CHAIN, TriJoin(packing), instances)
    driver.run(0, arriving(driver.spec, CHAIN, 3, 0, stored_t))
    hops = driver.hops(1, arriving(driver.spec, CHAIN, 0, 1, 0))
    assert driver.last.report.counters["shipped"] == 1 * 4 + sent * groups_t
    # Once for the triples, and once by those who hold t, for the packs that they keep.
    assert compared(hops, S, (S, T)) == sent * stored_t + stored_t
    assert driver.last.rows.total() == 3 * stored_t


# What is compared ------------------------------------------------------------------------------


@pytest.mark.parametrize(("packing", "on_the_way"), [(True, 2), (False, 6)])
def test_equation_1(packing: bool, on_the_way: int, tmp_path: Path) -> None:
    """A new r is compared with the packs of s and t, two hubs with three partners each; they are
    fewer than the pairs, which is all that TriJoin without packs has."""
    driver = began(tmp_path, CYCLE, TriJoin(packing), 3)
    driver.run(0, arriving(driver.spec, CYCLE, 0, 0, 3))
    driver.run(1, arriving(driver.spec, CYCLE, 0, 2, 0))
    hops = driver.hops(2, arriving(driver.spec, CYCLE, 1, 0, 0))
    assert compared(hops, PROBED_PACKS, (R, S)) == on_the_way
    assert compared(hops, PROBED_PACKS, (R, T)) == 0
    assert driver.last.rows.total() == 6


def test_equation_2(tmp_path: Path) -> None:
    """A new s of a chain: |K_R| + |K_T|, however many of r it meets."""
    driver = began(tmp_path, CHAIN, TriJoin(), 1)
    driver.run(0, arriving(driver.spec, CHAIN, 4, 0, 3))
    hops = driver.hops(1, arriving(driver.spec, CHAIN, 0, 1, 0))
    assert compared(hops, S, (S, R)) == 4
    assert compared(hops, S, (S, T)) == 3 + 3, "for the triples, and for packs of s and t"


def test_equation_3(tmp_path: Path) -> None:
    """BiStream + Tree: |K_S| + |pairs of r| · |K_T| for a new r, |K_R| + |pairs of s| · |K_T| for a
    new s, and all pairs of r and s for a new t."""
    driver = began(tmp_path, CHAIN, Tree(), 4)
    driver.run(0, arriving(driver.spec, CHAIN, 2, 3, 5))
    of_r = driver.hops(1, arriving(driver.spec, CHAIN, 1, 0, 0))
    assert (compared(of_r, R, (R, S)), compared(of_r, S, (S, T))) == (3, 3 * 5)
    of_s = driver.hops(2, arriving(driver.spec, CHAIN, 0, 1, 0))
    assert (compared(of_s, S, (S, R)), compared(of_s, S, (S, T))) == (3, 3 * 5)
    of_t = driver.hops(3, arriving(driver.spec, CHAIN, 0, 0, 1))
    assert compared(of_t, PROBED_PACKS, (T, S)) == 3 * 4


# Who waits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [CHAIN, CYCLE], ids=["chain", "cycle"])
def test_nobody_waits_in_trijoin_and_all_do_in_the_tree(
    shape: Sequence[tuple[int, int]], tmp_path: Path
) -> None:
    for strategy, steps in ((TriJoin(), ["join"]), (Tree(), ["pairs", "join"])):
        driver = began(tmp_path / repr(strategy), shape, strategy, 4)
        assert [s.name for s in driver.steps(0, arriving(driver.spec, shape, 1, 1, 1))] == steps


def test_a_group_of_the_tree_works_in_one_of_the_two_joins(tmp_path: Path) -> None:
    driver = began(tmp_path, CHAIN, Tree(), 4)
    seen: list[list[int]] = []

    def observe(_: RunningStrategy, batch: EngineBatch) -> Sequence[object]:
        seen.extend([r.load.rows for r in batch.received(step)] for step in (0, 1))
        return ()

    with mock.patch.object(type(driver.coordinator.running), "observe", observe):
        driver.run(0, arriving(driver.spec, CHAIN, 2, 3, 5))
    # The hub is s: its group gets r; r's group gets s; the pairs' gets t; t's gets pairs.
    assert seen == [[2, 3, 0, 0], [0, 0, 0, 5]]


def test_triples_whose_pair_is_there_come_first(tmp_path: Path) -> None:
    """A triple does not wait for the pairs that are made in the same batch."""

    class Ordered(Watched):
        def outcome(self, ran: object) -> object:
            return ran

    _, spec = whole_spec(CYCLE)
    driver = Ordered(tmp_path, spec, Setup(TriJoin(), 1))
    driver.run(0, arriving(spec, CYCLE, 1, 1, 0))
    new = [
        [rows(spec, R, [0], [2], [2])],
        [rows(spec, S, [0], [2], [2])],
        [rows(spec, T, [0, 0], [1, 2], [1, 2])],
    ]
    found = driver.run(1, new).results
    assert found.num_rows == 2
    keys = found.column(spec.output_schema().get_field_index("0.2")).to_pylist()
    assert keys == [1, 2]


def test_the_pairs_of_the_tree_are_stored_under_what_the_third_stream_finds() -> None:
    assert Tree().intermediates(whole_spec(CHAIN)[1]) == f"pairs, {PackKind(S, R).side}"
