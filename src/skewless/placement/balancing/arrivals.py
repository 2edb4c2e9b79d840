"""How fast rows arrive: LS-Stream's eq. 4."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Floats


def steady_batches(rows: Floats) -> npt.NDArray[np.bool_]:
    """Which of the last batches tell how fast rows arrive: all but the one with the most rows and
    the one with the fewest, so that one sudden rise or fall counts for nothing. Of fewer than
    three batches, all.

    The mean over these is what the text under eq. 4 says: the average without the highest and the
    lowest. The equation itself divides by the whole period all the same, which would make a steady
    10, 10, 10, 10, 10 a rate of 6, and a saturated instance one with time to spare.

    >>> steady_batches(np.array([10.0, 90.0, 11.0, 0.0, 12.0])).tolist()
    [True, False, True, False, True]
    """
    steady = np.ones(len(rows), np.bool_)
    if len(rows) >= 3:
        order = np.argsort(rows, kind="stable")
        steady[order[[0, -1]]] = False
    return steady
