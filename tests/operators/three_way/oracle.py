"""What a three-way join must give, told twice: by nested loops, and by DuckDB."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa

from tests.oracle import Row, close, is_nan, microseconds, multiset, rows_of, same


@dataclass(frozen=True)
class Pair:
    """What joins stream a with stream b: `equal` are (column of a, column of b), `near` have a
    width as well; b's time minus a's lies within `within`."""

    a: int
    b: int
    equal: tuple[tuple[int, int], ...]
    near: tuple[tuple[int, int, Any], ...]
    within: tuple[int, int]


@dataclass(frozen=True)
class Question:
    """All conditions; the time column is the same in all streams, `late` one per stream."""

    pairs: tuple[Pair, ...]
    time: int
    late: tuple[int, int, int]


@dataclass
class Answer:
    """Of one batch: its triples, and the rows that were dropped."""

    rows: Counter[Row]
    late: int = 0


Tables = Sequence[pa.Table]  # r, s, t


def answers(question: Question, batches: Sequence[Tables]) -> list[Answer]:
    """What both oracles say. Where they differ one of them is wrong, and nothing else is judged."""
    kept, late = _usable(question, batches)
    by_loops = [multiset(rows) for rows in _nested_loops(question, kept)]
    assert by_loops == [multiset(rows) for rows in _by_duckdb(question, kept, batches)]
    return [Answer(rows, dropped) for rows, dropped in zip(by_loops, late, strict=True)]


def _usable(
    question: Question, batches: Sequence[Tables]
) -> tuple[list[list[list[Row]]], list[int]]:
    """Per batch and stream the rows that count, and per batch how many were late."""
    reached: list[float] = [-math.inf] * 3
    kept, late = [], []
    for tables in batches:
        watermark = min(r - delay for r, delay in zip(reached, question.late, strict=True))
        good: list[list[Row]] = [[], [], []]
        dropped = 0
        for x in range(3):
            needed = [p.equal + p.near for p in question.pairs if x in (p.a, p.b)]
            sides = [0 if p.a == x else 1 for p in question.pairs if x in (p.a, p.b)]
            columns = [c[side] for cs, side in zip(needed, sides, strict=True) for c in cs]
            bands = [c[0 if p.a == x else 1] for p in question.pairs if x in (p.a, p.b)
                     for c in p.near]  # fmt: skip
            for row in rows_of(tables[x]):
                at = microseconds(row[question.time])
                reached[x] = max(reached[x], at)
                if any(row[i] is None for i in columns) or any(is_nan(row[i]) for i in bands):
                    continue
                if at < watermark:
                    dropped += 1
                else:
                    good[x].append(row)
        kept.append(good)
        late.append(dropped)
    return kept, late


def _fits(question: Question, rows: tuple[Row, Row, Row]) -> bool:
    for pair in question.pairs:
        a, b = rows[pair.a], rows[pair.b]
        apart = microseconds(b[question.time]) - microseconds(a[question.time])
        if not pair.within[0] <= apart <= pair.within[1]:
            return False
        if not all(same(a[i], b[j]) for i, j in pair.equal):
            return False
        if not all(close(a[i], b[j], width) for i, j, width in pair.near):
            return False
    return True


def _nested_loops(question: Question, kept: list[list[list[Row]]]) -> list[list[Row]]:
    seen: list[list[tuple[int, Row]]] = [[], [], []]
    found: list[list[Row]] = []
    for number, good in enumerate(kept):
        for x in range(3):
            seen[x] += [(number, row) for row in good[x]]
        found.append([
            r + s + t
            for (n, r), (m, s), (k, t) in product(*seen)
            if number in (n, m, k) and _fits(question, (r, s, t))
        ])  # fmt: skip
    return found


def _by_duckdb(
    question: Question, kept: list[list[list[Row]]], batches: Sequence[Tables]
) -> list[list[Row]]:
    names = "rst"
    everything: list[list[Row]] = [[], [], []]
    with duckdb.connect(config={"threads": 1}) as db:
        for x in range(3):
            schema = batches[0][x].schema
            rows = [(number, row) for number, good in enumerate(kept) for row in good[x]]
            everything[x] = [row for _, row in rows]
            table = pa.table(
                {
                    **{
                        f"c{i}": pa.array([row[i] for _, row in rows], field.type)
                        for i, field in enumerate(schema)
                    },
                    "b": pa.array([n for n, _ in rows], pa.int64()),
                    "i": pa.array(range(len(rows)), pa.int64()),
                }
            )
            db.register(names[x], table)
        conditions = ["true"]
        for pair in question.pairs:
            a, b = names[pair.a], names[pair.b]
            time = f"epoch_us({b}.c{question.time}) - epoch_us({a}.c{question.time})"
            conditions.append(f"{time} BETWEEN {pair.within[0]} AND {pair.within[1]}")
            conditions += [f"{a}.c{i} = {b}.c{j}" for i, j in pair.equal]
            conditions += [f"abs({a}.c{i} - {b}.c{j}) <= {width}" for i, j, width in pair.near]
        found = db.execute(
            "SELECT greatest(r.b, s.b, t.b), r.i, s.i, t.i FROM r, s, t "
            f"WHERE {' AND '.join(conditions)}"
        ).fetchall()
    answers: list[list[Row]] = [[] for _ in kept]
    for number, i, j, k in found:
        answers[number].append(everything[0][i] + everything[1][j] + everything[2][k])
    return answers
