"""Hashtags over weeks: few are everywhere, most come up once or twice, and what is hot changes.

The figures are those of the hashtag data set in the Pd-Stream paper (table V): 67 M messages of a
quarter of a year with 2.2 M distinct tags, 8.5 % of them the most frequent one.

How they are matched: a Zipf law has two parameters, its exponent and the number of possible tags.
Both are solved for: the exponent from the share of the first tag, the number of tags from the
expected number of distinct ones. Drift changes neither figure. The first tag stays the first
all the time (it is what the collected messages are about), and tags change places only among
those that would be seen anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import ArgumentError
from skewless.workloads.flows import (
    BLOCK,
    IntArray,
    bisect,
    check_scale,
    even_times,
    expected_distinct,
    from_blocks,
    rank_bins,
)
from skewless.workloads.zipf import ZipfKeys, at_least, generator

MESSAGES = 67_000_000
TAGS = 2_200_000
FIRST_SHARE = 0.085

DAYS_MAX = 366
_SURELY_SEEN = 20  # messages expected of a tag in the whole stream: it is missing once in 5e8

_DRIFT = 200  # what a random stream is for; ZipfKeys and event times have those below


@dataclass(frozen=True)
class Hashtags:
    """A stream of hashtags, message by message; the key is the tag's id.

    Any stretch `begin .. end` of it can be had, in any order, and is the same however the
    stream is cut into batches. Memory is about 40 bytes per possible tag: 100 MB at scale 1.

    - `scale`: shrinks or stretches messages and tags together. The default is 6.7 M messages;
      1 is the published size.
    - `seed`: fixes every message.
    - `days`: event time from the first message to the last; messages come at an even pace.
    - `drift`: how far tags wander from day to day: the standard deviation of the logarithm of a
      tag's rank from one day to the next. At 0.3 a tag of rank 100 is a day later mostly
      between 80 and 140, and a month later between 90 and 2700, for more tags come up from
      below than from above; at 0 nothing ever changes.

    >>> hashtags = Hashtags(scale=0.001)
    >>> hashtags.messages, hashtags.tags
    (67000, 2200)
    >>> tags = hashtags.keys(0, hashtags.messages)
    >>> bool(abs((tags == hashtags.hottest(1, day=0)[0]).mean() - 0.085) < 0.01)
    True
    """

    scale: float = 0.1
    seed: int = 0
    days: int = 90
    drift: float = 0.3

    def __post_init__(self) -> None:
        check_scale(self.scale)
        at_least("seed", self.seed, 0)
        if not 1 <= self.days <= DAYS_MAX:
            raise ArgumentError("days", self.days, f"between 1 and {DAYS_MAX}")
        if not 0 <= self.drift < np.inf:
            raise ArgumentError("drift", self.drift, "finite and at least 0")

    @property
    def messages(self) -> int:
        """How many messages the stream has."""
        return round(MESSAGES * self.scale)

    @property
    def tags(self) -> int:
        """How many distinct tags it is expected to have."""
        return round(TAGS * self.scale)

    @cached_property
    def law(self) -> ZipfKeys:
        """The law of the ranks, the same on all days; its ids are the tags of the first day."""
        low, high = self.tags, 2 * self.tags
        while self._expected_tags(high) < self.tags:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            too_few = self._expected_tags(middle) < self.tags
            low, high = (middle, high) if too_few else (low, middle)
        return ZipfKeys(high, _exponent(high), self.seed)

    def hottest(self, count: int, day: int) -> IntArray:
        """The ids of the `count` tags of highest rank on a day, hottest first."""
        if not 0 <= day < self.days:
            raise ArgumentError("day", day, f"between 0 and {self.days - 1}")
        return _wandered(self, day)[self.law.hottest(count)]

    def keys(self, begin: int, end: int) -> IntArray:
        """The tags of the messages `begin .. end - 1`."""
        return from_blocks(self._tags, begin, end, self.messages)

    def times(self, begin: int, end: int) -> IntArray:
        """Their event times in microseconds since 1970, ascending."""
        return even_times(self.seed, begin, end, self.messages, 86_400.0 * self.days)

    def table(self, begin: int, end: int) -> pa.Table:
        """The messages as rows: `timestamp`, and `hashtag` as text."""
        ids = pa.array(self.keys(begin, end), pa.int64())
        return pa.table(
            {
                "timestamp": pa.array(self.times(begin, end), pa.timestamp("us", tz="UTC")),
                "hashtag": pc.binary_join_element_wise("#tag", ids.cast(pa.string()), ""),
            }
        )

    def _expected_tags(self, keys: int) -> float:
        return expected_distinct(keys, _exponent(keys), self.messages)

    def _tags(self, block: int) -> IntArray:
        tags = self.law.draw(BLOCK, block)
        begin, end = block * BLOCK, min((block + 1) * BLOCK, self.messages)
        for day in range(begin * self.days // self.messages, self.days):
            # A day begins with the first message whose number over all has reached it.
            first = max(begin, -(-day * self.messages // self.days))
            last = min(end, -(-(day + 1) * self.messages // self.days))
            if first >= end:
                break
            part = slice(first - begin, last - begin)
            tags[part] = _wandered(self, day)[tags[part]]
        return tags


def _exponent(keys: int) -> float:
    """The exponent at which the first of so many keys has its published share."""
    ranks, widths = rank_bins(keys)
    logs = np.log(ranks)

    def first_has_too_little(exponent: float) -> bool:
        return float((np.exp(-exponent * logs) * widths).sum()) > 1 / FIRST_SHARE

    return bisect(first_has_too_little, 0.0, 3.0)


@lru_cache(maxsize=2)  # a stream is mostly read in order
def _wandered(hashtags: Hashtags, day: int) -> IntArray:
    """For every tag of the first day the tag that has its rank on a later day."""
    law = hashtags.law
    if day == 0 or hashtags.drift == 0:
        tags = np.arange(law.keys)
    else:
        seen = int((hashtags.messages * law.share(1) / _SURELY_SEEN) ** (1 / law.exponent))
        wanderers = law.hottest(min(max(seen, 1), law.keys))[1:]
        steps = generator(hashtags.seed, _DRIFT, day).normal(0, hashtags.drift, len(wanderers))
        order = np.argsort(np.log(np.arange(2, len(wanderers) + 2)) + steps, kind="stable")
        tags = _wandered(hashtags, day - 1).copy()
        tags[wanderers] = tags[wanderers[order]]
    tags.flags.writeable = False  # the cache hands the same array to every caller
    return tags
