"""The Hilbert curve on a square grid, over whole arrays.

The curve of order `k` visits every cell of a `2**k` by `2**k` grid once, and each step goes to
a neighbouring cell. Numbering the cells along it turns places into integers without tearing
neighbourhoods apart: cells with close numbers are close on the map. The converse does not hold;
two neighbours on the map may be far apart on the curve.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skewless.errors import ArgumentError

MAX_ORDER = 31  # 4**31 cells: the largest grid whose cell numbers fit a signed 64-bit integer

IntArray = npt.NDArray[np.int64]


def hilbert_index(x: IntArray, y: IntArray, order: int) -> IntArray:
    """The position along the curve of the cells in columns `x` and rows `y`.

    `order` sets the grid, `2**order` cells to a side: a higher one is finer, and costs one
    pass over the arrays per unit.

    >>> hilbert_index(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0]), order=1).tolist()
    [0, 1, 2, 3]
    """
    _check_order(order)
    x = _checked("x", x, 1 << order)
    y = _checked("y", y, 1 << order)
    d = np.zeros(np.broadcast_shapes(x.shape, y.shape), dtype=np.int64)
    for bit in reversed(range(order)):
        right = (x >> bit) & 1
        upper = (y >> bit) & 1
        d += ((3 * right) ^ upper) << (2 * bit)
        x, y = _turn(x, y, right, upper, (1 << bit) - 1)
    return d


def hilbert_xy(d: IntArray, order: int) -> tuple[IntArray, IntArray]:
    """The columns and rows of the cells at positions `d`: the inverse of `hilbert_index`.

    >>> x, y = hilbert_xy(np.arange(4), order=1)
    >>> list(zip(x.tolist(), y.tolist()))
    [(0, 0), (0, 1), (1, 1), (1, 0)]
    """
    _check_order(order)
    d = _checked("d", d, 1 << (2 * order))
    x = np.zeros(d.shape, dtype=np.int64)
    y = np.zeros(d.shape, dtype=np.int64)
    for bit in range(order):
        quadrant = (d >> (2 * bit)) & 3
        right = quadrant >> 1
        upper = (quadrant & 1) ^ right
        x, y = _turn(x, y, right, upper, (1 << bit) - 1)
        x = x | (right << bit)
        y = y | (upper << bit)
    return x, y


def _turn(
    x: IntArray, y: IntArray, right: IntArray, upper: IntArray, low_bits: int
) -> tuple[IntArray, IntArray]:
    """Enter a quadrant: the two lower ones hold the curve mirrored, the right one also flipped.

    The step is its own inverse, which is why both directions share it. Bits above `low_bits`
    are dropped, for the caller has read them already or has not set them yet.
    """
    flip = np.where((right == 1) & (upper == 0), low_bits, 0)
    x = (x & low_bits) ^ flip
    y = (y & low_bits) ^ flip
    lower = upper == 0
    return np.where(lower, y, x), np.where(lower, x, y)


def _check_order(order: int) -> None:
    if not 0 <= order <= MAX_ORDER:
        raise ArgumentError("order", order, f"between 0 and {MAX_ORDER}")


def _checked(name: str, values: IntArray, bound: int) -> IntArray:
    # same_kind lets every integer type in and refuses floats, which would be cut off silently.
    values = np.asarray(values).astype(np.int64, casting="same_kind")
    if values.size and not (values.min() >= 0 and values.max() < bound):
        wrong = values[(values < 0) | (values >= bound)]
        raise ArgumentError(name, int(wrong[0]), f"between 0 and {bound - 1}")
    return values
