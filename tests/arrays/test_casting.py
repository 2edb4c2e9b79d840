"""Columns in other types: every value and every null stays what it is, however deep it lies."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.casting import cast
from skewless.engine.pipeline import as_schema
from tests.strategies import examples


def _struct(binary: pa.DataType, text: pa.DataType, *, nullable: bool) -> pa.DataType:
    return pa.struct([pa.field("v", binary, nullable), pa.field("t", text, nullable)])


# As Spark's variants: what stands for a null has fields that cannot be null.
MADE, LARGE = (
    _struct(pa.large_binary(), pa.large_string(), nullable=nullable) for nullable in (True, False)
)
PLAIN = _struct(pa.binary(), pa.string(), nullable=False)
VALUES = st.none() | st.fixed_dictionaries({"v": st.binary(max_size=2), "t": st.text(max_size=2)})


def _in_lists(of: tuple) -> tuple:
    *given, wanted, values = of
    lists = [*map(pa.list_, given), pa.list_(pa.field("element", wanted))]
    return *lists, st.none() | st.lists(values, max_size=3)


def _in_maps(of: tuple) -> tuple:
    *kinds, values = of
    items = st.lists(st.tuples(st.integers(0, 3), values), max_size=2)
    return *(pa.map_(pa.int64(), kind) for kind in kinds), st.none() | items


def _in_structs(of: tuple) -> tuple:
    *kinds, values = of
    structs = (pa.struct([("a", kind)]) for kind in kinds)
    return *structs, st.none() | st.fixed_dictionaries({"a": values})


NESTED = st.recursive(
    st.sampled_from([(MADE, LARGE, PLAIN, VALUES), (pa.null(),) * 3 + (st.none(),)]),
    lambda inner: st.one_of(*(inner.map(f) for f in (_in_lists, _in_maps, _in_structs))),
    max_leaves=3,
)


@examples(200)
@given(NESTED, st.data(), st.integers(0, 2))
def test_values_that_hold_others_stay_the_same(of: tuple, data: st.DataObject, since: int) -> None:
    made, given, wanted, values = of
    rows = pa.array(data.draw(st.lists(values, max_size=6)), made)
    sent = pa.record_batch([rows], ["x"]).serialize()
    column = pa.ipc.read_record_batch(sent, pa.schema([("x", given)])).column(0).slice(since)
    found = cast(column, wanted)
    assert found.type == wanted
    found.validate(full=True)
    assert found.to_pylist() == column.to_pylist()
    backwards = np.arange(len(found))[::-1]
    assert found.take(pa.array(backwards)).to_pylist() == column.to_pylist()[::-1]


def test_a_column_of_another_type_leaves_those_beside_it_alone() -> None:
    """Arrow would not even cast such a column to the type that it has."""
    fields = list(PLAIN)
    nothing = [pa.nulls(2, field.type) for field in fields]
    missing = pa.StructArray.from_arrays(nothing, fields=fields, mask=pa.array([True, True]))
    texts = pa.array(["a", "b"], pa.large_string())
    batch = pa.RecordBatch.from_arrays([missing, texts], ["x", "y"])
    found = as_schema(batch, pa.schema([("x", PLAIN), ("y", pa.string())]))
    assert found.to_pylist() == [{"x": None, "y": "a"}, {"x": None, "y": "b"}]
