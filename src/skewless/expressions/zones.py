"""Time zones as the JVM has them: the moments at which the distance to UTC changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

CYCLE = 146_097 * 86_400_000_000  # 400 years in microseconds: after them the calendar repeats


@dataclass(frozen=True)
class Zone:
    """Changes in microseconds since 1970, and distances in microseconds, one more than changes.

    The changes of the last 400 years before `end` go on forever.
    """

    changes: tuple[int, ...] = ()
    distances: tuple[int, ...] = (0,)
    end: int = 1 << 62

    @property
    def is_fixed(self) -> bool:
        return not self.changes

    @cached_property
    def _changes(self) -> Any:
        return np.array(self.changes, np.int64)

    @cached_property
    def _distances(self) -> Any:
        return np.array(self.distances, np.int64)

    @cached_property
    def _local_changes(self) -> Any:
        """From when on, by the clock on the wall, the new distance holds. A time that exists twice
        is the earlier one; one that does not exist counts on from before."""
        return self._changes + np.maximum(self._distances[:-1], self._distances[1:])

    def _folded(self, us: Any) -> Any:
        return np.where(us >= self.end, self.end - CYCLE + (us - self.end) % CYCLE, us)

    def local(self, us: Any) -> Any:
        """What clocks on the wall show at moments in UTC."""
        if self.is_fixed:
            return us + self.distances[0]
        at = np.searchsorted(self._changes, self._folded(us), "right")
        return us + self._distances[at]

    def utc(self, local: Any) -> Any:
        """The moments at which clocks on the wall show something."""
        if self.is_fixed:
            return local - self.distances[0]
        at = np.searchsorted(self._local_changes, self._folded(local), "right")
        return local - self._distances[at]

    def moved(self, us: Any, local: Any) -> Any:
        """The moments at which clocks on the wall show something else than at others. Of a time
        that exists twice it is the one with the distance to UTC that clocks have left."""
        if self.is_fixed:
            return local - self.distances[0]
        kept = local - (self.local(us) - us)
        return np.where(self.local(kept) == local, kept, self.utc(local))


UTC = Zone()
