"""A table from 64-bit hashes to small numbers, as two arrays: open addressing, linear probing.

`rows[place]` is the number stored for `keys[place]`, or -1 where the place is free. Capacities are
powers of two and should be twice the number of keys at least.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
UInts = npt.NDArray[np.uint64]

_kernel = numba.njit(cache=True, nogil=True)

FREE = -1


def capacity_for(keys: int) -> int:
    """A power of two that leaves at least half of the places free.

    >>> capacity_for(5)
    16
    """
    return 1 << (2 * keys - 1).bit_length()


@_kernel
def _first_place(key: np.uint64, capacity: int) -> np.int64:
    # A product's middle bits: spread even where hashes differ in a few bits only.
    spread = (key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    return np.int64(spread & np.uint64(capacity - 1))


@_kernel
def place_of(keys: UInts, rows: Ints, key: np.uint64) -> np.int64:
    """Where the key is, or the free place where it belongs."""
    last = len(keys) - 1
    place = _first_place(key, len(keys))
    while rows[place] != FREE and keys[place] != key:
        place = (place + 1) & last
    return place


@_kernel
def remove(keys: UInts, rows: Ints, place: np.int64) -> None:
    """Free a place, and close the gap: no key may be cut off from its first place."""
    last = len(keys) - 1
    gap, at = place, (place + 1) & last
    while rows[at] != FREE:
        wanted = _first_place(keys[at], len(keys))
        # The key at `at` may fill the gap unless its first place lies after the gap.
        if ((at - wanted) & last) >= ((at - gap) & last):
            keys[gap], rows[gap] = keys[at], rows[at]
            gap = at
        at = (at + 1) & last
    rows[gap] = FREE
