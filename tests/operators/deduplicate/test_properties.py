"""Deduplications of every form, however rows are cut into batches and tasks: each batch gives what
a plain loop says."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.keys import is_exact
from skewless.arrays.types import SideSpec, UInts
from skewless.operators import groups
from skewless.operators.deduplicate import operator
from skewless.state import compaction
from tests.operators.deduplicate.driver import (
    Batch,
    DeduplicateDriver,
    Setup,
    Spec,
    answers,
)
from tests.strategies import examples

POOLS: dict[str, tuple[tuple[pa.DataType, tuple[Any, ...]], ...]] = {
    "one key": (),
    "integers": ((pa.int64(), (7, 7, 7, 0, -(2**63), None)),),
    "strings": ((pa.string(), ("a", "a", "", "b", "a\0", None)),),
    "binary": ((pa.binary(), (b"", b"\0", b"\0\0", b"a", None)),),
    "floats": ((pa.float64(), (0.0, -0.0, math.nan, -math.nan, 1.5, math.inf, None)),),
    "decimals": ((pa.decimal128(9, 2), (Decimal("1.00"), Decimal(0), Decimal("-0.01"), None)),),
    "booleans": ((pa.bool_(), (True, False, None)),),
    "strings and integers": (
        (pa.string(), ("a", "b", "", None)),
        (pa.int32(), (1, 2, None)),
    ),
    "integers and floats": ((pa.int64(), (1, 2, None)), (pa.float32(), (0.0, -0.0, math.nan))),
}
# Where a hash cannot be a bijection, keys are compared.
COMPARED = [
    name
    for name, pools in POOLS.items()
    if pools and not is_exact(Spec(tuple(kind for kind, _ in pools), 0, 0).side)
]
hash_well = groups.hash_groups


def hash_badly(columns: list[pa.Array], side: SideSpec, rows: int) -> UInts:
    """Four hashes in all, each the first or the last of a half of all."""
    some = hash_well(columns, side, rows) & np.uint64(3)
    half, is_last = some >> np.uint64(1), some & np.uint64(1)
    return (half << np.uint64(63)) + is_last * np.uint64((1 << 63) - 1)


@dataclass(frozen=True)
class Case:
    spec: Spec
    batches: tuple[Batch, ...]
    setups: tuple[Setup | None, ...]
    """With which setup the query is started again before each batch."""
    twice: bool


@st.composite
def cases(draw: st.DrawFn, form: str) -> Case:
    """Times are a few microseconds around a slowly rising base: many are equal, at the bound, at
    the watermark, or late."""
    pools = POOLS[form]
    spec = Spec(tuple(kind for kind, _ in pools), draw(st.integers(0, 6)), draw(st.integers(0, 5)))
    batches, base = [], 10
    for _ in range(draw(st.integers(1, 6))):
        time = st.integers(base - 6, base + 3) | st.integers(base, base + 1) | st.none()
        row = st.tuples(*(st.sampled_from(pool) for _, pool in pools), time)
        batches.append(draw(st.lists(st.lists(row, max_size=7), min_size=1, max_size=3)))
        base += draw(st.integers(0, 6))
    setups = st.none() | st.builds(Setup, st.integers(1, 4))
    return Case(
        spec, tuple(batches), tuple(draw(setups) for _ in batches), draw(st.booleans())
    )  # fmt: skip


def check(case: Case) -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.object(compaction, "FAN_IN", 2),
    ):
        query = DeduplicateDriver(root, case.spec)
        found = []
        for number, (batch, setup) in enumerate(zip(case.batches, case.setups, strict=True)):
            if setup is not None:
                query.reopen(setup)
            found.append(query.run(number, batch, twice=case.twice))
    assert found == answers(case.spec, case.batches)


def check_collisions(case: Case) -> None:
    with mock.patch.object(operator, "hash_groups", hash_badly):
        check(case)


def each(forms: Any) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("form", list(forms))


@each(POOLS)
def test_any_form(form: str) -> None:
    examples(10)(given(cases(form))(check))()


@each(COMPARED)
def test_colliding_keys(form: str) -> None:
    examples(10)(given(cases(form))(check_collisions))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each(POOLS)
def test_any_form_at_length(form: str) -> None:
    examples(500)(given(cases(form))(check))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each(COMPARED)
def test_colliding_keys_at_length(form: str) -> None:
    examples(300)(given(cases(form))(check_collisions))()


# What is worth a case of its own ------------------------------------------------------------------

KEYED = Spec((pa.string(),), within_us=10, late_us=5)


def ids_of(query: DeduplicateDriver, *batches: Batch) -> list[tuple[int, ...]]:
    first = 0 if query.query.last is None else query.query.last.batch_id + 1
    return [query.run(first + n, batch).ids for n, batch in enumerate(batches)]


@pytest.mark.usefixtures("early_compaction")
def test_ties_go_to_whichever_came_first(tmp_path: Any) -> None:
    """Of one key and time in several tasks and batches, all yet to be decided about."""
    query = DeduplicateDriver(tmp_path, KEYED)
    same = ("a", 100)
    assert ids_of(query, [[], [same, same], [same]], [[same]], [[("b", 99)], [same]]) == [()] * 3
    query.reopen(Setup(3))
    assert ids_of(query, [[same, ("z", 105)]]) == [(0, 4)]
    assert ids_of(query, [[same]], [[("z", 200)]]) == [(), (7,)]


def test_the_bound_is_inclusive(tmp_path: Any) -> None:
    """Up to the bound later is a duplicate; what comes after is a first row again, from which the
    bound counts anew."""
    query = DeduplicateDriver(tmp_path, KEYED)
    rows = [("a", 100), ("a", 105), ("a", 110), ("a", 111), ("a", 121), ("a", 122)]
    assert ids_of(query, [rows], [[("z", 200)]]) == [(0, 3), (5,)]


def test_a_first_row_is_remembered_for_the_bound_and_no_longer(tmp_path: Any) -> None:
    query = DeduplicateDriver(tmp_path, KEYED)
    assert ids_of(query, [[("a", 100)]], [[("b", 105)]], [[("a", 110)]]) == [(), (0,), (1,)]
    assert [s.side for s in query.state.segments].count("kept") == 2
    assert ids_of(query, [[("c", 130)]], [[("a", 130)]]) == [(), ()]
    assert [s.side for s in query.state.segments].count("kept") == 0
    assert ids_of(query, [[("z", 135)]], [[]], [[("z", 300)]]) == [(3, 4), (), (5,)]


def test_state_does_not_grow_with_a_hot_key(tmp_path: Any) -> None:
    """All rows are of one key: one is remembered for every bound of time."""
    query = DeduplicateDriver(tmp_path, KEYED)
    for number in range(40):
        rows = [("hot", 50 * number + i % 50) for i in range(2000)]
        outcome = query.run(number, [rows[:1000], rows[1000:]])
        assert len(outcome.ids) <= 6
        kept = [s.rows for s in query.state.segments if s.side == "kept"]
        assert sum(kept) <= 12
    assert sum(s.rows for s in query.state.segments) < 6000
