"""The types of join: what becomes of rows that have a partner, and of those that have none."""

from __future__ import annotations

from dataclasses import dataclass

from skewless.arrays.types import Side


@dataclass(frozen=True)
class JoinType:
    """What a join emits: matching `pairs`; rows of the sides in `unmatched` alone, once it is
    certain that they have no partner; rows of the sides in `first_met` alone, once each, as soon
    as they have one."""

    name: str
    pairs: bool = False
    unmatched: tuple[Side, ...] = ()
    first_met: tuple[Side, ...] = ()

    @property
    def looked_up(self) -> tuple[Side, ...]:
        """Sides whose rows are asked whether they have a partner at all."""
        return self.unmatched + self.first_met

    @property
    def shown(self) -> tuple[Side, ...]:
        """Sides whose columns are in the result."""
        return ("left", "right") if self.pairs else self.looked_up

    def is_always_there(self, side: Side) -> bool:
        """Whether every row of the result has a row of this side."""
        return side in self.shown and all(other == side for other in self.looked_up)


INNER = JoinType("inner", pairs=True)
JOIN_TYPES = {
    join.name: join
    for join in (
        INNER,
        JoinType("left", pairs=True, unmatched=("left",)),
        JoinType("right", pairs=True, unmatched=("right",)),
        JoinType("full", pairs=True, unmatched=("left", "right")),
        JoinType("left_semi", first_met=("left",)),
        JoinType("right_semi", first_met=("right",)),
        JoinType("left_anti", unmatched=("left",)),
        JoinType("right_anti", unmatched=("right",)),
    )
}
# Spark's spellings; it ignores underscores and case.
SPELLINGS = {
    "leftouter": "left",
    "rightouter": "right",
    "outer": "full",
    "fullouter": "full",
    "semi": "left_semi",
    "anti": "left_anti",
}


def join_type(how: str) -> JoinType | None:
    """The type of join that a word means, as Spark reads it; None if it means none.

    >>> join_type("LEFT_OUTER").name, join_type("leftsemi").name, join_type("cross")
    ('left', 'left_semi', None)
    """
    word = how.lower().replace("_", "")
    known = {name.replace("_", ""): name for name in JOIN_TYPES} | SPELLINGS
    return JOIN_TYPES[known[word]] if word in known else None
