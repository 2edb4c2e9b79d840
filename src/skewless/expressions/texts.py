"""Strings compared with one text: most are told apart by their length, which needs no call a row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.arrays.compiled import kernel
from skewless.arrays.types import frozen

Bytes = npt.NDArray[np.uint8]


def equals_text(array: pa.StringArray, text: str) -> pa.BooleanArray:
    if not len(array):
        return pa.array([], pa.bool_())
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    held = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    wanted = np.frombuffer(text.encode(), np.uint8)
    same = _equal_bytes(frozen(starts), frozen(held), frozen(wanted))
    mask = None if not array.null_count else array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(same, mask=mask)


@kernel
def _equal_bytes(
    starts: npt.NDArray[np.int32], held: Bytes, wanted: Bytes
) -> npt.NDArray[np.bool_]:
    size = wanted.size
    same = np.zeros(starts.size - 1, np.bool_)
    for i in range(same.size):
        start = starts[i]
        if starts[i + 1] - start != size:
            continue
        at = 0
        while at < size and held[start + at] == wanted[at]:
            at += 1
        same[i] = at == size
    return same
