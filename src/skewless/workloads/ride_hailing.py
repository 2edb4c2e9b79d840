"""A simulated ride-hailing city: the orders of passengers and the tracks of taxis.

The city is a square grid whose cells are numbered along a Hilbert curve; joining the two streams
on the cell finds the taxis that pass near an order. The skew is that of the DiDi data set as the
FastJoin paper reports it (section I, figure 1): 20 % of the cells hold 80 % of the orders, and
24 % of the cells hold 80 % of the tracks.

How the skew comes about: demand falls off exponentially with the distance from a few hot spots,
as densities in cities do, and every cell has a character of its own besides. Both streams share
the hot spots, yet each sees them a little differently, so that their hot cells overlap without
being the same. The heat of the cells is then raised to the one power that gives the published
share: its exponent is solved for, never guessed, whatever the seed and the size of the grid.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.errors import ArgumentError
from skewless.workloads.hilbert import hilbert_index, hilbert_xy
from skewless.workloads.zipf import EPOCH, at_least, empty_folder, generator, microseconds, publish

HOT_SHARE = 0.80  # the share of the rows that the hot cells hold

SOUTH_DEG, WEST_DEG = 30.50, 103.90  # a box of about 33 km a side around Chengdu
HEIGHT_DEG, WIDTH_DEG = 0.30, 0.35

FLEET = 10_000  # taxis
ROWS_MAX = 1_000_000_000  # in a batch: the ids of a batch begin at a multiple of it

_SPOTS = 8
_BACKGROUND = 0.02  # heat far from every spot, in units of a spot of strength 1
_SLICE_US = 300 * 1_000_000  # hot spots move in steps this long, at most a cell of order 6 each
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US = 86_400 * 1_000_000
_INSET = 1e-6  # of a cell: rounding must not carry a position over the border

_PASSENGERS = (0.62, 0.24, 0.09, 0.05)  # parties of 1, 2, 3, 4
_OCCUPIED = 0.6

_FIELD, _ROWS = range(2)  # what a random stream is for

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Stream:
    """What sets one stream of a city apart from the other."""

    number: int
    hot_cells: float  # the fraction of the cells that holds `HOT_SHARE` of the rows


_ORDERS = _Stream(number=1, hot_cells=0.20)
_TRACKS = _Stream(number=2, hot_cells=0.24)


@dataclass(frozen=True)
class City:
    """A city that produces orders and tracks, the same ones for the same arguments.

    - `order`: the grid has `2**order` cells to a side. A finer grid has more keys, and fewer
      rows that meet in each.
    - `seed`: another seed is another city, with other hot spots, of the same skew.
    - `drift`: how far the hot spots travel in a day, from 0 (they never move) to 1 (all the way
      from where they are at midnight UTC to an unrelated place at noon, and back). They are
      fastest at 6 and 18 o'clock, the rush hours. More drift outdates a balance sooner; the
      published skew holds at every moment, and flattens over a long time.
    - `event` and `event_from`: from that time on, so large a share of both streams is in one cell,
      `event_cell`: a concert. A key turns hot at once.

    >>> from datetime import UTC, datetime
    >>> city = City(order=4)
    >>> orders = city.orders(rows=3, start=datetime(2026, 1, 1, tzinfo=UTC), seconds=60)
    >>> orders.column_names
    ['order_id', 'cell', 'lat', 'lon', 'passengers', 'ordered_at']
    >>> orders["order_id"].to_pylist()
    [0, 1, 2]
    """

    order: int = 6
    seed: int = 7
    drift: float = 0.0
    event: float = 0.0
    event_from: datetime = EPOCH

    def __post_init__(self) -> None:
        # Below 16 cells a fifth of the cells is no whole cell; above a million memory runs short.
        if not 2 <= self.order <= 10:
            raise ArgumentError("order", self.order, "between 2 and 10")
        if not 0 <= self.drift <= 1:
            raise ArgumentError("drift", self.drift, "between 0 and 1")
        if not 0 <= self.event < 1:
            raise ArgumentError("event", self.event, "at least 0 and below 1")
        _micros("event_from", self.event_from)
        at_least("seed", self.seed, 0)

    @property
    def cells(self) -> int:
        """How many cells the grid has; they are numbered from 0."""
        return 1 << (2 * self.order)

    @property
    def event_cell(self) -> int:
        """The cell of the event: an ordinary one until then."""
        return int(generator(self.seed, _FIELD, 0).integers(self.cells))

    def orders(self, rows: int, start: datetime, seconds: float, batch: int = 0) -> pa.Table:
        """`rows` orders over `seconds` from `start`; `order_id` is unique over all batches."""
        rng, times = self._arrivals(_ORDERS, rows, start, seconds, batch)
        cells = self._cells(_ORDERS, times, rng.random(rows))
        lat, lon = self._positions(cells, rng)
        passengers = 1 + np.searchsorted(np.cumsum(_PASSENGERS)[:-1], rng.random(rows), "right")
        return pa.table(
            {
                "order_id": pa.array(batch * ROWS_MAX + np.arange(rows), pa.int64()),
                "cell": pa.array(cells, pa.int64()),
                "lat": pa.array(lat, pa.float64()),
                "lon": pa.array(lon, pa.float64()),
                "passengers": pa.array(passengers.astype(np.int32), pa.int32()),
                "ordered_at": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )

    def tracks(self, rows: int, start: datetime, seconds: float, batch: int = 0) -> pa.Table:
        """`rows` reports of taxis over `seconds` from `start`.

        A taxi reports again and again, so `taxi_id` recurs, within a batch and between batches.
        """
        rng, times = self._arrivals(_TRACKS, rows, start, seconds, batch)
        places = rng.random(rows)
        cells = self._cells(_TRACKS, times, places)
        lat, lon = self._positions(cells, rng)
        occupied = rng.random(rows) < _OCCUPIED
        # A taxi with a passenger has somewhere to go; one without cruises.
        speed_kmh = np.minimum(rng.gamma(4.0, np.where(occupied, 8.0, 5.0)), 120.0)
        return pa.table(
            {
                # Equal stretches of the cumulated shares make equally busy taxis, each of which
                # keeps to one stretch of the curve: a neighbourhood, not the whole city.
                "taxi_id": pa.array((places * FLEET).astype(np.int64), pa.int64()),
                "cell": pa.array(cells, pa.int64()),
                "lat": pa.array(lat, pa.float64()),
                "lon": pa.array(lon, pa.float64()),
                "speed_kmh": pa.array(speed_kmh, pa.float64()),
                "occupied": pa.array(occupied, pa.bool_()),
                "seen_at": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )

    def order_shares(self, at: datetime = EPOCH) -> FloatArray:
        """The share of the orders that each cell can expect at a time, by cell number."""
        return np.diff(_cumulative(self, _ORDERS, self._slice(_micros("at", at))), prepend=0.0)

    def track_shares(self, at: datetime = EPOCH) -> FloatArray:
        """The share of the tracks that each cell can expect at a time, by cell number."""
        return np.diff(_cumulative(self, _TRACKS, self._slice(_micros("at", at))), prepend=0.0)

    def cells_at(self, lat: FloatArray, lon: FloatArray) -> IntArray:
        """The numbers of the cells that hold the given positions."""
        side = 1 << self.order
        x = np.floor((np.asarray(lon) - WEST_DEG) / WIDTH_DEG * side).astype(np.int64)
        y = np.floor((np.asarray(lat) - SOUTH_DEG) / HEIGHT_DEG * side).astype(np.int64)
        return hilbert_index(x, y, self.order)

    def _arrivals(
        self, stream: _Stream, rows: int, start: datetime, seconds: float, batch: int
    ) -> tuple[np.random.Generator, IntArray]:
        _check_rows("rows", rows)
        at_least("batch", batch, 0)
        rng = generator(self.seed, _ROWS, stream.number, batch)
        times = np.sort(rng.integers(microseconds("seconds", seconds), size=rows))
        return rng, _micros("start", start) + times

    def _slice(self, time_us: int) -> int:
        return time_us % _DAY_US // _SLICE_US if self.drift else 0

    def _cells(self, stream: _Stream, times: IntArray, places: FloatArray) -> IntArray:
        """The cells at `places` in [0, 1) of the cumulated shares that hold at `times`."""
        cells = np.empty(len(times), dtype=np.int64)
        at_event = (places < self.event) & (times >= _micros("event_from", self.event_from))
        if self.event:
            # Who is not there draws again from the places that are left.
            before = times < _micros("event_from", self.event_from)
            places = np.where(before, places, np.maximum(places - self.event, 0) / (1 - self.event))
        slices = times // _SLICE_US if self.drift else np.zeros_like(times)
        # Times ascend, so a slice is one run of rows.
        firsts = np.flatnonzero(np.diff(slices, prepend=slices[:1] - 1))
        for first, end in pairwise([*firsts.tolist(), len(times)]):
            shares = _cumulative(self, stream, self._slice(int(times[first])))
            cells[first:end] = np.searchsorted(shares, places[first:end], side="right")
        cells[at_event] = self.event_cell
        return cells

    def _positions(
        self, cells: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        x, y = hilbert_xy(cells, self.order)
        jitter = rng.uniform(_INSET, 1 - _INSET, size=(2, len(cells)))
        side = 1 << self.order
        lat = SOUTH_DEG + (y + jitter[0]) / side * HEIGHT_DEG
        lon = WEST_DEG + (x + jitter[1]) / side * WIDTH_DEG
        return lat, lon


def write_batches(
    city: City,
    folder: str | os.PathLike[str],
    batches: int,
    orders_per_batch: int,
    tracks_per_batch: int,
    seconds: float,
    start: datetime = EPOCH,
) -> None:
    """Write `folder/orders` and `folder/tracks`, one parquet file per stream and batch.

    Batch `i` covers the `seconds` of event time from `start + i * seconds`. A file appears whole
    or not at all, and times of last change ascend, so that a file source takes the files in
    order. Files of an earlier run are replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_batches(City(order=4), folder, 2, 10, 50, seconds=5.0)
    ...     sorted(path.name for path in Path(folder, "tracks").iterdir())
    ['0000.parquet', '0001.parquet']
    """
    # All checks come before the files of an earlier run are removed.
    at_least("batches", batches, 0)
    _check_rows("orders_per_batch", orders_per_batch)
    _check_rows("tracks_per_batch", tracks_per_batch)
    _micros("start", start)
    step = timedelta(microseconds=microseconds("seconds", seconds))
    orders = empty_folder(Path(folder, "orders"))
    tracks = empty_folder(Path(folder, "tracks"))
    for batch in range(batches):
        begin = start + batch * step
        publish(city.orders(orders_per_batch, begin, seconds, batch), orders, batch)
        publish(city.tracks(tracks_per_batch, begin, seconds, batch), tracks, batch)


@lru_cache(maxsize=32)  # a batch needs one or two slices; at order 10 each is 8 MB
def _cumulative(city: City, stream: _Stream, time_slice: int) -> FloatArray:
    """The cumulated shares of the cells during a slice of the day, calibrated."""
    # Noon is furthest from midnight, and the pace is highest halfway between the two.
    swing = np.sin(np.pi * time_slice * _SLICE_US / _DAY_US) ** 2
    log_heat = _log_heat(city, stream, city.drift * float(swing))
    hot = round(stream.hot_cells * city.cells)
    sums = np.cumsum(np.exp(_calibrated_exponent(log_heat, hot) * (log_heat - log_heat.max())))
    # Divided by itself the last entry is exactly 1, above any draw: no cell can overflow.
    sums /= sums[-1]
    sums.flags.writeable = False  # the cache hands the same array to every caller
    return sums


def _log_heat(city: City, stream: _Stream, moved: float) -> FloatArray:
    """How much goes on in each cell, by cell number, before calibration.

    `moved` is how far the hot spots have come on their way, from 0 to 1.
    """
    shared = generator(city.seed, _FIELD, 0)
    home, away = shared.random((2, _SPOTS, 2))
    strength = shared.lognormal(0.0, 0.7, _SPOTS)
    reach = shared.uniform(0.04, 0.12, _SPOTS)  # in widths of the city
    character = shared.normal(0.0, 0.3, city.cells)

    own = generator(city.seed, _FIELD, stream.number)
    centre = home + moved * (away - home) + own.normal(0.0, 0.01, (_SPOTS, 2))
    strength = strength * own.lognormal(0.0, 0.2, _SPOTS)
    character = character + own.normal(0.0, 0.2, city.cells)

    x, y = hilbert_xy(np.arange(city.cells), city.order)
    middle = (np.stack([x, y]) + 0.5) / (1 << city.order)
    heat = np.full(city.cells, _BACKGROUND)
    for spot in range(_SPOTS):  # one at a time: all at once would need eight grids of memory
        distance = np.hypot(*(middle - centre[spot][:, None]))
        heat += strength[spot] * np.exp(-distance / reach[spot])
    log_heat: FloatArray = np.log(heat) + character
    return log_heat


def _calibrated_exponent(log_heat: FloatArray, hot: int) -> float:
    """The power of the heat at which the `hot` hottest cells hold `HOT_SHARE` of it.

    A higher power moves shares from every colder cell to every hotter one, so the share of the
    hottest grows with it and bisection finds the only solution.
    """
    ranked = np.sort(log_heat)[::-1]
    ranked -= ranked[0]

    def hot_share(exponent: float) -> float:
        heat = np.exp(exponent * ranked)
        return float(heat[:hot].sum() / heat.sum())

    low, high = 0.0, 1.0
    while hot_share(high) < HOT_SHARE:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if hot_share(middle) < HOT_SHARE else (low, middle)
    return high


def _micros(name: str, time: datetime) -> int:
    if time.tzinfo is None:
        raise ArgumentError(name, time, "a time with a time zone")
    # Whole numbers throughout: a float of seconds since 1970 is not exact to the microsecond.
    return (time - _UNIX_EPOCH) // timedelta(microseconds=1)


def _check_rows(name: str, rows: int) -> None:
    if not 0 <= rows <= ROWS_MAX:
        raise ArgumentError(name, rows, f"between 0 and {ROWS_MAX}")
