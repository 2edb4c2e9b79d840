"""The right answer to an asof join, by nested loops over plain Python values. It shares no code
with the product.

A left row is told of after the first batch from which on no right row can come that would be a
partner: those to come are at or after the watermark. Its partner is then the right row nearest in
time, among those with equal keys that the direction and the tolerance allow; of two equally near
ones the earlier; of several at one time the greatest, by its columns from left to right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.oracle import Answer, Row, Tables, microseconds, multiset, rows_of, same

Rows = Counter[Row]


@dataclass(frozen=True)
class Question:
    """What is asked. Columns are the `keys` first keys, then the time, then others. In the
    `null_safe` ones of the keys a null is a value."""

    keys: int
    direction: str
    tolerance: int
    exact: bool
    late: tuple[int, int]
    how: str
    null_safe: tuple[int, ...] = ()


def order_of(value: Any) -> Any:
    """Something that compares as values do: nothing is least, NaN greatest, -0.0 below 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        sign = math.copysign(1, value)
        return (1, (1, 0, 0)) if math.isnan(value) else (1, (0, value, sign))
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, dict):
        return (1, [order_of(v) for v in value.values()])
    if isinstance(value, list | tuple):
        return (1, [order_of(v) for v in value])
    return (1, value)


class _Side:
    def __init__(self, question: Question, late: int, *, keeps_keyless: bool) -> None:
        self.keys, self.late, self.keeps_keyless = question.keys, late, keeps_keyless
        self.null_safe = question.null_safe
        self.reached: int | None = None
        self.rows: list[Row] = []

    def time_us(self, row: Row) -> int:
        return microseconds(row[self.keys])

    def has_key(self, row: Row) -> bool:
        return all(row[i] is not None for i in range(self.keys) if i not in self.null_safe)

    def take(self, rows: Sequence[Row], answer: Answer) -> None:
        latest = self.reached
        for row in rows:
            if row[self.keys] is None:
                answer.null_times += 1
                continue
            time = self.time_us(row)
            latest = time if latest is None else max(latest, time)
            if not self.has_key(row) and not self.keeps_keyless:
                answer.null_keys += 1
            elif answer.watermark_us is not None and time < answer.watermark_us:
                answer.late += 1
            else:
                self.rows.append(row)
        self.reached = latest


def answers(question: Question, batches: Sequence[Tables]) -> list[Answer]:
    """What every batch must give."""
    left = _Side(question, question.late[0], keeps_keyless=question.how == "left")
    right = _Side(question, question.late[1], keeps_keyless=False)
    found = []
    for tables in batches:
        answer = Answer(watermark_us=_watermark(left, right))
        left.take(rows_of(tables[0]), answer)
        right.take(rows_of(tables[1]), answer)
        after = _watermark(left, right)
        decided = [row for row in left.rows if not _is_open(question, left.time_us(row), after)]
        left.rows = [row for row in left.rows if _is_open(question, left.time_us(row), after)]
        told = []
        for row in decided:
            partner = _partner(question, left, row, right)
            if partner is not None:
                told.append(row + partner)
            elif question.how == "left":
                told.append(row + (None,) * tables[1].num_columns)
        answer.rows = multiset(told)
        found.append(answer)
    return found


def in_all(question: Question, batches: Sequence[Tables], since_us: int, later: int) -> Rows:
    """What comes of all left rows that are on time, where from a time on another tolerance holds,
    and the streams go on until all is certain."""
    left = _Side(question, question.late[0], keeps_keyless=question.how == "left")
    right = _Side(question, question.late[1], keeps_keyless=False)
    for tables in batches:
        answer = Answer(watermark_us=_watermark(left, right))
        left.take(rows_of(tables[0]), answer)
        right.take(rows_of(tables[1]), answer)
    told = []
    for row in left.rows:
        changed = left.time_us(row) >= since_us
        asked = replace(question, tolerance=later) if changed else question
        partner = _partner(asked, left, row, right)
        if partner is not None or question.how == "left":
            told.append(row + (partner or (None,) * batches[0][1].num_columns))
    return multiset(told)


def _watermark(left: _Side, right: _Side) -> int | None:
    if left.reached is None or right.reached is None:
        return None
    return min(left.reached - left.late, right.reached - right.late)


def _is_open(question: Question, time: int, after: int | None) -> bool:
    """Whether a right row that is yet to come could be a partner."""
    if after is None:
        return True
    latest = time + question.tolerance
    if question.direction == "backward":
        latest = time if question.exact else time - 1
    return latest >= after


def _partner(question: Question, left: _Side, row: Row, right: _Side) -> Row | None:
    def distance(other: Row) -> int:
        return right.time_us(other) - left.time_us(row)

    def fits(other: Row) -> bool:
        apart = distance(other)
        way = {"backward": apart <= 0, "forward": apart >= 0, "nearest": True}[question.direction]
        near = abs(apart) <= question.tolerance and (question.exact or apart != 0)
        keys = zip(row[: question.keys], other[: question.keys], strict=True)
        return way and near and left.has_key(row) and all(same(a, b) for a, b in keys)

    found = [other for other in right.rows if fits(other)]
    if not found:
        return None
    best = min((abs(distance(other)), distance(other)) for other in found)
    tied = [other for other in found if (abs(distance(other)), distance(other)) == best]
    return max(tied, key=lambda other: [order_of(value) for value in other])
