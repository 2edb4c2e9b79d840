"""The right answer to a join, computed slowly and twice: by nested loops over plain Python values,
and by DuckDB. Nothing here shares code with the product; a condition on pairs is said anew to each.

The rules, as both follow them. Rows arrive in batches. A row without event time, without a key, or
with NaN in a band column can match nothing; it is counted once, in that order. The watermark of a
batch is the lesser of what the two sides have reached in the batches before it (their latest time
less their lateness), and there is none before both sides had a row with a time. A row older than
the watermark is late: dropped and counted. Every other pair that fits is a match, told in the batch
in which the second of the two arrives.

An outer join tells also of every row of a preserved side that has no match, in the first batch
after which the watermark says that none can come; a row without a key is such a row. An anti join
tells of these alone. A semi join tells once of every row that has a match, in the batch of its
first.
"""

from __future__ import annotations

import atexit
import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.types as pt

from tests.pair_conditions import PairForm

MICROSECOND = timedelta(microseconds=1)

Tables = tuple[pa.Table, pa.Table]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Question:
    """What is asked of a join. Columns are numbers, given as (left, right).

    `within` bounds right time less left time, in microseconds; None where there is no bound, at all
    or on one end. `late` is per side; None where no row is ever late.
    """

    equal: tuple[tuple[int, int], ...] = ()
    near: tuple[tuple[int, int, int | float | Decimal], ...] = ()
    times: tuple[int, int] | None = None
    within: tuple[int | None, int | None] | None = None
    late: tuple[int, int] | None = None
    how: str = "inner"
    pairs: PairForm | None = None
    null_safe: tuple[tuple[int, int], ...] = ()  # of the equal ones, those in which null is a value

    @property
    def strict(self) -> list[tuple[int, int]]:
        return [pair for pair in self.equal if pair not in self.null_safe]

    @property
    def preserved(self) -> tuple[int, ...]:
        """Sides whose rows are told of when they have no match."""
        return {
            "left": (0,),
            "right": (1,),
            "full": (0, 1),
            "left_anti": (0,),
            "right_anti": (1,),
        }.get(self.how, ())

    @property
    def semi(self) -> int | None:
        """The side whose rows are told of when they have a match."""
        return {"left_semi": 0, "right_semi": 1}.get(self.how)

    @property
    def tells_pairs(self) -> bool:
        return self.how in ("inner", "left", "right", "full")

    def alone(self, side: int, row: Row, other_width: int) -> Row:
        """A row of one side as a row of the result."""
        if not self.tells_pairs:
            return row
        nothing = (None,) * other_width
        return row + nothing if side == 0 else nothing + row


@dataclass
class Answer:
    """What one batch must give."""

    rows: Counter[Row] = field(default_factory=Counter)
    late: int = 0
    null_keys: int = 0
    null_times: int = 0
    nan_bands: int = 0
    watermark_us: int | None = None


def plain(value: Any) -> Any:
    """A value that can be counted and equals its copies: NaN by name, -0.0 told from 0.0."""
    return repr(value) if isinstance(value, float | list | dict) else value


def rows_of(table: pa.Table | pa.RecordBatch) -> list[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


def multiset(rows: Sequence[Row]) -> Counter[Row]:
    return Counter(tuple(map(plain, row)) for row in rows)


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)) // MICROSECOND


def same(a: Any, b: Any) -> bool:
    """Equality as Spark joins: NaN equals NaN, -0.0 equals 0.0, and so it is in what holds others,
    where nulls are equal, too. A number is compared with a double as its nearest double."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same(x, y) for x, y in zip(a.values(), b.values(), strict=True))
    if isinstance(a, float) != isinstance(b, float) and None not in (a, b):
        a, b = float(a), float(b)
    both_nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    return both_nan or bool(a == b)


def close(a: Any, b: Any, width: int | float | Decimal) -> bool:
    if isinstance(a, datetime):
        return abs(microseconds(a) - microseconds(b)) <= width
    if isinstance(a, date):
        return abs((a - b).days) <= width
    if isinstance(a, float) or isinstance(b, float):
        return abs(float(a) - float(b)) <= width
    return abs(Fraction(a) - Fraction(b)) <= Fraction(str(width))


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


class _Side:
    """One input, as the nested loops know it."""

    def __init__(self, question: Question, side: int) -> None:
        self.preserved = side in question.preserved
        self.keys = [pair[side] for pair in question.strict]
        self.bands = [near[side] for near in question.near]
        self.time = None if question.times is None else question.times[side]
        self.late = None if question.late is None else question.late[side]
        self.reached: int | None = None
        self.stored: list[Row] = []
        self.open: list[tuple[Row, bool]] = []  # rows that are not told of yet; whether with a key

    def time_us(self, row: Row) -> int:
        return 0 if self.time is None else microseconds(row[self.time])

    def usable(self, rows: list[Row], answer: Answer) -> Iterator[Row]:
        latest = self.reached
        for row in rows:
            if self.time is not None and row[self.time] is None:
                answer.null_times += 1
                continue
            if self.time is not None:
                latest = max(self.time_us(row), self.time_us(row) if latest is None else latest)
            null_key = any(row[i] is None for i in self.keys + self.bands)
            keyless = null_key or any(is_nan(row[i]) for i in self.bands)
            if keyless and not self.preserved:
                answer.null_keys += null_key
                answer.nan_bands += not null_key
            elif answer.watermark_us is not None and self.time_us(row) < answer.watermark_us:
                answer.late += 1
            else:
                self.open.append((row, not keyless))
                if not keyless:
                    yield row
        self.reached = latest


def answers(question: Question, batches: Sequence[Tables]) -> list[Answer]:
    """What both oracles say. Where they differ one of them is wrong, and nothing else is judged."""
    expected, second = nested_loops(question, batches), by_duckdb(question, batches)
    assert [(a.rows, a.late) for a in second] == [(a.rows, a.late) for a in expected]
    return expected


def nested_loops(question: Question, batches: Sequence[Tables]) -> list[Answer]:
    """The answer to every batch, by comparing every row with every other."""
    left, right = _Side(question, 0), _Side(question, 1)
    answers = []
    for tables in batches:
        answer = Answer(watermark_us=_watermark(left, right))
        new_left = list(left.usable(rows_of(tables[0]), answer))
        new_right = list(right.usable(rows_of(tables[1]), answer))
        matches = [
            a + b
            for some, others in ((new_left, right.stored + new_right), (left.stored, new_right))
            for a in some
            for b in others
            if _fits(question, left, a, right, b)
        ]
        left.stored += new_left
        right.stored += new_right
        told = matches if question.tells_pairs else []
        told += _told_alone(question, left, right, [t.num_columns for t in tables])
        answer.rows = multiset(told)
        answers.append(answer)
    return answers


def _told_alone(question: Question, left: _Side, right: _Side, widths: list[int]) -> list[Row]:
    """Rows that are told of without a partner after a batch, and then never again."""
    told, after = [], _watermark(left, right)
    for side, this in ((0, left), (1, right)):
        if side not in question.preserved and side != question.semi:
            continue
        others, still_open = (right if side == 0 else left).stored, []
        for row, has_key in this.open:
            matched = has_key and any(
                _fits(question, left, *((row, right, o) if side == 0 else (o, right, row)))
                for o in others
            )
            over = after is not None and _last_partner_us(question, side, this.time_us(row)) < after
            is_semi = side == question.semi
            if not (matched if is_semi else over):
                still_open.append((row, has_key))
            elif matched == is_semi:
                told.append(question.alone(side, row, widths[1 - side]))
        this.open = still_open
    return told


def _last_partner_us(question: Question, side: int, time_us: int) -> float:
    lower, upper = question.within or (0, 0)
    if side == 0:
        return math.inf if upper is None else time_us + upper
    return math.inf if lower is None else time_us - lower


def _watermark(left: _Side, right: _Side) -> int | None:
    if left.late is None or right.late is None or left.reached is None or right.reached is None:
        return None
    return min(left.reached - left.late, right.reached - right.late)


def _fits(question: Question, left: _Side, a: Row, right: _Side, b: Row) -> bool:
    if question.within is not None:
        apart = right.time_us(b) - left.time_us(a)
        lower, upper = question.within
        if (lower is not None and apart < lower) or (upper is not None and apart > upper):
            return False
    if question.pairs is not None and not question.pairs.holds(a[-1], b[-1]):
        return False
    return all(same(a[i], b[j]) for i, j in question.equal) and all(
        close(a[i], b[j], width) for i, j, width in question.near
    )


def by_duckdb(question: Question, batches: Sequence[Tables]) -> list[Answer]:
    """The same, by SQL over all rows at once, each with the number of its batch."""
    sides = [[tables[side] for tables in batches] for side in (0, 1)]
    schemas = (sides[0][0].schema, sides[1][0].schema)
    with _database() as db:
        for name, tables in zip("lr", sides, strict=True):
            db.register(name, _numbered(tables))
        found = db.execute(
            f"{_views_sql(question, schemas, len(batches))} {_told_sql(question, schemas)}"
        ).fetchall()
    everything = [[row for table in tables for row in rows_of(table)] for tables in sides]
    answers = [Answer() for _ in batches]
    for batch, i, j in found:
        if i is None and j is None:
            answers[batch].late += 1
            continue
        row = everything[0][i] + everything[1][j] if i is not None and j is not None else ()
        if i is None or j is None:
            side, at = (0, i) if j is None else (1, j)
            row = question.alone(side, everything[side][at], len(schemas[1 - side]))
        answers[batch].rows[tuple(map(plain, row))] += 1
    return answers


def _told_sql(question: Question, schemas: tuple[pa.Schema, pa.Schema]) -> str:
    """Batch, left row and right row of all that is told; neither, where a row is late."""
    pairs = (
        "SELECT greatest(a.b, b.b) AS b, a.i AS i, b.i AS j FROM l_good a, r_good b "
        f"WHERE NOT a.late AND NOT b.late AND {_condition_sql(question, schemas)}"
    )
    parts = [f"SELECT b, i, j FROM ({pairs})"] if question.tells_pairs else []
    for side, (name, own, columns) in enumerate((("l", "i", "i, NULL"), ("r", "j", "NULL, i"))):
        counted = f"{name}_timed" if side in question.preserved else f"{name}_good"
        parts.append(f"SELECT b, NULL, NULL FROM {counted} WHERE late")
        if side == question.semi:
            parts.append(
                f"SELECT first, {columns} FROM "
                f"(SELECT min(b) AS first, {own} AS i FROM ({pairs}) GROUP BY {own})"
            )
        if side in question.preserved:
            lower, upper = question.within or (0, 0)
            last = f"t + {upper}" if side == 0 else f"t - ({lower})"
            over = f"(SELECT min(m.b) FROM marks_after m WHERE m.b >= u.b AND m.mark > u.{last})"
            parts.append(
                f"SELECT over, {columns} FROM (SELECT {over} AS over, u.i FROM {name}_timed u "
                f"WHERE NOT late AND u.i NOT IN (SELECT {own} FROM ({pairs}))) "
                "WHERE over IS NOT NULL"
            )
    return " UNION ALL ".join(parts)


@functools.cache
def _process_database() -> duckdb.DuckDBPyConnection:
    """Connecting takes longer than most answers, so that one connection serves all. It must be gone
    before Python is, or DuckDB prints what it thinks has leaked."""
    atexit.register(_process_database.cache_clear)
    return duckdb.connect(config={"threads": 1})


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    db = _process_database()
    try:
        yield db
    finally:
        for name in "lr":
            db.unregister(name)


def _numbered(tables: list[pa.Table]) -> pa.Table:
    """All batches of a side: columns c0, c1, …, the batch `b` and a running number `i`."""
    whole = pa.concat_tables(tables)
    names = [f"c{i}" for i in range(whole.num_columns)]
    batch = [n for n, table in enumerate(tables) for _ in range(table.num_rows)]
    return (
        whole.rename_columns(names)
        .append_column("b", pa.array(batch, pa.int64()))
        .append_column("i", pa.array(range(whole.num_rows), pa.int64()))
    )


def _views_sql(question: Question, schemas: tuple[pa.Schema, pa.Schema], batches: int) -> str:
    """Views of the rows that can match, `l_good` and `r_good`: with their time `t`, and whether
    they are `late`."""
    times = ("NULL::BIGINT",) * 2
    if question.times is not None:
        times = tuple(f"epoch_us(c{i})" for i in question.times)
    views = [
        f"every_time AS (SELECT b, 0 AS side, {times[0]} AS t FROM l "
        f"UNION ALL SELECT b, 1, {times[1]} FROM r "
        f"UNION ALL SELECT n, -1, NULL FROM range({batches}) every_batch(n))",
        f"marks AS ({_marks_sql(question, '1 PRECEDING')})",
        f"marks_after AS ({_marks_sql(question, 'CURRENT ROW')})",
    ]
    for side, name in enumerate("lr"):
        needed = [pair[side] for pair in (*question.strict, *question.near)]
        needed += [] if question.times is None else [question.times[side]]
        good = [f"c{i} IS NOT NULL" for i in needed]
        good += [
            f"NOT isnan(c{near[side]})"
            for near in question.near
            if pt.is_floating(schemas[side].field(near[side]).type)
        ]
        timed = "true" if question.times is None else f"c{question.times[side]} IS NOT NULL"
        views.append(
            f"{name}_timed AS (SELECT {name}.*, {times[side]} AS t, "
            "coalesce(t < mark, false) AS late "
            f"FROM {name} LEFT JOIN marks USING (b) WHERE {timed})"
        )
        wanted = " AND ".join(good) or "true"
        views.append(f"{name}_good AS (SELECT * FROM {name}_timed WHERE {wanted})")
    return f"WITH {', '.join(views)}"


def _marks_sql(question: Question, until: str) -> str:
    """The watermark of every batch, from all batches up to one."""
    if question.late is None:
        return "SELECT NULL::BIGINT AS b, NULL::BIGINT AS mark WHERE false"
    reached = [
        f"max(max(t) FILTER (side = {side}) - {question.late[side]}) OVER before" for side in (0, 1)
    ]
    return (
        f"SELECT b, {reached[0]} AS p, {reached[1]} AS q, CASE WHEN p < q THEN p "
        "WHEN p >= q THEN q END AS mark FROM every_time GROUP BY b "
        f"WINDOW before AS (ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND {until})"
    )


def _condition_sql(question: Question, schemas: tuple[pa.Schema, pa.Schema]) -> str:
    conditions = [f"a.c{i} = b.c{j}" for i, j in question.strict]
    conditions += [f"a.c{i} IS NOT DISTINCT FROM b.c{j}" for i, j in question.null_safe]
    for i, j, width in question.near:
        kinds = schemas[0].field(i).type, schemas[1].field(j).type
        conditions.append(_near_sql(f"a.c{i}", f"b.c{j}", kinds, width))
    if question.pairs is not None:
        numbers = [f"{name}.c{len(schema) - 1}" for name, schema in zip("ab", schemas, strict=True)]
        conditions.append(f"({question.pairs.duckdb(*numbers)})")
    if question.within is not None:
        for compared, bound in zip((">=", "<="), question.within, strict=True):
            conditions += [] if bound is None else [f"b.t - a.t {compared} {bound}"]
    return " AND ".join(conditions)


def _near_sql(
    a: str, b: str, kinds: tuple[pa.DataType, pa.DataType], width: int | float | Decimal
) -> str:
    if pt.is_timestamp(kinds[0]):
        return f"abs(epoch_us({a}) - epoch_us({b})) <= {width}"
    if pt.is_date(kinds[0]):
        return f"abs({a} - {b}) <= {width}"
    if any(map(pt.is_floating, kinds)):
        return f"abs({a}::DOUBLE - {b}::DOUBLE) <= {float(width)!r}::DOUBLE"
    if any(map(pt.is_decimal, kinds)):
        return f"abs({a}::DECIMAL(38, 12) - {b}::DECIMAL(38, 12)) <= {width}::DECIMAL(38, 12)"
    return f"abs({a}::HUGEINT - {b}::HUGEINT) <= {width}"
