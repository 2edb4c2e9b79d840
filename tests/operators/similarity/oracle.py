"""What a similarity join must give: every pair compared, by NumPy and SciPy, one at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Pair = tuple[int, int]

FOREVER = (-(1 << 62), 1 << 62)
CLOSE = 1e-7  # distances that near to the threshold may fall either way, unless they are exact


def distance(metric: str, a: Sequence[float], b: Sequence[float]) -> float:
    """A distance as a textbook has it."""
    x, y = np.asarray(a, float), np.asarray(b, float)
    if metric == "euclidean":
        return float(np.linalg.norm(x - y))
    if metric == "manhattan":
        return float(np.abs(x - y).sum())
    if metric == "hamming":
        return float(np.mean(x != y)) if len(x) else 0.0
    if metric == "angular":
        cosine = float(np.dot(x / np.linalg.norm(x), y / np.linalg.norm(y)))
        return math.acos(min(1.0, max(-1.0, cosine))) / math.pi
    if metric == "jaccard":
        union = set(a) | set(b)
        return 1 - len(set(a) & set(b)) / len(union) if union else 0.0
    north, east = math.radians(y[0] - x[0]), math.radians(y[1] - x[1])
    h = (
        math.sin(north / 2) ** 2
        + math.cos(math.radians(x[0])) * math.cos(math.radians(y[0])) * math.sin(east / 2) ** 2
    )
    return 2 * 6_371_008.8 * math.asin(min(1.0, math.sqrt(h)))


@dataclass(frozen=True)
class Question:
    """Rows are (number, time, value). `within` is of right minus left, `FOREVER` if any times do;
    `window` if any."""

    metric: str
    threshold: float
    within: tuple[int, int]
    window: int | None
    late: tuple[int, int]
    self_join: bool


@dataclass(frozen=True)
class Answer:
    """The pairs (numbers of rows) that come with a batch for certain, those that may, and how many
    rows were late."""

    certain: frozenset[Pair]
    possible: frozenset[Pair]
    late: int


OneRow = tuple[int, int, Any]


def answers(question: Question, batches: Sequence[Sequence[Sequence[OneRow]]]) -> list[Answer]:
    """For batches of [left rows, right rows], or [rows] where a stream is joined with itself."""
    sides = 1 if question.self_join else 2
    reached = [-math.inf] * sides
    stored: list[list[OneRow]] = [[] for _ in range(sides)]
    found = []
    for batch in batches:
        watermark = min(r - question.late[i] for i, r in enumerate(reached))
        new: list[list[OneRow]] = [[] for _ in range(sides)]
        late = 0
        for i in range(sides):
            for row in batch[i]:
                reached[i] = max(reached[i], row[1])
                if row[1] < watermark:
                    late += 1
                else:
                    new[i].append(row)
        certain, possible = set(), set()
        for a, b in _pairs(question, stored, new):
            apart = distance(question.metric, a[2], b[2])
            # Of whole numbers these are exact, and so are their ties with the threshold.
            exact = question.metric not in ("angular", "haversine")
            pair = (min(a[0], b[0]), max(a[0], b[0])) if question.self_join else (a[0], b[0])
            slack = 0 if exact else CLOSE * (1 + question.threshold)
            if apart <= question.threshold - slack or (apart == question.threshold == 0):
                certain.add(pair)
            if apart <= question.threshold + slack:
                possible.add(pair)
        for i in range(sides):
            stored[i] += new[i]
        found.append(Answer(frozenset(certain), frozenset(possible), late))
    return found


def _pairs(
    question: Question, stored: list[list[OneRow]], new: list[list[OneRow]]
) -> list[tuple[OneRow, OneRow]]:
    if question.self_join:
        candidates = [(a, b) for a in stored[0] for b in new[0]]
        candidates += [(a, b) for n, a in enumerate(new[0]) for b in new[0][n + 1 :]]
    else:
        candidates = [(a, b) for a in stored[0] + new[0] for b in new[1]]
        candidates += [(a, b) for a in new[0] for b in stored[1]]
    return [(a, b) for a, b in candidates if _in_time(question, a, b)]


def _in_time(question: Question, a: OneRow, b: OneRow) -> bool:
    if question.window is not None:
        return a[1] // question.window == b[1] // question.window
    return question.within[0] <= b[1] - a[1] <= question.within[1]
