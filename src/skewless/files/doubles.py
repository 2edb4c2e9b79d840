"""The text of doubles as Java writes it: ``0.001``, ``1.0E7``. The digits are the fewest that read
back equal; versions of Java before 19 sometimes have one more."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays.compiled import kernel
from skewless.arrays.types import frozen

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

WIDTH = 32  # no text is longer
_POINT, _ZERO, _MINUS, _EXPONENT, _SMALL_E = (ord(letter) for letter in ".0-Ee")


def double_texts(values: pa.DoubleArray) -> pa.StringArray:
    finite = pc.fill_null(pc.is_finite(values), False)
    shortest = pc.cast(pc.if_else(finite, values, 0.0), pa.string())
    _, offsets, data = shortest.buffers()
    starts = np.frombuffer(offsets, np.int32, len(values) + 1, shortest.offset * 4)
    made, ends = _as_java(frozen(starts), frozen(np.frombuffer(data, np.uint8)))
    text = pa.StringArray.from_buffers(
        len(values), pa.py_buffer(ends), pa.py_buffer(made[: ends[-1]])
    )
    if pc.all(finite).as_py():
        return text
    signed = pc.if_else(pc.greater(values, 0.0), pa.scalar("Infinity"), pa.scalar("-Infinity"))
    named = pc.if_else(pc.is_nan(values), pa.scalar("NaN"), signed)  # null where there is no value
    return pc.if_else(finite, text, named)


@kernel
def _as_java(starts: Offsets, held: Bytes) -> tuple[Bytes, Offsets]:
    """Digits and exponent of each text, written anew: plain from 0.001 to 10 million."""
    rows = starts.size - 1
    out = np.empty(rows * WIDTH + 1, np.uint8)
    ends = np.zeros(rows + 1, np.int32)
    digits = np.empty(WIDTH, np.uint8)
    at = 0
    for row in range(rows):
        count = point = exponent = 0
        seen_point = past_zeros = False
        i, end = starts[row], starts[row + 1]
        if held[i] == _MINUS:
            out[at] = _MINUS
            at += 1
            i += 1
        while i < end and held[i] != _SMALL_E:
            if held[i] == _POINT:
                seen_point = True
            elif held[i] != _ZERO or past_zeros:
                past_zeros = True
                digits[count] = held[i]
                count += 1
                if not seen_point:
                    point += 1
            elif seen_point:
                point -= 1
            i += 1
        if i < end:
            sign = -1 if held[i + 1] == _MINUS else 1
            for j in range(i + 2, end):
                exponent = exponent * 10 + (held[j] - _ZERO)
            exponent *= sign
        while count > 1 and digits[count - 1] == _ZERO:
            count -= 1
        at = _written(out, at, digits, count, point + exponent)
        ends[row + 1] = at
    return out, ends


@kernel
def _written(out: Bytes, at: int, digits: Bytes, count: int, point: int) -> int:
    """Digits with a point behind the first `point` of them; where writing goes on."""
    if count == 0:
        count, point, digits[0] = 1, 1, _ZERO
    is_plain = -3 < point <= 7
    whole = point if is_plain else 1
    if whole <= 0:
        out[at], out[at + 1] = _ZERO, _POINT
        at += 2
        for _ in range(-whole):
            out[at] = _ZERO
            at += 1
    for i in range(max(count, whole + 1)):
        if i == whole and whole > 0:
            out[at] = _POINT
            at += 1
        if whole > 0 or i < count:
            out[at] = digits[i] if i < count else _ZERO
            at += 1
    if is_plain:
        return at
    out[at] = _EXPONENT
    at += 1
    power = point - 1
    if power < 0:
        out[at] = _MINUS
        at, power = at + 1, -power
    divisor = 100 if power >= 100 else (10 if power >= 10 else 1)
    while divisor:
        out[at] = _ZERO + power // divisor % 10
        at, divisor = at + 1, divisor // 10
    return at
