"""Many batches in few points: buckets of equally many batch ids, so that peaks stay visible.

Buckets are aligned to multiples of their width, which is a power of two. So a bucket that is full
never changes: who has it needs only those after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from skewless.arrays.types import Floats, Ints

DIGITS = 5  # that count, of what is sent


@dataclass(frozen=True)
class Buckets:
    """The batches `ids[low:]` in buckets of `width` ids."""

    ids: Ints
    low: int
    width: int

    @staticmethod
    def of(ids: Ints, first_id: int, points: int, since: int = -1) -> Buckets:
        """Batches from `first_id` on in at most about so many points; of these, the buckets that
        batches after `since` are in."""
        span = int(ids[-1]) - first_id + 1 if len(ids) else 1
        width = 1
        while span > points * width:
            width *= 2
        begin = max(first_id, (since + 1) // width * width if since >= 0 else first_id)
        # A bucket is whole or not there, so that it is the same whoever asks.
        return Buckets(ids, int(np.searchsorted(ids, begin // width * width)), width)

    @cached_property
    def numbers(self) -> Ints:
        """The bucket of each batch."""
        return self.ids[self.low :] // self.width

    @cached_property
    def starts(self) -> Ints:
        """Where each bucket begins, as places after `low`."""
        return np.flatnonzero(np.diff(self.numbers, prepend=-1))

    @property
    def firsts(self) -> list[int]:
        """The first id of each bucket, whether or not there is such a batch."""
        found: list[int] = (self.numbers[self.starts] * self.width).tolist()
        return found

    def __len__(self) -> int:
        return len(self.starts)

    def least(self, column: Floats) -> Floats:
        return self._reduced(np.fmin, column)

    def most(self, column: Floats) -> Floats:
        return self._reduced(np.fmax, column)

    def total(self, column: Floats) -> Floats:
        return self._reduced(np.add, np.nan_to_num(column))

    def mean(self, column: Floats) -> Floats:
        """Of the batches that have a value; NaN if none has."""
        there = self._reduced(np.add, (~np.isnan(column)).astype(float))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Floats = self.total(column) / there
        return mean

    def _reduced(self, function: np.ufunc, column: Floats) -> Floats:
        if not len(self.starts):
            return np.zeros(0)
        reduced: Floats = function.reduceat(column[self.low :], self.starts)
        return reduced


def plain(values: Floats, digits: int = DIGITS) -> list[Any]:
    """Numbers as JSON has them, with so many digits that count; null where there is none.

    >>> plain(np.array([1234567.0, 0.0012345678, np.nan, 0.0]))
    [1234600.0, 0.0012346, None, 0.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        lead = np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** np.clip(np.where(np.isfinite(lead), digits - 1 - lead, 0), -300, 300)
    rounded = np.round(values * scale) / scale
    return [None if isnan(x) else x for x in rounded.tolist()]
