"""Network flows under a flood: one source sends a fifth of them, millions send one or two each.

The figures are those of the DDoS data set in the Pd-Stream paper (table V): 12 M messages from
2.4 M sources, 20.2 % of them from the most frequent one.

How they are matched: the flooding source gets its share outright. The others follow a Zipf law over
as many possible sources as there are messages, the proportion of the paper's synthetic data; its
exponent is solved for, never guessed, such that the expected number of distinct sources is the
published one. At full size it is 0.96, and the second source has a sixth of the flooding one's
messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.errors import ArgumentError
from skewless.workloads.zipf import EPOCH, ZipfKeys, at_least, generator, microseconds

MESSAGES = 12_000_000
SOURCES = 2_400_000
FLOOD_SHARE = 0.202

SCALE_MIN, SCALE_MAX = 1e-3, 10.0
BLOCK = 1 << 18  # messages drawn at once; batches of any size are cut from the same blocks

_SERVERS = 100_000
_VICTIM = 0
_EXACT_RANKS = 4096
_BIN_GROWTH = 1.005  # of one bin of ranks over the one before: sums are right to six digits

_FLOOD, _TIMES, _COLUMNS = range(100, 103)  # what a random stream is for; ZipfKeys has those below

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Flows:
    """A stream of flows, message by message; the key is the source.

    Any stretch `begin .. end` of it can be had, in any order, and is the same however the
    stream is cut into batches. Memory is 16 bytes per message of the whole stream.

    - `scale`: shrinks or stretches messages and sources together; skew and the messages per
      source stay.
    - `seed`: fixes every message.
    - `seconds`: event time from the first message to the last; messages come at an even pace.
    - `attack`: the part of the stream that the flood lasts, in its middle. A shorter attack is the
      fiercer, as the flooding source's messages are the same in number; at 1 it never pauses.

    >>> flows = Flows(scale=0.001)
    >>> flows.messages, flows.sources
    (12000, 2400)
    >>> sources = flows.keys(0, flows.messages)
    >>> bool(abs((sources == flows.flooder).mean() - 0.202) < 0.02)
    True
    """

    scale: float = 1.0
    seed: int = 0
    seconds: float = 3600.0
    attack: float = 1.0

    def __post_init__(self) -> None:
        check_scale(self.scale)
        at_least("seed", self.seed, 0)
        microseconds("seconds", self.seconds)
        if not FLOOD_SHARE <= self.attack <= 1:
            raise ArgumentError("attack", self.attack, f"between {FLOOD_SHARE} and 1")

    @property
    def messages(self) -> int:
        """How many messages the stream has."""
        return round(MESSAGES * self.scale)

    @property
    def sources(self) -> int:
        """How many distinct sources it is expected to have."""
        return round(SOURCES * self.scale)

    @property
    def flooder(self) -> int:
        """The id of the source that floods; all other ids are below it."""
        return self.messages

    @cached_property
    def others(self) -> ZipfKeys:
        """The law of all sources but the flooding one."""
        draws = self.messages * (1 - FLOOD_SHARE)

        def too_many(exponent: float) -> bool:
            seen = expected_distinct(self.messages, exponent, draws)
            return seen > self.sources - 1

        return ZipfKeys(self.messages, bisect(too_many, 0.0, 2.0), self.seed)

    def keys(self, begin: int, end: int) -> IntArray:
        """The sources of the messages `begin .. end - 1`."""
        return from_blocks(self._sources, begin, end, self.messages)

    def times(self, begin: int, end: int) -> IntArray:
        """Their event times in microseconds since 1970, ascending."""
        return even_times(self.seed, begin, end, self.messages, self.seconds)

    def table(self, begin: int, end: int) -> pa.Table:
        """The messages with all columns: `timestamp`, `source`, `destination`, `bytes`.

        The flood is of small messages to one destination, the others have a few popular ones.
        """
        sources = self.keys(begin, end)
        flood = sources == self.flooder
        destinations = from_blocks(self._destinations, begin, end, self.messages)
        sizes = from_blocks(self._sizes, begin, end, self.messages)
        return pa.table(
            {
                "timestamp": pa.array(self.times(begin, end), pa.timestamp("us", tz="UTC")),
                "source": pa.array(sources, pa.int64()),
                "destination": pa.array(np.where(flood, _VICTIM, destinations), pa.int64()),
                "bytes": pa.array(np.where(flood, 40 + sizes % 24, sizes), pa.int64()),
            }
        )

    def _sources(self, block: int) -> IntArray:
        at = (np.arange(block * BLOCK, (block + 1) * BLOCK) + 0.5) / self.messages
        under_attack = np.abs(at - 0.5) <= self.attack / 2
        flood = generator(self.seed, _FLOOD, block).random(BLOCK) < FLOOD_SHARE / self.attack
        return np.where(flood & under_attack, self.flooder, self.others.draw(BLOCK, block))

    def _destinations(self, block: int) -> IntArray:
        # The logarithm of a rank is even under a Zipf law with exponent 1: no table is needed.
        logs = generator(self.seed, _COLUMNS, 0, block).random(BLOCK)
        return (_SERVERS**logs).astype(np.int64)

    def _sizes(self, block: int) -> IntArray:
        rng = generator(self.seed, _COLUMNS, 1, block)
        return np.minimum(40 + rng.lognormal(6.5, 1.8, BLOCK), 1e9).astype(np.int64)


def check_scale(scale: float) -> None:
    """Refuse a scale at which the published proportions mean nothing, or memory runs short."""
    if not SCALE_MIN <= scale <= SCALE_MAX:
        raise ArgumentError("scale", scale, f"between {SCALE_MIN:g} and {SCALE_MAX:g}")


def from_blocks(draw: Callable[[int], IntArray], begin: int, end: int, messages: int) -> IntArray:
    """Positions `begin .. end - 1` of the sequence whose block `i` is `draw(i)`."""
    if not 0 <= begin <= messages:
        raise ArgumentError("begin", begin, f"between 0 and {messages}")
    if not begin <= end <= messages:
        raise ArgumentError("end", end, f"between `begin` ({begin}) and {messages}")
    drawn = np.empty(end - begin, dtype=np.int64)
    for block in range(begin // BLOCK, -(-end // BLOCK)):
        first, last = max(begin, block * BLOCK), min(end, (block + 1) * BLOCK)
        drawn[first - begin : last - begin] = draw(block)[
            first - block * BLOCK : last - block * BLOCK
        ]
    return drawn


def even_times(
    seed: int, begin: int, end: int, messages: int, seconds: float, start: datetime = EPOCH
) -> IntArray:
    """Event times that ascend: every message somewhere in a stretch of time of its own."""

    def within(block: int) -> IntArray:
        places = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.float64)
        places += generator(seed, _TIMES, block).random(BLOCK)
        return (places * (microseconds("seconds", seconds) / messages)).astype(np.int64)

    return round(start.timestamp()) * 1_000_000 + from_blocks(within, begin, end, messages)


def expected_distinct(keys: int, exponent: float, draws: float) -> float:
    """How many of `keys` keys under a Zipf law come up in so many draws, in expectation.

    >>> round(expected_distinct(10_000_000, 1.6, 10_000_000), -2)  # table IV: 33.1 K
    33100.0
    """
    ranks, widths = rank_bins(keys)
    weights = ranks**-exponent
    p = weights / (weights * widths).sum()
    return float((-np.expm1(-draws * p) * widths).sum())


def rank_bins(keys: int) -> tuple[FloatArray, FloatArray]:
    """Ranks that stand for all of `1 .. keys`, and how many each stands for: the first ones singly,
    then ever wider bins. Sums over millions of ranks become sums over thousands."""
    exact = np.arange(1, min(keys, _EXACT_RANKS) + 1, dtype=np.float64)
    if keys <= _EXACT_RANKS:
        return exact, np.ones_like(exact)
    bins = int(np.ceil(np.log(keys / _EXACT_RANKS) / np.log(_BIN_GROWTH)))
    edges = np.unique(np.round(np.geomspace(_EXACT_RANKS, keys, bins + 1))) + 0.5
    middles = np.sqrt(edges[:-1] * edges[1:])
    ranks = np.concatenate([exact, middles])
    return ranks, np.concatenate([np.ones_like(exact), np.diff(edges)])


def bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Where `is_below` turns from true to false, to twelve digits or so."""
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return high
