"""Streams as counts per key: what arrives in a batch, without the rows.

Every stream gives each key a share of each side's rows. The counts of a batch are drawn from these
shares, key by key (Poisson), so that a batch of a hundred million rows costs no more than one of a
thousand. All are seeded, and a batch depends on nothing but its number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Floats
from skewless.errors import ArgumentError

Ints = npt.NDArray[np.int64]
Shares = tuple[Floats, Floats]

_RANKS, _COUNTS = range(2)  # what a random stream is for


@dataclass(frozen=True, eq=False)
class Batch:
    """How many left and right rows each key has in a batch. Keys are ids, each once."""

    keys: Ints
    left: Ints
    right: Ints

    @property
    def rows(self) -> int:
        return int(self.left.sum() + self.right.sum())


@dataclass(frozen=True, kw_only=True)
class Stream(ABC):
    """Two sides over the keys ``0 … keys - 1``; `rows_left` and `rows_right` arrive per batch, on
    the average."""

    keys: int
    rows_left: int
    rows_right: int
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("keys", 1), ("rows_left", 0), ("rows_right", 0), ("seed", 0)):
            if getattr(self, name) < least:
                raise ArgumentError(name, getattr(self, name), f"at least {least}")

    @abstractmethod
    def shares(self, number: int) -> Shares:
        """The share that each key has of left and right rows in a batch."""

    @cached_property
    def ids(self) -> Ints:
        return np.arange(self.keys)

    def batch(self, number: int) -> Batch:
        """The same counts whenever seed and number are the same."""
        rng = _generator(self.seed, _COUNTS, number)
        left, right = self.shares(number)
        return Batch(
            self.ids, rng.poisson(left * self.rows_left), rng.poisson(right * self.rows_right)
        )


@dataclass(frozen=True, kw_only=True)
class Zipf(Stream):
    """The key of rank r has a share proportional to ``r**-exponent``: the papers' groups `Gxy` have
    exponent x on the left and y on the right; 0 is uniform.

    Both sides have the same keys on top, unless `apart`. After each batch in `reshuffled` the ranks
    are dealt anew.

    >>> batch = Zipf(keys=100, left=1.0, right=0.0, rows_left=1000, rows_right=1000).batch(0)
    >>> bool(batch.left.max() > 3 * batch.right.max())
    True
    """

    left: float = 1.0
    right: float = 1.0
    apart: bool = False
    reshuffled: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("left", "right"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ArgumentError(name, getattr(self, name), "finite and at least 0")

    def shares(self, number: int) -> Shares:
        deal = sum(number >= at for at in self.reshuffled)
        left, right = self.by_rank
        return left[self._ranks(deal, 0)], right[self._ranks(deal, int(self.apart))]

    def hottest(self, number: int = 0) -> int:
        """The key of the first rank on the left."""
        return int(self.shares(number)[0].argmax())

    @cached_property
    def by_rank(self) -> Shares:
        ranks = np.arange(1, self.keys + 1, dtype=float)
        left, right = (ranks**-exponent for exponent in (self.left, self.right))
        return left / left.sum(), right / right.sum()

    def _ranks(self, deal: int, side: int) -> Ints:
        return _generator(self.seed, _RANKS, deal, side).permutation(self.keys)


@dataclass(frozen=True, kw_only=True)
class HotKey(Stream):
    """Another stream, in which from batch `since` on one key has `share` of both sides' rows. With
    `every` so many batches it is another key's turn, which was an ordinary one before."""

    base: Stream
    share: float = 0.2
    since: int = 0
    every: int | None = None

    @staticmethod
    def on(base: Stream, *, share: float = 0.2, since: int = 0, every: int | None = None) -> HotKey:
        return HotKey(
            keys=base.keys, rows_left=base.rows_left, rows_right=base.rows_right, seed=base.seed,
            base=base, share=share, since=since, every=every,
        )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.share <= 1:
            raise ArgumentError("share", self.share, "a number from 0 to 1")
        if self.every is not None and self.every < 1:
            raise ArgumentError("every", self.every, "at least 1")

    def shares(self, number: int) -> Shares:
        left, right = self.base.shares(number)
        if number < self.since:
            return left, right
        turn = 0 if self.every is None else (number - self.since) // self.every
        key = int(_generator(self.seed, _RANKS, turn, 2).integers(self.keys))
        return _raised(left, key, self.share), _raised(right, key, self.share)


@dataclass(frozen=True, kw_only=True)
class Given(Stream):
    """Shares that someone else knows: `of` tells them for the number of a batch. So a city's rush
    hours, for example, become a stream of counts."""

    of: Callable[[int], Shares]

    def shares(self, number: int) -> Shares:
        return self.of(number)


def _raised(shares: Floats, key: int, share: float) -> Floats:
    raised = shares * (1 - share)
    raised[key] += share
    return raised


def _generator(seed: int, *purpose: int) -> np.random.Generator:
    """A random stream of its own for every purpose under one seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))
