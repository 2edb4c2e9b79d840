"""Live commerce: streamers show products, viewers buy them, and everybody clicks around.

Three streams that make a chain: a show and a purchase have the streamer in common, a purchase and
a user's activity the user. Live e-commerce is one of the uses that the TriJoin paper names (Yu et
al., section 1).

Where the skew is: a few streamers sell most of all. They show products no more often than others
do, so a hot streamer has many purchases for each show, and not many times many. Users differ, too,
but less.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.errors import ArgumentError
from skewless.workloads.zipf import (
    EPOCH,
    ZipfKeys,
    at_least,
    empty_folder,
    generator,
    microseconds,
    publish,
)

ROWS_MAX = 1_000_000_000  # in a batch: the ids of a batch begin at a multiple of it
PRODUCTS = ("lipstick", "sneakers", "tea", "headphones", "jacket", "rice cooker", "toy", "melon")
ACTIONS = ("view", "like", "comment", "share", "follow")

_ACTION_SHARES = (0.70, 0.15, 0.08, 0.04, 0.03)
_SHOWS, _PURCHASES, _ACTIVITY = range(200, 203)  # what a random stream is for
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LiveCommerce:
    """A market place that produces shows, purchases and activity, the same for the same arguments.

    - `streamers`, `users`: more of them mean fewer rows that meet.
    - `heat`: the Zipf exponent of the streamers by purchases. At 1.1 and 2,000 streamers the
      hottest sells a sixth of everything; 0 has no hot ones.
    - `bustle`: the Zipf exponent of the users, by purchases and by activity. Both streams share
      their busy users, so triples grow fast with it.
    - `seed`: fixes every row, and who is hot.

    >>> from datetime import UTC, datetime
    >>> market = LiveCommerce(streamers=50)
    >>> shows = market.shows(rows=3, start=datetime(2026, 1, 1, tzinfo=UTC), seconds=60)
    >>> shows.column_names
    ['show_id', 'streamer', 'product', 'price', 'shown_at']
    >>> shows["show_id"].to_pylist()
    [0, 1, 2]
    """

    streamers: int = 2_000
    users: int = 50_000
    heat: float = 1.1
    bustle: float = 0.4
    seed: int = 7

    def __post_init__(self) -> None:
        at_least("streamers", self.streamers, 1)
        at_least("users", self.users, 1)
        at_least("seed", self.seed, 0)
        for name in ("heat", "bustle"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ArgumentError(name, getattr(self, name), "finite and at least 0")

    @cached_property
    def sellers(self) -> ZipfKeys:
        """The law of streamers by their purchases."""
        return ZipfKeys(self.streamers, self.heat, self.seed)

    @cached_property
    def people(self) -> ZipfKeys:
        """The law of users, in both streams that have any."""
        return ZipfKeys(self.users, self.bustle, self.seed)

    def shows(self, rows: int, start: datetime, seconds: float, batch: int = 0) -> pa.Table:
        """`rows` products shown over `seconds` from `start`; all streamers are as diligent."""
        rng, times = self._arrivals(_SHOWS, rows, start, seconds, batch)
        products = pa.array(rng.integers(len(PRODUCTS), size=rows).astype(np.int8))
        return pa.table(
            {
                "show_id": _ids(rows, batch),
                "streamer": pa.array(rng.integers(self.streamers, size=rows), pa.int64()),
                "product": pa.array(PRODUCTS).take(products),
                "price": pa.array(np.round(rng.lognormal(3.0, 0.8, rows), 2), pa.float64()),
                "shown_at": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )

    def purchases(self, rows: int, start: datetime, seconds: float, batch: int = 0) -> pa.Table:
        """`rows` purchases, most of them of a few streamers."""
        rng, times = self._arrivals(_PURCHASES, rows, start, seconds, batch)
        return pa.table(
            {
                "purchase_id": _ids(rows, batch),
                "streamer": pa.array(self.sellers.draw(rows, batch, _PURCHASES), pa.int64()),
                "user": pa.array(self.people.draw(rows, batch, _PURCHASES), pa.int64()),
                "quantity": pa.array(rng.geometric(0.7, rows).astype(np.int32), pa.int32()),
                "bought_at": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )

    def activity(self, rows: int, start: datetime, seconds: float, batch: int = 0) -> pa.Table:
        """`rows` things that users did, whether or not they bought anything."""
        rng, times = self._arrivals(_ACTIVITY, rows, start, seconds, batch)
        actions = np.searchsorted(np.cumsum(_ACTION_SHARES)[:-1], rng.random(rows), "right")
        return pa.table(
            {
                "user": pa.array(self.people.draw(rows, batch, _ACTIVITY), pa.int64()),
                "action": pa.array(ACTIONS).take(pa.array(actions)),
                "watched_s": pa.array(rng.exponential(90.0, rows), pa.float64()),
                "seen_at": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )

    def _arrivals(
        self, stream: int, rows: int, start: datetime, seconds: float, batch: int
    ) -> tuple[np.random.Generator, IntArray]:
        _check_rows("rows", rows)
        at_least("batch", batch, 0)
        rng = generator(self.seed, stream, batch)
        times = np.sort(rng.integers(microseconds("seconds", seconds), size=rows))
        return rng, _micros(start) + times


def write_live_commerce(
    market: LiveCommerce,
    folder: str | os.PathLike[str],
    batches: int,
    rows: tuple[int, int, int],
    seconds: float,
    start: datetime = EPOCH,
) -> None:
    """Write `folder/shows`, `folder/purchases` and `folder/activity`, one parquet file per stream
    and batch.

    `rows` are those of each stream in a batch; batch `i` covers the `seconds` of event time from
    `start + i * seconds`. Times of last change ascend, so that a file source takes the files in
    order. Files of an earlier run are replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_live_commerce(LiveCommerce(), folder, 2, (10, 20, 30), seconds=5.0)
    ...     sorted(path.name for path in Path(folder, "purchases").iterdir())
    ['0000.parquet', '0001.parquet']
    """
    # All checks come before the files of an earlier run are removed.
    at_least("batches", batches, 0)
    if len(rows) != 3:
        raise ArgumentError("rows", rows, "three numbers, of shows, purchases and activity")
    for count in rows:
        _check_rows("rows", count)
    _micros(start)
    step = timedelta(microseconds=microseconds("seconds", seconds))
    draws = (market.shows, market.purchases, market.activity)
    for draw, count in zip(draws, rows, strict=True):
        into = empty_folder(Path(folder, draw.__name__))
        for batch in range(batches):
            publish(draw(count, start + batch * step, seconds, batch), into, batch)


def _ids(rows: int, batch: int) -> pa.Array:
    return pa.array(batch * ROWS_MAX + np.arange(rows), pa.int64())


def _micros(start: datetime) -> int:
    if start.tzinfo is None:
        raise ArgumentError("start", start, "a time with a time zone")
    return (start - _UNIX_EPOCH) // timedelta(microseconds=1)


def _check_rows(name: str, rows: int) -> None:
    if not 0 <= rows <= ROWS_MAX:
        raise ArgumentError(name, rows, f"between 0 and {ROWS_MAX}")
