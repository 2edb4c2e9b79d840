"""Tuples of six fields: their shape, how often they meet, and that they repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.errors import ArgumentError
from skewless.workloads.triples import SixFields
from skewless.workloads.zipf import EPOCH

TYPES = [pa.string(), pa.float64(), pa.int64(), pa.int32(), pa.int32(), pa.string()]


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_tuple_has_the_published_fields_and_size(stream: int) -> None:
    table = SixFields().table(stream, 1000, 10.5, 2.0)
    assert table.schema.types == [*TYPES, pa.timestamp("us", tz="UTC")]
    assert [n.split("_")[1] for n in table.column_names[:6]] == ["S", "D", "L", "I", "Int", "Str"]
    assert table.nbytes / 1000 == pytest.approx(80, abs=1)
    since = table["at"].cast(pa.int64()).to_numpy() - int(EPOCH.timestamp()) * 1_000_000
    assert (np.diff(since) >= 0).all()
    assert since[0] >= 10_500_000 and since[-1] < 12_500_000


def test_partners_are_as_many_as_told() -> None:
    data = SixFields(values=2000)
    r = data.table(0, 2000, 0, 1)["r_I"].to_numpy()
    s = data.table(1, 2000, 0, 1)["s_I"].to_numpy()
    near = np.abs(r[:, None] - s) <= 2
    assert near.sum() / 2000 == pytest.approx(5, rel=0.1)


def test_no_two_fields_are_the_same_numbers() -> None:
    data = SixFields(values=50)
    tables = [data.table(stream, 200, 0, 1) for stream in range(3)]
    drawn = [table[i].to_pylist() for table in tables for i in (3, 4)]
    assert len({tuple(numbers) for numbers in drawn}) == 6


def test_streams_share_their_hot_values() -> None:
    data = SixFields(values=500, exponent=1.2)
    columns = (data.table(0, 5000, 0, 1)["r_Int"], data.table(2, 5000, 0, 1)["t_I"])
    hottest = [np.bincount(column.to_numpy()).argmax() for column in columns]
    assert hottest[0] == hottest[1]


def test_tuples_repeat_by_seed_and_stretch() -> None:
    first = SixFields().table(1, 100, 0, 1, stretch=3)
    assert SixFields().table(1, 100, 0, 1, stretch=3).equals(first)
    assert not SixFields(seed=2).table(1, 100, 0, 1, stretch=3).equals(first)
    assert not SixFields().table(1, 100, 0, 1, stretch=4)["s_I"].equals(first["s_I"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"values": 0}, "values"), ({"exponent": -1.0}, "exponent"), ({"seed": -1}, "seed")],
)
def test_refuses_data_that_cannot_be(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        SixFields(**arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((3, 1, 0, 1), "stream"),
        ((0, -1, 0, 1), "rows"),
        ((0, 1, -1, 1), "begin_s"),
        ((0, 1, 0, 0), "seconds"),
        ((0, 1, 0, 1, -1), "stretch"),
    ],
)
def test_refuses_a_stretch_that_cannot_be(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        SixFields().table(*arguments)
