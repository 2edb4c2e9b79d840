"""Specs over the frame's streams, by the names of columns."""

from __future__ import annotations

import pyarrow as pa

from skewless.arrays.types import KeyColumn, SideSpec
from skewless.operators.pair import JoinSpec, OutputColumn
from tests.frame.streams import LATE_S, SECOND_US

WITHIN_S = 6


def side_spec(schema: pa.Schema, keys: list[str], time: str, late_s: int = LATE_S) -> SideSpec:
    columns = tuple(KeyColumn(schema.get_field_index(k), schema.field(k).type) for k in keys)
    return SideSpec(schema, columns, (), schema.get_field_index(time), late_s * SECOND_US)


def join_spec(
    left: SideSpec, right: SideSpec, lower_s: int = -WITHIN_S, upper_s: int = WITHIN_S
) -> JoinSpec:
    """All columns of both sides: their names are different."""
    output = [OutputColumn("left", i, n) for i, n in enumerate(left.schema.names)]
    output += [OutputColumn("right", i, n) for i, n in enumerate(right.schema.names)]
    return JoinSpec(left, right, lower_s * SECOND_US, upper_s * SECOND_US, tuple(output))
