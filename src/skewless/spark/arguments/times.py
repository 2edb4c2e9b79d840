"""Bounds and delays as users write them, in microseconds."""

from __future__ import annotations

from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError


def parse_bounds(within: object, accepted: str) -> tuple[int, int]:
    """``"1 minute"``, either way, or ``(lower, upper)``. `accepted` is told for other tuples."""
    if isinstance(within, tuple | list):
        if len(within) != 2:
            raise ArgumentError("within", within, accepted)
        lower, upper = (parse_duration_us(w, "within", allow_negative=True) for w in within)
        if lower > upper:
            raise ArgumentError("within", within, "(lower, upper) with lower <= upper")
        return lower, upper
    bound = parse_duration_us(within, "within")
    return -bound, bound


def parse_lates(late: object, inputs: int, accepted: str) -> list[int]:
    """One delay for all inputs, or one each; none at all where nothing is given."""
    if isinstance(late, tuple | list):
        if len(late) != inputs:
            raise ArgumentError("late", late, accepted)
        return [parse_duration_us(one, "late") for one in late]
    return [0 if late is None else parse_duration_us(late, "late")] * inputs
