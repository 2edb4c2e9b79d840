"""What Hypothesis draws: aggregations of every form, rows at the edges of windows, and the ways in
which a query can be cut, grouped and restarted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from skewless.arrays.types import KeyColumn, SideSpec
from skewless.operators.aggregate.accumulators.base import Accumulator
from skewless.operators.aggregate.accumulators.named import NAMED
from skewless.operators.aggregate.accumulators.quantile import Quantile
from skewless.operators.aggregate.spec import Aggregate, AggregateSpec
from skewless.operators.aggregate.windows import Window
from skewless.placement.grouping import (
    PKG,
    BatchAware,
    DAGreedy,
    Dalton,
    DChoices,
    Grouping,
    KeyGrouping,
    PdStream,
    ShuffleGrouping,
    WChoices,
)
from tests.operators.aggregate.driver import Setup
from tests.operators.aggregate.oracle import Question

TIME = pa.timestamp("us", "UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAN = float("nan")

KEYS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "whole": (pa.int64(), (1, 2, 3, -(1 << 63), None)),
    "text": (pa.string(), ("a", "", "b", "aa", None)),
    "real": (pa.float64(), (0.0, -0.0, NAN, 1.5, None)),
    "exact": (pa.decimal128(10, 2), (Decimal("1.10"), Decimal("-1.10"), Decimal("0"), None)),
    "flag": (pa.bool_(), (True, False, None)),
    "day": (pa.date32(), (date(2020, 1, 1), date(1969, 12, 31), None)),
    "raw": (pa.binary(), (b"", b"\0", b"\0\0", None)),
}
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-(1 << 40), 1 << 40)),
    "small": (pa.int8(), st.integers(-128, 127)),
    "x": (pa.float64(), st.floats(-1e6, 1e6)),
    "f": (pa.float64(), st.floats(allow_nan=True, allow_infinity=True)),
    "d": (pa.decimal128(10, 2), st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 100)),
    "s": (pa.string(), st.text("ab\0é", max_size=3)),
    "b": (pa.bool_(), st.booleans()),
    "t": (TIME, st.integers(-50, 50).map(lambda n: EPOCH + timedelta(microseconds=n))),
}
NUMBERS = ("i", "small", "x", "d")
AGGS = [
    ("count", None, None),
    *(("count", c, None) for c in VALUES),
    *(("sum", c, None) for c in NUMBERS),
    *(("min", c, None) for c in VALUES),
    *(("max", c, None) for c in VALUES),
    *((name, c, None) for name in ("mean", "variance", "stddev") for c in ("i", "small", "x")),
    *(("approx_distinct", c, None) for c in ("i", "small", "d", "s", "b", "t")),
    *(("quantile", c, q) for c in ("i", "small", "x") for q in (0.0, 0.25, 0.5, 1.0)),
]


@dataclass(frozen=True)
class Anywhere(Grouping):
    """Sends every row to an instance that nothing foretells."""

    seed: int = field(default=0)

    def _fresh(self, instances: int, seed: int) -> dict[str, Any]:
        return {"seen": np.zeros(1, np.int64)}

    def _route(self, state: dict[str, Any], keys: Any, targets: Any) -> None:
        rng = np.random.default_rng([self.seed, int(state["seen"][0])])
        targets[:] = rng.integers(len(state["loads"]), size=len(keys))
        state["seen"][0] += len(keys)
        state["loads"] += np.bincount(targets, minlength=len(state["loads"]))


GROUPINGS = st.sampled_from(
    [
        BatchAware(),
        BatchAware(least=1, tracked=3),
        PdStream(),
        PdStream(expected="auto"),
        PKG(),
        DChoices(),
        WChoices(),
        DAGreedy(),
        Dalton(),
        KeyGrouping(),
        ShuffleGrouping(),
        Anywhere(1),
    ]
)


@st.composite
def setups(draw: st.DrawFn, question: Question) -> Setup:
    modes = ["update"] if question.size is None else ["append", "update"]
    return Setup(draw(GROUPINGS), draw(st.integers(1, 5)), draw(st.sampled_from(modes)))


@st.composite
def questions(draw: st.DrawFn) -> Question:
    keys = tuple(draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=2, unique=True)))
    size = draw(st.one_of(st.none(), st.integers(1, 12)))
    slide = None if size is None else draw(st.integers(1, size))
    aggs = tuple(draw(st.lists(st.sampled_from(AGGS), min_size=1, max_size=4)))
    late = draw(st.integers(0, 8)) if size is not None else 0
    return Question(keys, None if size is None else "at", size, slide, late, aggs)


def spec_of(question: Question, *, drop_null_times: bool = False) -> AggregateSpec:
    """The description that `sk.aggregate` would make of a question."""
    used = [c for _, c, _ in question.aggs if c is not None]
    names = list(dict.fromkeys([*question.keys, *used]))
    types = {**{k: v[0] for k, v in KEYS.items()}, **{k: v[0] for k, v in VALUES.items()}}
    if question.time is not None:
        names.append(question.time)
        types[question.time] = TIME
    side = SideSpec(
        pa.schema([pa.field(n, types[n]) for n in names]),
        tuple(KeyColumn(names.index(k), types[k]) for k in question.keys),
        (),
        None if question.time is None else names.index(question.time),
        question.late,
    )
    aggregates = tuple(
        Aggregate(
            f"a{number}",
            _bound(name, column, parameter, types),
            () if column is None else (names.index(column),),
        )
        for number, (name, column, parameter) in enumerate(question.aggs)
    )
    window = None if question.size is None else Window(question.size, question.slide)
    return AggregateSpec(side, aggregates, window, drop_null_times)


def _bound(
    name: str, column: str | None, parameter: float | None, types: dict[str, pa.DataType]
) -> Accumulator:
    bound = [] if column is None else [types[column]]
    return NAMED[name](bound) if parameter is None else Quantile(parameter).bind(bound)


@st.composite
def rows_of(draw: st.DrawFn, spec: AggregateSpec, base: int, most: int = 12) -> pa.RecordBatch:
    """Some rows: half of them of one key, times a few microseconds around a base."""
    count = draw(st.integers(0, most))
    arrays = []
    for field_ in spec.input.schema:
        if field_.name == "at":
            around = st.integers(base - 10, base + 10).map(
                lambda n: EPOCH + timedelta(microseconds=n)
            )
            values = draw(st.lists(around, min_size=count, max_size=count))
        elif field_.name in KEYS:
            pool = KEYS[field_.name][1]
            one = st.one_of(st.just(pool[0]), st.sampled_from(pool))
            values = draw(st.lists(one, min_size=count, max_size=count))
        else:
            one = st.one_of(st.none(), VALUES[field_.name][1])
            values = draw(st.lists(one, min_size=count, max_size=count))
        arrays.append(pa.array(values, field_.type))
    return pa.RecordBatch.from_arrays(arrays, schema=spec.input.schema)


@st.composite
def batches_of(draw: st.DrawFn, spec: AggregateSpec) -> list[list[list[pa.RecordBatch]]]:
    """Batches of tasks of record batches; event time rises slowly."""
    return [
        [
            [draw(rows_of(spec, 7 * number)) for _ in range(draw(st.integers(0, 2)))]
            for _ in range(draw(st.integers(1, 3)))
        ]
        for number in range(draw(st.integers(1, 5)))
    ]
