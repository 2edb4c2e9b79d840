"""Columns that hold structs which are null, under every type of join and asof: however a session
hands them over, a row comes out with the values that it came with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.arrays.types import Side
from skewless.engine.pipeline import Pipeline
from skewless.operators.asof.operator import AsofOperator
from skewless.operators.asof.spec import AsofSpec, Direction
from skewless.operators.join_type import JOIN_TYPES
from skewless.operators.pair import JoinSpec
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.routing import Hash
from tests.frame.specs import join_spec, side_spec
from tests.frame.streams import SECOND_US
from tests.queries import PipelineRun

WITHIN_S = 6
CLOSING = [None, 10_000 * SECOND_US, -1]
Row = list[Any]


def schema_of(side: Side, *, arriving: bool = False, made: bool = False) -> pa.Schema:
    """As rows are stored; or as they arrive from a session with another zone and large texts. As of
    Spark's variants, nothing can be null below a struct, though it may be; only when it is `made`,
    as Arrow makes no such nulls of values."""
    text, binary = (
        (pa.large_string(), pa.large_binary()) if arriving else (pa.string(), pa.binary())
    )
    one = pa.struct([pa.field("v", binary, made), pa.field("t", text, made)])
    kinds = {
        "k": pa.int64(),
        "t": pa.timestamp("us", "America/St_Johns" if arriving else "UTC"),
        "id": pa.int64(),
        "one": one,
        "same": pa.struct([pa.field("n", pa.int64(), made)]),
        "list": pa.list_(pa.field("element", one)),
        "map": pa.map_(pa.int64(), one),
        "deep": pa.struct([("a", pa.list_(pa.struct([("b", one)]))), ("c", pa.null())]),
        "decimals": pa.list_(pa.decimal128(38, 18)),
        "interval": pa.list_(pa.duration("us")),
        "void": pa.list_(pa.null()),
    }
    return pa.schema([(f"{side}_{name}", kind) for name, kind in kinds.items()])


def payload(number: int) -> Row:
    """The values of a row, some of them null at every depth."""
    whole = {"v": b"v%d" % number, "t": f"ä{number}"}
    one = whole if number % 3 else None
    return [
        one,
        {"n": number} if number % 3 else None,
        [[one, None, whole], None, []][number % 3],
        [None, [(number, one), (-1, None)], []][number % 3],
        [{"a": [{"b": one}, None], "c": None}, None, {"a": None, "c": None}][number % 3],
        [Decimal("-1.5") * 10**18, None] if number % 2 else None,
        [timedelta(microseconds=number), None],
        [[None], None][number % 2],
    ]


def rows_of(side: Side) -> list[Row]:
    """Some have no key, some no partner."""
    keys = 5 if side == "left" else 4
    return [
        [None if n % 7 == 6 else n % keys, (2 * n + (side == "right")) * SECOND_US, n]
        for n in range(14)
    ]


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """As the JVM makes it: below a null there are nulls."""
    nothing = pa.nulls(1, kind)
    return pa.concat_arrays([nothing if v is None else pa.array([v], kind) for v in values])


def batch_of(side: Side, rows: Sequence[Row]) -> pa.RecordBatch:
    schema = schema_of(side, arriving=True, made=True)
    columns = zip(*([*row, *payload(row[2])] for row in rows), strict=True)
    arrays = [array_of(c, f.type) for c, f in zip(columns, schema, strict=True)]
    sent = pa.RecordBatch.from_arrays(arrays, schema=schema).serialize()
    return pa.ipc.read_record_batch(sent, schema_of(side, arriving=True))


def spec() -> JoinSpec:
    left, right = (side_spec(schema_of(s), [f"{s}_k"], f"{s}_t") for s in ("left", "right"))
    return join_spec(left, right, -WITHIN_S, WITHIN_S)


def found_by(operator: Any, folder: Path) -> Counter[tuple[int | None, int | None]]:
    """The ids of the sides of every row that came; it has the values of these ids."""
    run, found = PipelineRun(folder, Pipeline.of(operator)), Counter[Any]()
    left, right = rows_of("left"), rows_of("right")
    parts = ((left[:7], right[:7]), (left[7:], right[7:]), ([CLOSING], [CLOSING]))
    for number, part in enumerate(parts):
        streams = [[[batch_of(s, rows)]] for s, rows in zip(("left", "right"), part, strict=True)]
        for row in run.run_streams(number, streams).results.to_pylist():
            ids = tuple(row.get(f"{side}_id") for side in ("left", "right"))
            for side, id in zip(("left", "right"), ids, strict=True):
                names = schema_of(side).names[3:] if f"{side}_id" in row else []
                wanted = [None] * len(names) if id is None else payload(id)
                assert [row[name] for name in names] == wanted[: len(names)]
            found[ids] += 1
    return found


def partners() -> list[tuple[int, int]]:
    near = WITHIN_S * SECOND_US
    return [
        (a, b)
        for k, t, a in rows_of("left")
        for j, u, b in rows_of("right")
        if k is not None and k == j and abs(t - u) <= near
    ]


def expected(how: str) -> Counter[tuple[int | None, int | None]]:
    pairs, kind = partners(), JOIN_TYPES[how]
    found = Counter(pairs if kind.pairs else [])
    for place, side in enumerate(("left", "right")):
        matched = {pair[place] for pair in pairs}
        for id in (row[2] for row in rows_of(side)):
            if side in (kind.first_met if id in matched else kind.unmatched):
                found[(id, None) if side == "left" else (None, id)] += 1
    return found


@pytest.mark.parametrize("how", JOIN_TYPES)
def test_joins(tmp_path: Path, how: str) -> None:
    kind = JOIN_TYPES[how]
    shown = tuple(c for c in spec().output if c.side in kind.shown)
    of_type = replace(spec(), how=kind, output=shown)
    found = found_by(JoinOperator(of_type, Hash(), 2, slots=8), tmp_path)
    assert found == expected(how)
    assert found.total() > 3


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_asof_joins(tmp_path: Path, direction: Direction) -> None:
    pair, us = spec(), WITHIN_S * SECOND_US
    asof = AsofSpec.of(pair.left, pair.right, direction, us, pair.output, how=JOIN_TYPES["left"])
    found = found_by(AsofOperator(asof, Hash(), 2, slots=8), tmp_path)
    times = {(side, row[2]): row[1] for side in ("left", "right") for row in rows_of(side)}
    wanted = Counter[tuple[int, int | None]]()
    for _, time, id in rows_of("left"):
        apart = {b: times["right", b] - time for a, b in partners() if a == id}
        apart = {b: gap for b, gap in apart.items()
                 if direction == "nearest" or (gap > 0) == (direction == "forward")}  # fmt: skip
        nearest = min(apart, key=lambda b: (abs(apart[b]), apart[b]), default=None)
        wanted[id, nearest] += 1
    assert found == wanted
    assert 3 < sum(b is None for _, b in found) < 12
