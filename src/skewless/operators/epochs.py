"""Time bounds that were changed while a query was stopped.

By which bound two rows are joined is decided by the time of the left one: rows before the moment of
the change go by the former bound, rows from then on by the new one. So whether two rows match is
still a function of these rows alone, whoever asks and whenever; outer and semi joins need that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import FAR_US, Ints, Side


@dataclass(frozen=True)
class Epoch:
    """Left rows from `since_us` on and before `until_us`, and what their partners' times are:
    ``left.time + lower <= right.time <= left.time + upper``."""

    since_us: int
    until_us: int
    lower_us: int
    upper_us: int

    def partner_bounds(self, prober: Side) -> tuple[int, int]:
        """The interval around a prober's time in which its partner's time lies."""
        if prober == "left":
            return self.lower_us, self.upper_us
        return -self.upper_us, -self.lower_us

    def holds_at(self, left_times: Ints) -> npt.NDArray[np.bool_]:
        return (left_times >= self.since_us) & (left_times < self.until_us)


def next_epochs(
    epochs: Sequence[Epoch], bounds_us: tuple[int, int], watermark_us: int, left_max_us: int
) -> tuple[Epoch, ...]:
    """The epochs once the bounds of the last of them are others.

    The new one begins where no left row has been seen, so that no pair was judged by the former
    bound; where the partners that a longer bound reaches back to have not expired; and where no row
    was decided about as it came, as rows are whose partners lie in the past only.
    """
    lower_us, upper_us = bounds_us
    *earlier, last = epochs
    back_us = max(0, last.lower_us - lower_us, -last.upper_us)
    since_us = max(left_max_us + 1, watermark_us + back_us, last.since_us)
    if since_us <= -FAR_US // 2:  # nothing was seen yet
        return (Epoch(-FAR_US, FAR_US, lower_us, upper_us),)
    if since_us > last.since_us:
        earlier.append(Epoch(last.since_us, since_us, last.lower_us, last.upper_us))
    return (*earlier, Epoch(since_us, FAR_US, lower_us, upper_us))
