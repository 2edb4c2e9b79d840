"""Strings compared with one text, without the call a row that Arrow makes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays.compiled import kernel
from skewless.arrays.types import Flags, frozen

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

SHORT = 16


def equals_text(array: pa.StringArray, text: str) -> pa.BooleanArray:
    if not len(array):
        return pa.array([], pa.bool_())
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    held = np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8)
    wanted = np.frombuffer(text.encode(), np.uint8)
    same = _equal_bytes(frozen(starts), frozen(held), frozen(wanted))
    mask = None if not array.null_count else array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(same, mask=mask)


@kernel
def _equal_bytes(starts: Offsets, held: Bytes, wanted: Bytes) -> Flags:
    """Short texts are compared to their end in every row: a branch that is guessed wrongly costs
    more than that."""
    size, last = wanted.size, held.size - 1
    same = np.zeros(starts.size - 1, np.bool_)
    if size > SHORT:
        for i in range(same.size):
            start = starts[i]
            same[i] = starts[i + 1] - start == size and (held[start : start + size] == wanted).all()
        return same
    for i in range(same.size):
        start = starts[i]
        is_same = starts[i + 1] - start == size
        for at in range(size):
            is_same &= held[min(start + at, last)] == wanted[at]
        same[i] = is_same
    return same
