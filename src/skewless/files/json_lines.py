"""Lines of JSON, looked at from outside: which are objects, and which cannot be."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skewless.arrays.compiled import kernel

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]

OBJECT, MALFORMED, NULL, ODD, ROWS = 1, 2, 3, 4, 5


@kernel
def lines(data: Bytes, begins: Places, ends: Places, states: States) -> int:
    """Begin, end and state of every line that is not blank; how many there are."""
    rows, at = 0, 0
    while at < data.size:
        first, last = -1, -1
        closes = False
        p = at
        while p < data.size and data[p] != 10 and data[p] != 13:
            c = data[p]
            if c not in (32, 9):
                first = p if first < 0 else first
                last = p
            closes = closes or c == 125
            p += 1
        at = p + 1
        if first < 0:
            continue
        begins[rows], ends[rows] = first, last + 1
        states[rows] = _state(data[first], data[last], closes)
        rows += 1
    return rows


@kernel
def _state(first: int, last: int, closes: bool) -> int:
    """`{…}` is an object, and `{…` without any `}` never one. What stands in brackets Spark takes
    for several rows. Of what follows an object it takes no notice: that is odd."""
    if first == 123:
        if last == 125:
            return OBJECT
        return ODD if closes else MALFORMED
    if first == 91:
        return ROWS
    return NULL if first == 110 else MALFORMED


@kernel
def only_objects(data: Bytes, begins: Places, ends: Places, states: States) -> Bytes:
    """Those lines alone, one behind the other."""
    total = 0
    for i in range(begins.size):
        if states[i] == OBJECT:
            total += ends[i] - begins[i] + 1
    held = np.empty(total, np.uint8)
    at = 0
    for i in range(begins.size):
        if states[i] == OBJECT:
            size = ends[i] - begins[i]
            held[at : at + size] = data[begins[i] : ends[i]]
            held[at + size] = 10
            at += size + 1
    return held
