"""What an asof join computes: each left row with the one right row nearest in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from skewless.arrays.types import Side, SideSpec
from skewless.operators.epochs import Epoch
from skewless.operators.join_type import INNER, JoinType
from skewless.operators.pair import JoinSpec, OutputColumn

Direction = Literal["backward", "forward", "nearest"]
DIRECTIONS: tuple[Direction, ...] = ("backward", "forward", "nearest")


@dataclass(frozen=True)
class AsofSpec(JoinSpec):
    """A join of which every left row has at most one pair: of all rows within the bounds that of
    the nearest time, of two equally near ones the earlier, and of several of one time the greatest
    by its columns, one after the other. Without `exact`, rows of equal time do not pair.

    Which one it is, is a function of the stored rows alone, once no other can come: when the
    watermark has passed the latest time that a partner can have.
    """

    direction: Direction = "backward"
    exact: bool = True

    @staticmethod
    def of(
        left: SideSpec, right: SideSpec, direction: Direction, tolerance_us: int,
        output: tuple[OutputColumn, ...], *, exact: bool = True, how: JoinType = INNER,
        drop_null_times: bool = False,
    ) -> AsofSpec:  # fmt: skip
        """With the bounds that a direction and a tolerance mean."""
        gap = 0 if exact else 1
        lower = gap if direction == "forward" else -tolerance_us
        upper = -gap if direction == "backward" else tolerance_us
        return AsofSpec(
            left, right, lower, upper, output, drop_null_times, how,
            direction=direction, exact=exact,
        )  # fmt: skip

    @property
    def reach_us(self) -> tuple[int, int, int]:
        """How far a row looks back and ahead, -1 if it does not; and from how far on."""
        before = -1 if self.direction == "forward" else -self.lower_us
        after = -1 if self.direction == "backward" else self.upper_us
        return before, after, 0 if self.exact else 1

    def of_epochs(self) -> list[tuple[Epoch, AsofSpec]]:
        """The join as it is for the left rows of each epoch."""
        return [
            (e, replace(self, lower_us=e.lower_us, upper_us=e.upper_us, earlier=()))
            for e in self.epochs
        ]

    @property
    def looked_up(self) -> tuple[Side, ...]:
        return ("left",)

    def lags_us(self) -> tuple[int, int]:
        """A left row comes when the watermark has passed its bound; its partner need not be new."""
        ahead = max(0, self.upper_us)
        return ahead, ahead - self.lower_us

    def _needed(self, side: Side, output: Sequence[OutputColumn]) -> set[int]:
        """All columns of a right row say which of several it is."""
        if side == "right":
            return set(range(len(self.right.schema)))
        return super()._needed(side, output)

    def fingerprint(self) -> dict[str, str]:
        facts = super().fingerprint() | {"kind": "asof join", "direction": self.direction}
        return facts if self.exact else facts | {"exact matches": "no"}
