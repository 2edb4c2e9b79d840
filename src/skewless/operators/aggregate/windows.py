"""Windows of time: tumbling, or sliding so that a row is in several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skewless.arrays.types import Ints


@dataclass(frozen=True)
class Window:
    """Windows of `size_us`, one beginning every `slide_us`, counted from 1970 like Spark's. Equal
    sizes make windows that tumble; a longer slide than the size would leave rows out.

    >>> Window(10, 10).starts_of(np.array([9, 10, 25]))
    (array([0, 1, 2]), array([ 0, 10, 20]))
    >>> Window(10, 5).starts_of(np.array([9, 10]))
    (array([0, 1, 0, 1]), array([ 5, 10,  0,  5]))
    """

    size_us: int
    slide_us: int

    def starts_of(self, times: Ints) -> tuple[Ints, Ints]:
        """The rows, once per window they are in, and the begin of that window."""
        last = self.last_start_of(times)
        each = np.arange(len(times))
        rows, starts = [each], [last]
        for back in range(self.slide_us, self.size_us, self.slide_us):
            start = last - back
            inside = start + self.size_us > times
            rows.append(each[inside])
            starts.append(start[inside])
        return np.concatenate(rows), np.concatenate(starts)

    @property
    def per_row(self) -> int:
        """How many windows a row is in at most."""
        return -(-self.size_us // self.slide_us)

    def last_start_of(self, times: Ints) -> Ints:
        """The begin of the last window that each row is in."""
        return times // self.slide_us * self.slide_us

    def closed_to_us(self, watermark_us: int) -> int:
        """The last begin of a window that ends at or before the watermark."""
        return watermark_us - self.size_us
