"""The expected probability of Pd-Stream, found while the stream runs.

More candidates than balance needs only split keys. How many it needs depends on the skew, on the
number of instances and on how fast hot keys change, so there is a ladder of expectations: up as
soon as the load is uneven, down while it is even and keys are still being split.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_kernel = numba.njit(cache=True, nogil=True)

RUNGS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 0.999)
FIRST_RUNG = RUNGS.index(0.9)
CALM_LOOKS = 16  # even looks before a step down
CALM_LOOKS_MAX = 1024  # a step down that proves wrong doubles them, up to here

RUNG, CALM, NEEDED, SPLITS, AHEAD, PROBING = range(6)


def fresh_control() -> Ints:
    """What a grouper knows between looks: its rung, how many looks in a row were even and how many
    must be for a step down, the candidates added meanwhile, how far ahead the busiest instance
    was at the last look, and whether the last step went down."""
    control = np.zeros(6, np.int64)
    control[RUNG], control[NEEDED] = FIRST_RUNG, CALM_LOOKS
    return control


@_kernel
def adapt(control: Ints, loads: Ints, tuples: np.int64, window: int) -> None:
    """A look at the loads, once in a window. They are uneven if the busiest instance is ahead of
    the mean by more than an instance gets in one and a half windows, and is not falling back yet:
    a step up. A step down needs even looks in a row, and keys that were split in that time: without
    any it would change nothing."""
    ahead = len(loads) * loads.max() - tuples
    falling, control[AHEAD] = ahead < control[AHEAD], ahead
    if 2 * ahead <= 3 * window:
        control[CALM] += 1
        if control[CALM] >= control[NEEDED] and control[SPLITS] > 0 and control[RUNG] > 0:
            control[RUNG] -= 1
            control[CALM] = control[SPLITS] = 0
            control[PROBING] = 1
    elif not falling:
        if control[PROBING]:
            control[NEEDED] = min(2 * control[NEEDED], CALM_LOOKS_MAX)
        control[RUNG] = min(control[RUNG] + 1, len(RUNGS) - 1)
        control[CALM] = control[SPLITS] = control[PROBING] = 0
    else:
        control[CALM] = 0
