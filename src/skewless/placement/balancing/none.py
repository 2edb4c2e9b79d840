"""The null strategy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skewless.placement.balancing.base import Balancing
from skewless.placement.balancing.changes import Change
from skewless.placement.balancing.view import View


@dataclass(frozen=True, kw_only=True)
class NoBalancing(Balancing):
    """Watches the loads and changes nothing: `Hash` with figures per slot and key.

    >>> NoBalancing().start(slots=4, instances=2).instance_of.tolist()
    [0, 0, 1, 1]
    """

    def wants_change(self, view: View) -> bool:
        return False

    def propose(self, view: View) -> Iterator[Change]:
        return iter(())
