"""The conditions of a join as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unbounded(Enum):
    """The type of `UNBOUNDED`."""

    UNBOUNDED = "unbounded"

    def __repr__(self) -> str:
        return "sk.UNBOUNDED"


UNBOUNDED = Unbounded.UNBOUNDED


class Comparison:
    """A condition between a column of one input and a column of another."""


@dataclass(frozen=True)
class Band(Comparison):
    """A condition ``|left - right| <= width`` as the user wrote it; made by `sk.band`."""

    left: str
    right: str
    width: object


def band(left: str, right: str, width: object) -> Band:
    """Join rows whose columns are at most `width` apart: ``|left - right| <= width``.

    `width` is a number for numeric columns, a duration ("5 seconds") for timestamps and a number of
    whole days ("2 days") for dates. A wider band compares more rows: all that
    lie within about twice the width.

    >>> band("price", "quote", width=0.5)
    Band(left='price', right='quote', width=0.5)
    """
    return Band(left, right, width)


@dataclass(frozen=True)
class Equal(Comparison):
    """A condition ``left = right``, or ``left <=> right`` if it is `null_safe`, as the user wrote
    it; made by `sk.equal`."""

    left: str
    right: str
    null_safe: bool = False


def equal(left: str, right: str, *, null_safe: bool = False) -> Equal:
    """Join rows whose columns are equal. In `sk.join3` columns begin with their input. With
    `null_safe` a null equals a null, as in Spark's ``<=>``; else it equals nothing.

    >>> equal("r.user", "s.user")
    Equal(left='r.user', right='s.user', null_safe=False)
    """
    return Equal(left, right, null_safe)
