"""TriJoin, as its paper has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewless.errors import ArgumentError
from skewless.operators.three_way.strategies.base import RunningStrategy, ThreeStrategy

if TYPE_CHECKING:
    from skewless.operators.three_way.spec import ThreeSpec


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

    def intermediates(self, spec: ThreeSpec) -> str:
        return "packs of all pairs"

    def begin(self, spec: ThreeSpec, facts: Mapping[str, Any]) -> RunningStrategy:
        from skewless.operators.three_way.trijoin import RunningTriJoin

        return RunningTriJoin(spec, self.packing)
