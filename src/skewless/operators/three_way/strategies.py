"""How three streams are joined; the result is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skewless.errors import ArgumentError
from skewless.operators.three_way.spec import NAMES


class ThreeStrategy:
    """A way to join three streams. Configurations are frozen."""

    @property
    def intermediates(self) -> str:
        """What lies in the state besides rows: a checkpoint is tied to it, since what earlier
        batches have not kept cannot be found."""
        return "where they pay"


@dataclass(frozen=True)
class AutoThree(ThreeStrategy):
    """New rows are dealt out to the instances and look for their partners along the way that has
    shown the fewest candidates. Nothing is broadcast. Pairs of two streams are kept, packed, only
    where that has shown to pay."""


@dataclass(frozen=True)
class TriJoin(ThreeStrategy):
    """The paper's: three groups of instances, new rows sent to all of the other two, every pair
    kept until its third row comes.

    - `packing`: keep a hub row with the run of its partners once; False keeps pairs, which takes
      more memory and more comparisons.
    """

    packing: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.packing, bool):
            raise ArgumentError("packing", self.packing, "True or False")

    @property
    def intermediates(self) -> str:
        return "packs of all pairs"


@dataclass(frozen=True)
class Tree(ThreeStrategy):
    """BiStream + Tree, the paper's baseline: two two-way joins, one after the other.

    - `order`: which two streams are joined first, and which comes last, by the names "r", "s", "t"
      of the first, second and third input. The first two must have a condition. Default: by what
      the conditions allow, in the order of the inputs.
    """

    order: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        given: Any = self.order
        if given is not None and (
            not isinstance(given, tuple | list) or sorted(map(str, given)) != sorted(NAMES)
        ):
            raise ArgumentError("order", given, 'the names "r", "s" and "t" in any order')

    @property
    def intermediates(self) -> str:
        return "pairs"
