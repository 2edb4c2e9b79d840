"""What Hypothesis draws: joins of every form, rows that meet at the edges of every bound, and the
ways in which a query can be cut, spread and restarted.

Keys come from small pools, half of the rows from one key; times are a few microseconds around a
slowly rising base, so that rows lie exactly at a bound or at the watermark all the time.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from skewless.arrays.types import FAR_US, SIDES, BandColumn, KeyColumn, SideSpec
from skewless.operators.join_type import JOIN_TYPES
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.placement.balancing.auto import Auto
from skewless.placement.balancing.base import Balancing
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.lsstream import LSStream
from skewless.placement.routing import Broadcast, ContRand, Hash, Routing
from tests.chaos import Chaos
from tests.driver import Batch, Setup, Task, cut
from tests.oracle import Answer, Question, answers
from tests.pair_conditions import PAIR_FORMS

TIME = pa.timestamp("us", "UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WITHIN_FORMS = (
    "both ways", "from to", "before", "after", "from on", "up to", "unbounded", "timeless",
)  # fmt: skip
# Sides whose rows may get a partner at any time.
ENDLESS = {"timeless": SIDES, "unbounded": SIDES, "from on": ("left",), "up to": ("right",)}
BATCHES_MAX = 5
ROWS_MAX = 10


# Properties are tried on a third of their examples by everybody: enough to find what broke. With
# "most", no property has hundreds of them for every kit; "all" takes hours.
HOW_MANY = os.environ.get("SKEWLESS_EXAMPLES", "some")
FEW, MANY = 10, 60


def examples(count: int) -> Callable[[Any], Any]:
    """Settings for a property: no deadline, as the first call of a kernel compiles it."""
    return settings(
        max_examples=_count(count),
        deadline=None,
        print_blob=True,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.function_scoped_fixture,
        ],
    )


def _count(most: int) -> int:
    if HOW_MANY == "all":
        return most
    return (
        max(min(most, MANY), most // 10) if HOW_MANY == "most" else max(min(most, FEW), most // 3)
    )


@dataclass(frozen=True)
class Condition:
    """A pair of columns that is compared: their types, the type they are compared in, the values
    that occur, the width if it is a band, and whether null is a value like any other."""

    name: str
    left: pa.DataType
    right: pa.DataType
    common: pa.DataType
    left_pool: tuple[Any, ...]
    right_pool: tuple[Any, ...]
    width: int | float | Decimal | None = None
    null_safe: bool = False

    def __repr__(self) -> str:
        return self.name


def _of_one_type(name: str, kind: pa.DataType, *pool: Any, width: Any = None) -> Condition:
    return Condition(name, kind, kind, kind, pool, pool, width)


def _us(*moments: int) -> tuple[datetime, ...]:
    return tuple(EPOCH + timedelta(microseconds=m) for m in moments)


def _decimals(*texts: str) -> tuple[Decimal, ...]:
    return tuple(Decimal(text) for text in texts)


NAN, INF = math.nan, math.inf
INTS = (7, 0, -1, 8, 2**40, -(2**63), 2**63 - 1)
SMALL = (7, 0, -1, 8, 127)
MONEY = _decimals("1.20", "1.2", "-1.20", "0", "99999.99", "483447.09")
FINE_MONEY = _decimals("1.2", "1.200000", "-1.2", "0", "99999.99", "483447.09", "1.200001")
OTHER_NAN = math.copysign(NAN, -1)  # the same to Spark, other bits in memory
FLOATS = (1.5, NAN, OTHER_NAN, -0.0, 0.0, INF, -INF, 0.1, 1e300, 5e-324)
TEXTS = ("a", "", "ab", "b", "ä", "a" * 8, "a" * 9, "x" * 40)
DAYS = tuple(date(2024, 2, 28) + timedelta(days=d) for d in (0, 1, 2, 3, -400))

POINT = pa.struct([("x", pa.float64()), ("of", pa.list_(pa.int32()))])
POINTS = tuple(
    {"x": x, "of": of} for x in (1.5, None, NAN, -0.0, 0.0) for of in ([1, None], None, [])
)

EQUALITIES = (
    _of_one_type("int64", pa.int64(), *INTS),
    Condition("int32 = int64", pa.int32(), pa.int64(), pa.int64(), (7, 0, -1, 8), INTS),
    Condition("int64 = int8", pa.int64(), pa.int8(), pa.int64(), INTS, SMALL),
    _of_one_type("int16", pa.int16(), 7, 0, -1, 8, 32767, -32768),
    _of_one_type("string", pa.string(), *TEXTS),
    _of_one_type("large_string", pa.large_string(), *TEXTS),
    _of_one_type("binary", pa.binary(), b"", b"\0", b"\0\0", b"a", b"\xff" * 8, b"\xff" * 9),
    _of_one_type("boolean", pa.bool_(), True, False),
    _of_one_type("date", pa.date32(), *DAYS),
    _of_one_type("timestamp", TIME, *_us(0, 1, -1, 10**15)),
    _of_one_type("timestamp_ntz", pa.timestamp("us"), *(m.replace(tzinfo=None) for m in _us(0, 1))),
    _of_one_type("interval", pa.duration("us"), timedelta(0), timedelta(1), -timedelta(seconds=1)),
    _of_one_type("time", pa.time64("us"), time(0), time(0, 0, 0, 1), time(23, 59)),
    _of_one_type("double", pa.float64(), *FLOATS),
    Condition("float = double", pa.float32(), pa.float64(), pa.float64(),
              (1.5, NAN, OTHER_NAN, -0.0, 0.0, INF, 0.1), FLOATS),
    _of_one_type("decimal", pa.decimal128(10, 2), *MONEY),
    Condition("decimal(10,2) = decimal(20,6)", pa.decimal128(10, 2), pa.decimal128(20, 6),
              pa.decimal128(22, 6), MONEY, FINE_MONEY),
    Condition("int64 = decimal(10,2)", pa.int64(), pa.decimal128(10, 2), pa.decimal128(21, 2),
              (1, 0, -3, 2**62), _decimals("1", "1.01", "0.00", "-3")),
    _of_one_type("decimal(38,18)", pa.decimal128(38, 18),
                 *_decimals("1", "-1", "18446744073709551616", "18446744073709551617.5")),
    Condition("int64 = double", pa.int64(), pa.float64(), pa.float64(),
              (7, 0, 2**53, 2**53 + 1, 2**63 - 1), (7.0, -0.0, 2.0**53, 2.0**63, NAN)),
    Condition("decimal = double", pa.decimal128(10, 2), pa.float64(), pa.float64(),
              _decimals("0.10", "1.25", "-3"), (0.1, 1.25, -3.0, NAN)),
    _of_one_type("struct", POINT, *POINTS),
    _of_one_type("list", pa.list_(pa.string()), ["a"], [], ["a", None], [None, "a"], ["", "a"]),
    _of_one_type("list of structs", pa.list_(POINT), [POINTS[0], None], [], [POINTS[0]],
                 [POINTS[1]], [POINTS[2], POINTS[2]]),
)  # fmt: skip

NULL_SAFE = (
    replace(_of_one_type("int64 <=> int64", pa.int64(), *INTS[:4]), null_safe=True),
    replace(_of_one_type("string <=> string", pa.string(), *TEXTS[:4]), null_safe=True),
    replace(_of_one_type("struct <=> struct", POINT, *POINTS), null_safe=True),
)

NEAR_INTS = (10, 11, 9, 13, 0, -1, -3)
NEAR_FLOATS = (1.0, 0.9, 1.1, -0.0, 0.0, 0.1, NAN, INF, -INF, 1e300, 0.30000000000000004)
NEAR_MONEY = _decimals("1.20", "1.15", "1.25", "0.7", "-0.3", "0", "483447.09")
NEAR_FINE = _decimals("1.2", "1.150000", "1.700001", "1.7", "0.7", "-0.3", "483447.09")

BANDS = (
    _of_one_type("int64 ± 2", pa.int64(), *NEAR_INTS, width=2),
    _of_one_type("int64 ± 0", pa.int64(), *NEAR_INTS, width=0),
    _of_one_type("int64 ± 1, far apart", pa.int64(), 0, 2**63 - 1, -(2**63), 2**63 - 2, width=1),
    Condition("int32 ± 3 of int64", pa.int32(), pa.int64(), pa.int64(), NEAR_INTS, NEAR_INTS, 3),
    _of_one_type("double ± 0.1", pa.float64(), *NEAR_FLOATS, width=0.1),
    _of_one_type("double ± 0", pa.float64(), *NEAR_FLOATS, width=0.0),
    Condition("float ± 0.5 of double", pa.float32(), pa.float64(), pa.float64(),
              (1.0, 0.5, NAN, -0.0, INF), NEAR_FLOATS, 0.5),
    Condition("int64 ± 1.0 of double", pa.int64(), pa.float64(), pa.float64(),
              (0, 1, -1, 2**53 + 1, 2**53, 2**63 - 1), (0.5, 0.0, 2.0**53, 2.0**63, NAN, -INF),
              1.0),
    Condition("decimal ± 0.2 of double", pa.decimal128(4, 2), pa.float64(), pa.float64(),
              _decimals("0.3", "0.1", "0.35", "1"), (0.1, 0.3, 0.5, 0.15, NAN), 0.2),
    _of_one_type("decimal ± 0.05", pa.decimal128(10, 2), *NEAR_MONEY, width=Decimal("0.05")),
    Condition("decimal(10,2) ± 0.5 of decimal(20,6)", pa.decimal128(10, 2), pa.decimal128(20, 6),
              pa.decimal128(22, 6), NEAR_MONEY, NEAR_FINE, Decimal("0.5")),
    Condition("decimal(10,2) ± 0 of decimal(20,6)", pa.decimal128(10, 2), pa.decimal128(20, 6),
              pa.decimal128(22, 6), NEAR_MONEY, NEAR_FINE, Decimal(0)),
    Condition("int64 ± 0.5 of decimal", pa.int64(), pa.decimal128(10, 2), pa.decimal128(21, 2),
              (1, 0, -3, 2**62 + 1), _decimals("1", "1.5", "1.51", "-3.5"), Decimal("0.5")),
    _of_one_type("timestamp ± 3 us", TIME, *_us(0, 3, 4, -3, 10**15), width=3),
    _of_one_type("timestamp ± 0", TIME, *_us(0, 1, 10**15), width=0),
    _of_one_type("date ± 1 day", pa.date32(), *DAYS, width=1),
    _of_one_type("date ± 0", pa.date32(), *DAYS, width=0),
)  # fmt: skip


def _named(name: str, *, of: tuple[Condition, ...]) -> Condition:
    return next(condition for condition in of if condition.name == name)


COMPOSITES = (
    (_named("int64", of=EQUALITIES), _named("string", of=EQUALITIES)),
    (_named("string", of=EQUALITIES), _named("string", of=EQUALITIES)),
    (_named("float = double", of=EQUALITIES), _named("boolean", of=EQUALITIES),
     _named("date", of=EQUALITIES)),
    (_named("boolean", of=EQUALITIES), _named("int64 ± 2", of=BANDS)),
    (_named("string", of=EQUALITIES), _named("double ± 0.1", of=BANDS)),
    (_named("int64 ± 2", of=BANDS), _named("double ± 0.1", of=BANDS)),
    (_named("timestamp ± 3 us", of=BANDS), _named("boolean", of=EQUALITIES),
     _named("decimal ± 0.05", of=BANDS)),
    (_named("string <=> string", of=NULL_SAFE), _named("int64", of=EQUALITIES)),
    (_named("int64 <=> int64", of=NULL_SAFE), _named("int64 ± 2", of=BANDS)),
)  # fmt: skip

ON_FORMS: tuple[tuple[Condition, ...], ...] = (
    *((condition,) for condition in EQUALITIES + NULL_SAFE + BANDS),
    *COMPOSITES,
)


@dataclass(frozen=True)
class Case:
    """A join and the rows it is given."""

    question: Question
    spec: JoinSpec
    batches: tuple[Batch, ...]

    def answers(self) -> list[Answer]:
        return answers(self.question, [batch.tables() for batch in self.batches])

    def __repr__(self) -> str:
        lines = [
            f"  batch {number} {side}: "
            + " | ".join(str([b.to_pylist() for b in task]) for task in getattr(batch, side))
            for number, batch in enumerate(self.batches)
            for side in ("left", "right")
        ]
        return "\n".join([repr(self.question), *lines])


def spec_of(
    conditions: tuple[Condition, ...], question: Question, *, drop_null_times: bool = False
) -> JoinSpec:
    """The product's description of a join. Columns are k0, k1, … as compared, at, n."""
    sides = []
    for side in (0, 1):
        kinds = [(c.left, c.right)[side] for c in conditions]
        fields = [(f"k{i}", kind) for i, kind in enumerate(kinds)]
        fields += [("at", TIME), ("n", pa.int64())]
        numbered = list(enumerate(conditions))
        sides.append(
            SideSpec(
                schema=pa.schema(fields),
                keys=tuple(KeyColumn(i, c.common, c.null_safe) for i, c in numbered
                           if c.width is None),
                bands=tuple(BandColumn(i, c.common, c.width) for i, c in numbered
                            if c.width is not None),
                time=None if question.times is None else question.times[side],
                late_us=FAR_US if question.late is None else question.late[side],
            )
        )  # fmt: skip
    lower, upper = question.within or (None, None)
    lower, upper = -FAR_US if lower is None else lower, FAR_US if upper is None else upper
    how = JOIN_TYPES[question.how]
    output = [
        OutputColumn(side, i, f"{side[0]}{i}")
        for side in how.shown
        for i in range(len(conditions) + 2)
    ]
    last = len(conditions) + 1
    pairs = None if question.pairs is None else question.pairs.spec(last, last)
    return JoinSpec(sides[0], sides[1], lower, upper, tuple(output), drop_null_times, how, pairs)


@st.composite
def questions(draw: st.DrawFn, conditions: tuple[Condition, ...]) -> Question:
    """Every form of `within`, and with it, of `late`; every type of join that it allows; and with
    a condition on pairs or without."""
    numbered = list(enumerate(conditions))
    equal = tuple((i, i) for i, c in numbered if c.width is None)
    near = tuple((i, i, c.width) for i, c in numbered if c.width is not None)
    null_safe = tuple((i, i) for i, c in numbered if c.null_safe)
    at = len(conditions)
    form = draw(st.sampled_from(WITHIN_FORMS))
    how = draw(st.sampled_from(list(JOIN_TYPES)) | st.just("inner"))
    endless = ENDLESS.get(form, ())
    if any(side in endless for side in JOIN_TYPES[how].unmatched):
        how = how.replace("anti", "semi") if "anti" in how else "inner"  # they would wait for ever
    pairs = draw(st.none() | st.sampled_from(list(PAIR_FORMS.values())))
    if form == "timeless":
        return Question(equal, near, how=how, pairs=pairs, null_safe=null_safe)
    delays = st.integers(0, 6) | st.just(0)
    late: tuple[int, int] | None = (draw(delays), draw(delays))
    if form == "unbounded":
        late = draw(st.sampled_from([late, None]))
        return Question(equal, near, (at, at), None, late, how, pairs, null_safe)
    a, b = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    within = {
        "both ways": (-a, a),
        "from to": (-a, b),
        "before": (-1 - a - b, -1 - a),
        "after": (1 + a, 1 + a + b),
        "from on": (b - a, None),
        "up to": (None, b - a),
    }[form]
    return Question(equal, near, (at, at), within, late, how, pairs, null_safe)


def _rows(
    conditions: tuple[Condition, ...], side: int, base: int, null_times: bool
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    columns = []
    for condition in conditions:
        pool = (condition.left_pool, condition.right_pool)[side]
        hot, any_key = st.just(pool[0]), st.sampled_from((*pool, None))
        columns.append(st.one_of(hot, any_key))
    in_time, straggling = st.integers(0, 10), st.integers(-12, 0)
    moments = st.one_of(in_time, straggling).map(lambda offset: base + offset)
    columns.append(st.one_of(moments, st.none()) if null_times else moments)
    columns.append(st.integers(0, 3) | st.none())
    return st.lists(st.tuples(*columns), max_size=ROWS_MAX)


def _record_batch(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


@st.composite
def _tasks(draw: st.DrawFn, rows: pa.RecordBatch) -> tuple[Task, ...]:
    positions = st.lists(st.integers(0, ROWS_MAX), max_size=4)
    return tuple(
        cut(task, draw(st.lists(st.integers(0, 4), max_size=1)))
        for task in cut(rows, draw(positions))
    )


@st.composite
def batches_of(
    draw: st.DrawFn,
    conditions: tuple[Condition, ...],
    spec: JoinSpec,
    count: int,
    *,
    null_times: bool = False,
) -> tuple[Batch, ...]:
    """So many batches of rows, each a little later than the one before."""
    pace = draw(st.integers(0, 6))
    batches = []
    for number in range(count):
        base = number * pace - 10
        sides = []
        for side, this in enumerate((spec.left, spec.right)):
            rows = draw(_rows(conditions, side, base, null_times))
            sides.append(draw(_tasks(_record_batch(this.schema, rows))))
        batches.append(Batch(*sides))
    return tuple(batches)


@st.composite
def cases(
    draw: st.DrawFn,
    conditions: tuple[Condition, ...] | None = None,
    *,
    null_times: bool = False,
    batches_min: int = 1,
    batches_max: int = BATCHES_MAX,
) -> Case:
    """A join of the given form, or of any, and rows for it."""
    if conditions is None:
        conditions = draw(st.sampled_from(ON_FORMS))
    question = draw(questions(conditions))
    spec = spec_of(conditions, question, drop_null_times=null_times)
    sizes = st.integers(batches_min, batches_max) | st.just(batches_max)
    batches = draw(batches_of(conditions, spec, draw(sizes), null_times=null_times))
    return Case(question, spec, batches)


EAGER: dict[str, Any] = {"patience": 1, "cooldown": 0, "horizon": 10**9}


def routings() -> st.SearchStrategy[Routing | Balancing]:
    """Fixed routings, strategies that act on the slightest reason, and one that needs none."""
    return st.one_of(
        st.just(Hash()),
        st.builds(ContRand, groups=st.integers(1, 5)),
        st.just(Broadcast()),
        st.builds(Chaos, seed=st.integers(0, 1000)),
        st.just(Auto(tolerance=0.01, floor_ms=0, noise=0, **EAGER)),
        st.just(FastJoin(theta=1.01, load_min=0, **EAGER)),
        st.just(LSStream(alpha=0.01, **EAGER)),
        st.just(FastJoin(theta=1.01, load_min=0, paper=True, keys_watched="all")),
        st.just(LSStream(alpha=0.01, paper=True)),
        st.just(FastJoin(theta="auto", load_min=0, paper=True)),
        st.just(LSStream(alpha="auto", paper=True)),
    )


def setups() -> st.SearchStrategy[Setup]:
    return st.builds(Setup, routings(), st.integers(1, 6), st.integers(1, 9))
