"""The figures an instance reports, against counting by hand."""

from __future__ import annotations

import tempfile
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.counting import heaviest_keys
from skewless.arrays.types import HASH_MAX, frozen
from skewless.placement.balancing import NoBalancing
from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.placement.units import slot_bounds, slot_ends, slot_of
from tests.chaos import Chaos
from tests.driver import Driver, Setup
from tests.strategies import Case, cases, examples

SETUPS = st.builds(
    Setup,
    st.sampled_from([Hash(), ContRand(2), Broadcast(), NoBalancing()])
    | st.builds(Chaos, seed=st.integers(0, 99)),
    st.integers(1, 5),
    st.integers(1, 9),
)


@examples(60)
@given(cases(batches_min=2), SETUPS)
def test_slots_and_keys_apart_add_up_to_the_whole(case: Case, setup: Setup) -> None:
    with tempfile.TemporaryDirectory() as root:
        driver = Driver(root, case.spec, setup)
        for number, batch in enumerate(case.batches):
            report = driver.run(number, batch).report
            assert report is not None
            assert report.slots is not None
            assert report.key_figures is not None
            assert len(report.slots) == setup.slots
            own = [i for i, key in enumerate(report.keys) if key.isolated]
            for name in ("pairs_left", "pairs_right", "matches", "time_left_ms"):
                apart = getattr(report.key_figures, name)[own].sum()
                whole = getattr(report.slots, name).sum() + apart
                if name == "matches":
                    assert whole == pytest.approx(report.matches)
                assert whole >= apart >= 0
            pairs = sum(
                getattr(report.slots, f"pairs_{side}").sum()
                + getattr(report.key_figures, f"pairs_{side}")[own].sum()
                for side in ("left", "right")
            )
            assert pairs == sum(load.pairs for load in report.instances)
            assert all(key.slot == slot_of(key.hash, setup.slots) for key in report.keys)


@examples(60)
@given(cases(batches_min=2), st.integers(1, 5), st.integers(1, 9), st.integers(0, 99))
def test_figures_of_slots_and_keys_do_not_depend_on_where_they_are(
    case: Case, instances: int, slots: int, seed: int
) -> None:
    """One instance that does everything sees what many under changing placements see together."""
    seen = []
    for setup in (Setup(NoBalancing(), 1, slots), Setup(Chaos(seed=seed), instances, slots)):
        with tempfile.TemporaryDirectory() as root:
            driver = Driver(root, case.spec, setup)
            totals: list[Counter[tuple[str, int]]] = []
            for number, batch in enumerate(case.batches):
                report = driver.run(number, batch).report
                assert report is not None
                assert report.slots is not None
                assert report.key_figures is not None
                found: Counter[tuple[str, int]] = Counter()
                for name in ("probing_left", "probing_right", "pairs_left", "pairs_right",
                             "stored_left", "stored_right"):  # fmt: skip
                    values = getattr(report.slots, name).copy()
                    for i, key in enumerate(report.keys):
                        if key.isolated:
                            values[key.slot] += getattr(report.key_figures, name)[i]
                    for slot, value in enumerate(values):
                        found[name, slot] = round(value)
                totals.append(found)
            seen.append(totals)
    assert seen[0] == seen[1]


@examples(30)
@given(cases(batches_min=2), st.integers(1, 4))
def test_all_keys_together_are_all_there_is(case: Case, instances: int) -> None:
    """Where all keys are told, theirs is all the work, key by key what one instance alone tells."""
    seen = []
    for n in (1, instances):
        told = []
        with tempfile.TemporaryDirectory() as root:
            driver = Driver(root, case.spec, Setup(NoBalancing(keys_watched="all"), n, 9))
            for number, batch in enumerate(case.batches):
                report = driver.run(number, batch).report
                assert report is not None
                assert report.slots is not None
                assert report.key_figures is not None
                keys = report.key_figures
                for name in ("probing_left", "probing_right", "pairs_left", "pairs_right"):
                    assert getattr(keys, name).sum() == getattr(report.slots, name).sum()
                told.append([key.hash for key in report.keys])
                told += [keys.stored_left.tolist(), keys.pairs_right.tolist()]
        seen.append(told)
    assert seen[0] == seen[1]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=40), st.integers(0, 6))
def test_the_heaviest_keys_are_found(rows: list[tuple[int, int]], most: int) -> None:
    rows = sorted(rows)
    hashes = np.array([h for h, _ in rows], np.uint64)
    pairs = np.array([p for _, p in rows], np.int64)
    weights: Counter[int] = Counter()
    for h, p in rows:
        weights[h] += 1 + p
    found = heaviest_keys(frozen(hashes), frozen(pairs), most).tolist()
    assert len(set(found)) == len(found) == min(most, len(weights))
    lightest = min((weights[h] for h in found), default=10**9)
    assert all(weights[h] <= lightest for h in weights if h not in found)


@given(st.integers(0, HASH_MAX), st.integers(1, 70_000))
def test_a_hash_lies_between_the_ends_of_its_slot(key: int, slots: int) -> None:
    low, high = slot_bounds(slot_of(key, slots), slot_of(key, slots), slots)
    assert low <= key <= high


def test_ends_of_slots_leave_no_gap() -> None:
    low, high = slot_ends(7)
    assert low[0] == 0
    assert int(high[-1]) == HASH_MAX
    assert (low[1:] == high[:-1] + np.uint64(1)).all()
