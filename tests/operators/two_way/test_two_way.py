"""The two-way join against both oracles: row by row, batch by batch, however it is cut and run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays import columns, runs
from skewless.arrays.columns import Columns
from skewless.arrays.types import HASH_MAX
from skewless.operators.two_way import lookup
from skewless.operators.two_way import work as two_way
from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.placement.units import Cut
from skewless.state.segments import SegmentInfo
from tests.driver import Driver, Setup, assert_right
from tests.strategies import ON_FORMS, Case, Condition, cases, examples, setups

FORMS = [pytest.param(form, id=" and ".join(map(repr, form))) for form in ON_FORMS]


def run_of(hashes: list[int]) -> two_way.Run:
    """A run whose only column numbers its rows."""
    rows = len(hashes)
    numbers = pa.array(range(rows), pa.int64())
    columns = Columns([numbers])
    return two_way.Run(np.array(hashes, np.uint64), np.zeros(rows, np.int64), columns, 0)


@pytest.mark.parametrize(
    ("first", "last", "kept"),
    [(0, HASH_MAX, 5), (0, 5, 3), (5, 7, 3), (6, 6, 0), (7, HASH_MAX, 2), (6, HASH_MAX - 1, 1)],
)
def test_a_unit_takes_its_hashes_both_ends_included(first: int, last: int, kept: int) -> None:
    hashes = [0, 5, 5, 7, HASH_MAX]
    expected = [number for number, h in enumerate(hashes) if first <= h <= last]
    clipped = two_way.clip(run_of(hashes), first, last)
    assert len(clipped) == len(expected) == kept
    assert clipped.columns[0].to_pylist() == expected
    for h in hashes:
        segment = SegmentInfo("", "left", 1, 0, 0, h, h, 0, 0)
        assert segment.touches(first, last) == (first <= h <= last)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 2, 6, 7, 100])
def test_the_parts_of_a_unit_are_equal_and_make_up_the_whole(rows: int, parts: int) -> None:
    taken = [two_way.part_of(run_of([7] * rows), Cut(p, parts)) for p in range(parts)]
    assert [n for part in taken for n in part.columns[0].to_pylist()] == list(range(rows))
    assert max(map(len, taken)) - min(map(len, taken)) <= 1


def check(case: Case, setup: Setup) -> None:
    with tempfile.TemporaryDirectory() as root:
        assert_right(Driver(root, case.spec, setup).run_all(case.batches), case.answers())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_condition(form: tuple[Condition, ...]) -> None:
    examples(4)(given(cases(form), setups())(check))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_condition_at_length(form: tuple[Condition, ...]) -> None:
    examples(300)(given(cases(form), setups())(check))()


def check_strategies_agree(case: Case, instances: int, slots: int, groups: int) -> None:
    seen = []
    for routing in (Hash(), ContRand(groups), Broadcast()):
        with tempfile.TemporaryDirectory() as root:
            driver = Driver(root, case.spec, Setup(routing, instances, slots))
            seen.append([outcome.rows for outcome in driver.run_all(case.batches)])
    assert seen[0] == seen[1] == seen[2]


def check_restarts(case: Case, first: Setup, later: list[Setup | None]) -> None:
    """Between any two batches the query may be stopped and started again otherwise."""
    outcomes = []
    with tempfile.TemporaryDirectory() as root:
        driver = Driver(root, case.spec, first)
        for number, batch in enumerate(case.batches):
            outcomes.append(driver.run(number, batch))
            if later[number] is not None:
                driver.reopen(later[number])
                assert driver.query.is_done(number)
                assert driver.run(number, batch).report is None
    assert_right(outcomes, case.answers())


def check_repeated_tasks(case: Case, setup: Setup) -> None:
    with tempfile.TemporaryDirectory() as root:
        driver = Driver(root, case.spec, setup)
        assert_right(driver.run_all(case.batches, twice=True), case.answers())


def check_tiny_pieces(case: Case, setup: Setup, piece: int) -> None:
    """Chunks of pairs, batches of output, segments of input and merging, at their smallest."""
    with (
        mock.patch.object(two_way, "PAIRS_PER_CHUNK", piece),
        mock.patch.object(two_way, "ROWS_PER_OUTPUT", piece + 1),
        mock.patch.object(lookup, "PAIRS_PER_CHUNK", piece),
        mock.patch.object(lookup, "CANDIDATES_FIRST", 1),
        mock.patch.object(runs, "SEGMENTS_MERGED_FROM", 1 + piece % 3),
        mock.patch.object(columns, "PIECE_BYTES", 40 * piece),
    ):
        check(case, setup)


PROPERTIES: dict[str, tuple[Callable[..., None], tuple[st.SearchStrategy[Any], ...]]] = {
    "strategies agree": (
        check_strategies_agree,
        (cases(), st.integers(1, 6), st.integers(1, 9), st.integers(1, 5)),
    ),
    "restarts": (
        check_restarts,
        (cases(batches_min=2), setups(), st.lists(st.none() | setups(), min_size=5, max_size=5)),
    ),
    "repeated tasks": (check_repeated_tasks, (cases(), setups())),
    "tiny pieces": (check_tiny_pieces, (cases(), setups(), st.integers(1, 5))),
    "null times": (check, (cases(null_times=True), setups())),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_property(name: str) -> None:
    property_, strategies = PROPERTIES[name]
    examples(15)(given(*strategies)(property_))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_at_length(name: str) -> None:
    property_, strategies = PROPERTIES[name]
    examples(3000)(given(*strategies)(property_))()
