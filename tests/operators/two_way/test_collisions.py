"""Different keys with equal hashes: where a hash cannot be a bijection, pairs are compared."""

from __future__ import annotations

import tempfile
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from skewless.arrays import keys
from skewless.arrays.types import Ints, SideSpec, UInts
from tests.driver import Driver, Setup, assert_right
from tests.strategies import ON_FORMS, Case, Condition, cases, examples, setups

hash_well = keys.hash_keys


def hash_badly(columns: list[pa.Array], side: SideSpec, cells: Ints | None) -> UInts:
    """Sixteen hashes in all: four for the equality columns, four for cells, and all of them the
    first or the last hash of a slot. The cells that a row probes are neighbours and keep different
    hashes, as the real hash guarantees (a bijection of the cell); without that, a row would probe
    one cell twice."""
    if columns:
        hashes = hash_well(columns, side, None) & np.uint64(3)
    else:
        hashes = np.zeros(0 if cells is None else len(cells), np.uint64)
    if cells is not None:
        hashes = hashes * np.uint64(4) + (cells % 4).astype(np.uint64)
    slot, is_last = hashes >> np.uint64(1), hashes & np.uint64(1)
    return (slot << np.uint64(61)) + is_last * np.uint64((1 << 61) - 1)


EXACT = {"decimal = double"}  # compared as doubles
COMPARED = [
    form
    for form in ON_FORMS
    if len(form) > 1
    or form[0].width is not None
    or any(
        word in form[0].name
        for word in ("string", "binary", "decimal")
        if form[0].name not in EXACT
    )
]


def check_collisions(case: Case, setup: Setup) -> None:
    assert not keys.is_exact(case.spec.left)
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.object(keys, "hash_keys", hash_badly),
    ):
        assert_right(Driver(root, case.spec, setup).run_all(case.batches), case.answers())


@pytest.mark.parametrize("form", COMPARED, ids=lambda form: " and ".join(map(repr, form)))
def test_colliding_keys(form: tuple[Condition, ...]) -> None:
    examples(3)(given(cases(form), setups())(check_collisions))()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", COMPARED, ids=lambda form: " and ".join(map(repr, form)))
def test_colliding_keys_at_length(form: tuple[Condition, ...]) -> None:
    examples(200)(given(cases(form), setups())(check_collisions))()
