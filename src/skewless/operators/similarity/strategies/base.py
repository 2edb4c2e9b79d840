"""What a strategy decides: where a row is stored, where it looks for partners, how sets end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from skewless.arrays.types import Floats, Ints, UInts
from skewless.operators.similarity.centers import in_reach
from skewless.operators.similarity.points import Points
from skewless.operators.similarity.worksets import BOUNDLESS, Worksets
from skewless.placement.balancing.worksets import WorksetLoad, WorksetMove

if TYPE_CHECKING:  # compiles loops, which would make importing skewless slow
    from skewless.operators.similarity.spec import SimilaritySpec


class Assignment(NamedTuple):
    """The workset of each row, its distance from the center, and all worksets that take rows."""

    ids: UInts
    from_center: Floats
    worksets: Worksets


def unbounded(points: Points) -> Assignment:
    """All rows in the workset without bounds: no distance is computed."""
    count = len(points)
    ids, far = np.full(count, BOUNDLESS), np.full(count, np.inf)
    return Assignment(ids, far, Worksets.boundless(points))


class SimilarityStrategy(ABC):
    """A way to find pairs that are alike. Configurations are frozen and picklable."""

    counts_inner: ClassVar[bool] = False
    """Whether pairs are counted apart that the triangle inequality decides."""

    @property
    @abstractmethod
    def workset_rule(self) -> str:
        """How rows are put into worksets: a checkpoint is tied to it."""

    @property
    def has_owners(self) -> bool:
        """Whether a workset is worked on by one instance, for all new rows. If not, new rows are
        dealt out, and every instance looks into all worksets."""
        return False

    @abstractmethod
    def assign(
        self, spec: SimilaritySpec, points: Points, known: Worksets | None, stored: int = 0
    ) -> Assignment:
        """Give new rows their worksets, those `known` that are open or new ones. `stored` is how
        many rows there are already. Tasks do this on their own, side by side."""

    def probe(self, spec: SimilaritySpec, points: Points, worksets: Worksets) -> tuple[Ints, Ints]:
        """Which worksets rows have to look into: (row, number of the workset)."""
        return in_reach(spec, points, worksets)

    def close_redundant(
        self, spec: SimilaritySpec, worksets: Worksets, known: Worksets | None, rows: int
    ) -> Worksets:
        """Close worksets that there would not be, had one task seen all `rows`. Their members stay
        where they are; new rows go elsewhere, so that closed ones are empty in the end. Those
        `known` before stay as they are."""
        return worksets

    def retire(self, worksets: Worksets, keep_after_us: int, keep_open_after_us: int) -> Worksets:
        """Those that stay: all that hold rows, and open ones that held some not long ago, as what
        comes next is likely to be like what has been."""
        after = np.where(worksets.is_open, keep_open_after_us, keep_after_us)
        return worksets.take(np.flatnonzero(worksets.last_us >= after))

    def balance(self, loads: Sequence[WorksetLoad], instances: int) -> list[WorksetMove]:
        """Which worksets go to another instance, where they have owners."""
        return []
