"""What an aggregation must give, computed by DuckDB: which rows count in which window is decided
row by row in plain Python, the aggregates themselves are DuckDB's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

IN_DUCKDB = {
    "count": "count({0})",
    "sum": "sum({0})",
    "min": "min({0})",
    "max": "max({0})",
    "mean": "avg({0})",
    "variance": "var_samp({0})",
    "stddev": "stddev_samp({0})",
    "approx_distinct": "count(distinct {0})",
    "quantile": "quantile_disc({0}, {1})",
}

Group = tuple[Any, ...]
Results = dict[Group, tuple[Any, ...]]


@dataclass(frozen=True)
class Question:
    """What is asked for: `aggs` are (name, column, parameter), column None for all rows."""

    keys: tuple[str, ...]
    time: str | None
    size: int | None
    slide: int | None
    late: int
    aggs: tuple[tuple[str, str | None, float | None], ...]


@dataclass(frozen=True)
class Answer:
    """After one batch: the groups whose windows closed, all that it touched, and late rows."""

    closed: Results
    touched: Results
    late: int


def starts(time_us: int, size: int, slide: int) -> list[int]:
    """The begins of all windows that hold a moment, tried one by one."""
    first = (time_us - size) // slide - 1
    return [
        n * slide
        for n in range(first, first + size // slide + 4)
        if n * slide <= time_us < n * slide + size
    ]


def answers(question: Question, batches: Sequence[pa.Table]) -> list[Answer]:
    watermark: float = -math.inf
    latest: float = -math.inf
    taken: list[tuple[int, int, int]] = []  # (batch, row, window) that count
    closed: set[int] = set()
    found = []
    for number, batch in enumerate(batches):
        late, times = 0, [0] * batch.num_rows
        if question.time is not None:
            times = batch.column(question.time).cast(pa.int64()).to_pylist()
        for row, time in enumerate(times):
            windows = [0]
            if question.size is not None:
                every = starts(time, question.size, question.slide)
                windows = [w for w in every if w + question.size > watermark]
                late += not windows
            taken += [(number, row, window) for window in windows]
            latest = max(latest, time)
        touched = {w for n, _, w in taken if n == number}
        closing: set[int] = set()
        if question.size is not None:
            watermark = max(watermark, latest - question.late)
            over = {w for _, _, w in taken if w + question.size <= watermark}
            closing = over - closed
            closed |= over
        all_now = aggregate(question, batches, taken)
        mine = aggregate(question, batches, [t for t in taken if t[0] == number])
        found.append(
            Answer(
                {g: v for g, v in all_now.items() if g[0] in closing},
                {g: v for g, v in all_now.items() if g[0] in touched and g in mine},
                late,
            )
        )
    return found


def aggregate(
    question: Question, batches: Sequence[pa.Table], taken: Sequence[tuple[int, int, int]]
) -> Results:
    if not taken:
        return {}
    begins = [0]
    for batch in batches:
        begins.append(begins[-1] + batch.num_rows)
    rows = pa.concat_tables(batches).take([begins[n] + row for n, row, _ in taken])
    rows = rows.append_column("w", pa.array([w for _, _, w in taken], pa.int64()))
    wanted = []
    for name, column, parameter in question.aggs:
        said = "*" if column is None else f'"{column}"'
        wanted.append(IN_DUCKDB[name].format(said, parameter))
    keys = ", ".join(["w", *(f'"{k}"' for k in question.keys)])
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        answered = connection.sql(f"select {keys}, {', '.join(wanted)} from rows group by {keys}")
        width = 1 + len(question.keys)
        return {group_of(r[:width]): tuple(r[width:]) for r in answered.fetchall()}


def group_of(values: Sequence[Any]) -> Group:
    """Values as they compare in a key: NaN with itself, -0.0 with 0.0."""
    return tuple(
        "NaN" if isinstance(v, float) and math.isnan(v) else v + 0.0 if isinstance(v, float) else v
        for v in values
    )


def results_of(table: pa.Table, keys: int, *, windowed: bool) -> Results:
    """Results of skewless in the same form; a group that comes twice is an error."""
    found: Results = {}
    for row in table.to_pylist():
        values = list(row.values())
        if windowed:
            span = table.schema.field(0).type.field(0).type
            start = pa.scalar(values.pop(0)["start"], span).cast(pa.int64()).as_py()
        else:
            start = 0
        group = (start, *group_of(values[:keys]))
        assert group not in found, f"{group} came twice"
        found[group] = tuple(values[keys:])
    return found


def assert_alike(found: Results, expected: Results) -> None:
    assert found.keys() == expected.keys()
    for group, values in expected.items():
        for mine, theirs in zip(found[group], values, strict=True):
            assert alike(mine, theirs), f"{group}: {found[group]}, expected {values}"


def alike(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) and isinstance(mine, float):
        return math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9) or (
            math.isnan(mine) and math.isnan(theirs)
        )
    if isinstance(theirs, Decimal) or isinstance(mine, Decimal):
        return mine is not None and theirs is not None and Decimal(mine) == Decimal(theirs)
    return bool(mine == theirs)
