"""The way that is taken by default: whatever has shown to be cheap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewless.operators.three_way.strategies.base import RunningStrategy, ThreeStrategy

if TYPE_CHECKING:
    from skewless.operators.three_way.spec import ThreeSpec


@dataclass(frozen=True)
class AutoThree(ThreeStrategy):
    """New rows are dealt out to the instances and look for their partners along the way that has
    shown the fewest candidates. Nothing is broadcast. Pairs of two streams are materialized,
    packed, only where that has shown to pay."""

    def intermediates(self, spec: ThreeSpec) -> str:
        return "where they pay"

    def begin(self, spec: ThreeSpec, facts: Mapping[str, Any]) -> RunningStrategy:
        from skewless.operators.three_way.auto import RunningAuto

        return RunningAuto(spec, facts.get("materialized"))
