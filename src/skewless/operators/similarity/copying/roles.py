"""What rows are to the set that they are stored in, and what their segments look like.

In a partition of the space, a row is `inner` where its centroid is the nearest, `outer` where it is
a copy. In a workset it is at `home`, in the inner set or as an outlier, or it is a `copy`, in the
outer set. A side of the state is an input in one role: "left.home".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skewless.arrays.types import Ints, UInts
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.state.rewriting import Layout
from skewless.state.segments import SegmentInfo

INNER, OUTER, HOME, COPY = "inner", "outer", "home", "copy"
ROLES = (INNER, OUTER, HOME, COPY)

PARTITION_BITS = 40  # ids have the partition above these, and the workset below, from 1 on


@dataclass(frozen=True)
class Members:
    """The two roles that rows have in the sets in which they meet."""

    home: str
    copy: str


IN_PARTITIONS, IN_WORKSETS = Members(INNER, OUTER), Members(HOME, COPY)


def named(side: str, role: str) -> str:
    return f"{side}.{role}"


def input_of(segment: SegmentInfo) -> str:
    """The input that the rows of a segment are of."""
    return segment.side.partition(".")[0]


def role_of(side: str) -> str:
    """The role that a side of the state has rows in; none for rows that are in no set yet."""
    return side.partition(".")[2]


def in_role(segments: Iterable[SegmentInfo], *roles: str) -> tuple[SegmentInfo, ...]:
    return tuple(s for s in segments if role_of(s.side) in roles)


def layouts(spec: SimilaritySpec) -> dict[str, Layout]:
    """Rows as they came; at home in a workset, also how far they are from its center."""
    found: dict[str, Layout] = {}
    for side in spec.sides:
        this = spec.side(side)
        found |= {named(side, role): Layout(this.schema, this.time) for role in ROLES}
        found[named(side, HOME)] = Layout(spec.stored_schema(side), this.time)
        found[side] = Layout(this.schema, this.time)  # not yet in a partition
    return found


def keep_after_us(spec: SimilaritySpec, watermark_us: int) -> dict[str, int]:
    """From when on rows are needed, in whatever role."""
    return {
        named(side, role): spec.keep_after_us(side, watermark_us)
        for side in spec.sides
        for role in ROLES
    }


def ids_of(partitions: Ints) -> UInts:
    """The ids of partitions: those of their worksets follow."""
    return partitions.astype(np.uint64) << np.uint64(PARTITION_BITS)


def partitions_of(ids: UInts) -> Ints:
    """The partitions that sets are, or are in."""
    return (ids >> np.uint64(PARTITION_BITS)).astype(np.int64)
