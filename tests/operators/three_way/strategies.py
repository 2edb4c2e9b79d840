"""What Hypothesis draws: chains and cycles of every form, and rows that meet at all bounds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from skewless.arrays.types import FAR_US, BandColumn, KeyColumn, SideSpec
from skewless.operators.pair import JoinSpec
from skewless.operators.three_way.spec import Edge, OutputColumn, Stream, ThreeSpec
from skewless.operators.three_way.strategies import AutoThree, ThreeStrategy, Tree, TriJoin
from tests.operators.three_way.driver import Batch, Setup
from tests.operators.three_way.oracle import Pair, Question

TIME = pa.timestamp("us", "UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "whole": (pa.int64(), (1, 2, 3, 5, None)),
    "text": (pa.string(), ("a", "", "b", None)),
    "real": (pa.float64(), (0.0, 0.5, 1.25, -0.0, float("nan"), None)),
}
WIDTHS: dict[str, tuple[Any, ...]] = {
    "whole": (None, 0, 1, 2),
    "text": (None,),
    "real": (None, 0.5),
}
UNBOUNDED = (-FAR_US, FAR_US)
SHAPES = (((0, 1), (1, 2)), ((0, 1), (0, 2)), ((0, 2), (1, 2)), ((0, 1), (0, 2), (1, 2)))


@dataclass(frozen=True)
class Case:
    question: Question
    spec: ThreeSpec


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A join: which streams have conditions, of which types, how near, and within which times.
    Column 0 is the time, column 1 a number, the others are compared."""
    shape = draw(st.sampled_from(SHAPES))
    columns: list[list[str]] = [[], [], []]
    pairs = []
    for a, b in shape:
        equal, near = [], []
        for kind in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2)):
            width = draw(st.sampled_from(WIDTHS[kind]))
            at = []
            for x in (a, b):
                columns[x].append(kind)
                at.append(1 + len(columns[x]))
            if width is None:
                equal.append((at[0], at[1]))
            else:
                near.append((at[0], at[1], width))
        lower = draw(st.integers(-8, 4))
        within = (lower, draw(st.integers(lower, 8)))
        if draw(st.integers(0, 5)) == 5:
            within = UNBOUNDED
        pairs.append(Pair(a, b, tuple(equal), tuple(near), within))
    late = draw(st.tuples(*(st.integers(0, 6) for _ in range(3))))
    question = Question(tuple(pairs), 0, late)
    return Case(question, spec_of(question, columns))


def spec_of(question: Question, columns: list[list[str]]) -> ThreeSpec:
    """The description that `sk.join3` would make of a question."""
    schemas = [
        pa.schema(
            [("at", TIME), ("n", pa.int64())]
            + [(f"c{i}", KINDS[kind][0]) for i, kind in enumerate(columns[x])]
        )
        for x in range(3)
    ]
    streams = tuple(Stream(schemas[x], 0, question.late[x]) for x in range(3))
    edges = []
    for pair in question.pairs:
        sides = []
        for number, x in enumerate((pair.a, pair.b)):
            keys = tuple(KeyColumn(c[number], schemas[x].field(c[number]).type) for c in pair.equal)
            bands = tuple(
                BandColumn(c[number], schemas[x].field(c[number]).type, c[2]) for c in pair.near
            )
            sides.append(SideSpec(schemas[x], keys, bands, 0, question.late[x]))
        edges.append(Edge(pair.a, pair.b, JoinSpec(sides[0], sides[1], *pair.within, ())))
    output = tuple(OutputColumn(x, i, f"{x}.{i}") for x in range(3) for i in range(len(schemas[x])))
    return ThreeSpec(streams, tuple(edges), output)


@st.composite
def rows_of(draw: st.DrawFn, spec: ThreeSpec, stream: int, base: int) -> pa.RecordBatch:
    schema = spec.streams[stream].schema
    count = draw(st.integers(0, 5))
    arrays = []
    for field in schema:
        if field.name == "at":
            around = st.integers(base - 6, base + 6).map(
                lambda n: EPOCH + timedelta(microseconds=n)
            )
            values = draw(st.lists(around, min_size=count, max_size=count))
        elif field.name == "n":
            # Few numbers: rows that are equal in every column must be counted right.
            values = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        else:
            pool = next(pool for kind, pool in KINDS.values() if kind == field.type)
            one = st.one_of(st.just(pool[0]), st.just(pool[0]), st.sampled_from(pool))
            values = draw(st.lists(one, min_size=count, max_size=count))
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@st.composite
def batches_of(draw: st.DrawFn, spec: ThreeSpec) -> list[Batch]:
    """Batches of tasks per stream; event time rises slowly."""
    return [
        [
            [[draw(rows_of(spec, x, 5 * number))] for _ in range(draw(st.integers(0, 2)))]
            for x in range(3)
        ]
        for number in range(draw(st.integers(1, 5)))
    ]


def strategies_for(spec: ThreeSpec) -> st.SearchStrategy[ThreeStrategy]:
    orders = [
        (a, b, c)
        for a, b, c in ("rst", "srt", "rts", "trs", "str", "tsr")
        if spec.edge("rst".index(a), "rst".index(b)) is not None
    ]
    trees = st.builds(Tree, st.sampled_from([None, *orders]), st.integers(1, 3))
    return st.one_of(st.sampled_from([AutoThree(), TriJoin(), TriJoin(packing=False)]), trees)


@st.composite
def setups(draw: st.DrawFn, spec: ThreeSpec) -> Setup:
    return Setup(draw(strategies_for(spec)), draw(st.integers(1, 9)))
