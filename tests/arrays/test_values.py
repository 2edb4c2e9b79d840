"""Values that hold others: hashed and compared as plain Python values are, row by row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.values import fold, is_comparable, is_flat, values_equal
from tests.oracle import same
from tests.strategies import examples

LEAVES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, 1, -1, 2**63 - 1],
    pa.float64(): [0.0, -0.0, math.nan, math.copysign(math.nan, -1), 1.5],
    pa.float32(): [0.0, -0.0, math.nan, 1.5],
    pa.string(): ["", "a", "ab"],
    pa.large_string(): ["", "a"],
    pa.binary(): [b"", b"\0", b"\0\0"],
    pa.bool_(): [True, False],
    pa.date32(): [0, 1],
    pa.decimal128(38, 2): [0, 1],
}


def types() -> st.SearchStrategy[pa.DataType]:
    def holding(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        lists = st.tuples(inner, st.sampled_from([pa.list_, pa.large_list]))
        structs = st.lists(inner, max_size=3)
        return lists.map(lambda of: of[1](of[0])) | structs.map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        )

    return st.recursive(st.sampled_from(list(LEAVES)), holding, max_leaves=4)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if kind in LEAVES:
        some = st.sampled_from(pa.array(LEAVES[kind], kind).to_pylist())
    elif pa.types.is_struct(kind):
        some = st.fixed_dictionaries({f.name: values(f.type) for f in kind})
    else:
        some = st.lists(values(kind.value_type), max_size=3)
    return st.none() | some


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, pa.Array, pa.Array]:
    """Two columns of one type, as long as one another; each a slice of something longer."""
    kind = draw(types())
    rows = draw(st.integers(0, 5))
    sides = []
    for _ in range(2):
        before, behind = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        length = before + rows + behind
        made = draw(st.lists(values(kind), min_size=length, max_size=length))
        sides.append(pa.array(made, kind).slice(before, rows))
    return kind, sides[0], sides[1]


def hashes_of(column: pa.Array, kind: pa.DataType) -> list[int]:
    hashes = np.zeros(len(column), np.uint64)
    fold(hashes, column, kind)
    found: list[int] = hashes.tolist()
    return found


def check(kind: pa.DataType, left: pa.Array, right: pa.Array) -> None:
    assert is_comparable(kind)
    a, b = left.to_pylist(), right.to_pylist()
    assert values_equal(left, right, kind).tolist() == list(map(same, a, b))
    of_left, of_right = hashes_of(left, kind), hashes_of(right, kind)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            assert (of_left[i] == of_right[j]) == same(x, y), (x, y)
    taken = left.take(pa.array(range(len(left) - 1, -1, -1), pa.int64()))
    assert hashes_of(taken, kind) == of_left[::-1]


@examples(150)
@given(columns())
def test_nested_values(of: tuple[pa.DataType, pa.Array, pa.Array]) -> None:
    check(*of)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(3000)
@given(columns())
def test_nested_values_at_length(of: tuple[pa.DataType, pa.Array, pa.Array]) -> None:
    check(*of)


def test_what_lies_under_a_null_does_not_count() -> None:
    numbers, mask = pa.array([1, 2, 3, 4]), pa.array([True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), numbers, mask=mask)
    structs = pa.StructArray.from_arrays([numbers[:2]], ["a"], mask=mask)
    for column, value in ((lists, [3, 4]), (structs, {"a": 2})):
        assert column.to_pylist() == [None, value]
        plain = pa.array([None, value], column.type)
        assert hashes_of(column, column.type) == hashes_of(plain, column.type)
        assert values_equal(column, plain, column.type).all()


def test_where_a_list_ends_matters() -> None:
    kind = pa.struct([("a", pa.list_(pa.int64())), ("b", pa.list_(pa.int64()))])
    rows = [{"a": [1, 2], "b": [3]}, {"a": [1], "b": [2, 3]}, {"a": [1, 2, 3], "b": []},
            {"a": [1, 2, 3], "b": None}, {"a": None, "b": [1, 2, 3]}, None]  # fmt: skip
    assert len(set(hashes_of(pa.array(rows, kind), kind))) == len(rows)


def test_where_a_struct_without_fields_stands_matters() -> None:
    kind = pa.struct([("a", pa.struct([])), ("b", pa.struct([]))])
    rows = [{"a": {}, "b": None}, {"a": None, "b": {}}, {"a": {}, "b": {}}, {"a": None, "b": None}]
    assert len(set(hashes_of(pa.array(rows, kind), kind))) == len(rows)


@pytest.mark.parametrize(
    ("kind", "flat", "comparable"),
    [
        (pa.int8(), True, True),
        (pa.struct([("a", pa.list_(pa.date32()))]), False, True),
        (pa.map_(pa.string(), pa.int64()), False, False),
        (pa.list_(pa.map_(pa.string(), pa.int64())), False, False),
        (pa.null(), False, False),
        (pa.struct([("a", pa.null())]), False, False),
    ],
    ids=str,
)
def test_what_can_be_compared(kind: pa.DataType, flat: bool, comparable: bool) -> None:
    assert is_flat(kind) == flat
    assert is_comparable(kind) == comparable
