"""Equal shares of the work, one per instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Share = tuple[int, int]  # which part, of how many
WHOLE: Share = (0, 1)


@dataclass(frozen=True)
class Part:
    """A part of stored rows: those with the hashes of a `subgroup`, and a `share` of them."""

    share: Share = WHOLE
    subgroup: Share = WHOLE


EVERYTHING = Part()


def portion(total: int, share: Share) -> tuple[int, int]:
    """From where to where a share of so many things reaches.

    >>> [portion(10, (part, 3)) for part in range(3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    part, parts = share
    return total * part // parts, total * (part + 1) // parts


def counted(total: int, share: Share) -> int:
    """How many of some things that all instances have this one is to count."""
    begin, end = portion(total, share)
    return end - begin


def cut(share: Share, lengths: Sequence[int], run_cost: int = 0) -> Iterator[tuple[int, int, int]]:
    """A share of runs that are laid end to end: which of them it meets, from where to where. It
    lies in few of them; with a share of each, every instance would have to look into all. To open
    a run costs as much as `run_cost` of its rows, so those who have small runs get less.

    >>> [list(cut((part, 2), [3, 4, 3])) for part in (0, 1)]
    [[(0, 0, 3), (1, 0, 2)], [(1, 2, 4), (2, 0, 3)]]
    """
    weights = [length + run_cost if length else 0 for length in lengths]
    begin, end = portion(sum(weights), share)
    for number, (length, weight) in enumerate(zip(lengths, weights, strict=True)):
        first, last = (min(max(x - run_cost, 0), length) for x in (begin, end))
        if first < last:
            yield number, first, last
        begin, end = begin - weight, end - weight
