"""The two-way join against both oracles: row by row, batch by batch, however it is cut and run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.joining import ingest, two_way
from skewless.routing import Broadcast, ContRand, Hash
from tests.driver import Driver, Setup, assert_right
from tests.strategies import ON_FORMS, Case, Condition, cases, examples, setups

FORMS = [pytest.param(form, id=" and ".join(map(repr, form))) for form in ON_FORMS]


def check(case: Case, setup: Setup) -> None:
    with tempfile.TemporaryDirectory() as root:
        assert_right(Driver(root, case.spec, setup).run_all(case.batches), case.answers())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_condition(form: tuple[Condition, ...]) -> None:
    examples(12)(given(cases(form), setups())(check))()


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
                assert driver.runtime.is_done(number)
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
        mock.patch.object(two_way, "SEGMENTS_MERGED_FROM", 1 + piece % 3),
        mock.patch.object(ingest, "SEGMENT_BYTES_MAX", 40 * piece),
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
    examples(60)(given(*strategies)(property_))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PROPERTIES)
def test_property_at_length(name: str) -> None:
    property_, strategies = PROPERTIES[name]
    examples(3000)(given(*strategies)(property_))()
