"""The simulated city: the published skew, where it lies, and that it repeats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import ArgumentError
from skewless.workloads.hilbert import hilbert_xy
from skewless.workloads.ride_hailing import FLEET, City, write_batches

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
NOON = MIDNIGHT + timedelta(hours=12)

Draw = Callable[..., pa.Table]
STREAMS = pytest.mark.parametrize(
    ("draw", "time", "hot_cells"),
    [(City.orders, "ordered_at", 0.20), (City.tracks, "seen_at", 0.24)],
    ids=["orders", "tracks"],
)


def micros(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column.cast(pa.int64()).to_numpy())


def hottest(shares: npt.NDArray[np.float64], fraction: float = 0.2) -> set[int]:
    return set(np.argsort(-shares)[: round(fraction * len(shares))].tolist())


def overlap(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a)


@STREAMS
@pytest.mark.parametrize("city", [City(), City(seed=8), City(order=5), City(drift=1.0)], ids=str)
def test_drawn_rows_have_the_published_skew(
    draw: Draw, time: str, hot_cells: float, city: City
) -> None:
    cells = draw(city, 400_000, MIDNIGHT + timedelta(hours=8), 60.0)["cell"].to_numpy()
    counts = np.sort(np.bincount(cells, minlength=city.cells))[::-1]
    assert len(counts) == city.cells
    held = counts[: round(hot_cells * city.cells)].sum() / counts.sum()
    assert held == pytest.approx(0.80, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 7), st.integers(0, 2**32), st.floats(0, 1), st.integers(0, 23))
def test_every_city_is_calibrated_at_every_hour(
    order: int, seed: int, drift: float, hour: int
) -> None:
    city = City(order, seed, drift)
    at = MIDNIGHT + timedelta(hours=hour)
    for shares, fraction in ((city.order_shares(at), 0.20), (city.track_shares(at), 0.24)):
        ranked = np.sort(shares)[::-1]
        assert ranked.sum() == pytest.approx(1.0)
        assert ranked[: round(fraction * city.cells)].sum() == pytest.approx(0.80, abs=0.001)


@STREAMS
def test_drawn_rows_follow_the_shares(draw: Draw, time: str, hot_cells: float) -> None:
    city, rows = City(order=4), 200_000
    shares = city.order_shares() if draw is City.orders else city.track_shares()
    counts = np.bincount(draw(city, rows, MIDNIGHT, 60.0)["cell"].to_numpy(), minlength=256)
    five_sigma = 5 * np.sqrt(rows * shares * (1 - shares))
    assert (np.abs(counts - rows * shares) <= five_sigma + 5).all()


@pytest.mark.parametrize("seed", range(5))
def test_hot_cells_lie_together(seed: int) -> None:
    city = City(seed=seed)
    hot = np.isin(np.arange(city.cells), list(hottest(city.order_shares())))
    x, y = hilbert_xy(np.arange(city.cells), city.order)
    grid = np.zeros((64, 64), dtype=bool)
    grid[x, y] = hot
    # Of hot cells strewn at random, a fifth would have a hot cell next to them.
    assert grid[1:][grid[:-1]].mean() > 0.5
    assert grid[:, 1:][grid[:, :-1]].mean() > 0.5
    assert hot[1:][hot[:-1]].mean() > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_hot_cells_of_orders_and_tracks_are_alike_but_not_the_same(seed: int) -> None:
    city = City(seed=seed)
    common = overlap(hottest(city.order_shares()), hottest(city.track_shares()))
    assert 0.6 < common < 0.95


def test_without_drift_the_time_of_day_does_not_matter() -> None:
    city = City()
    for draw in (City.orders, City.tracks):
        at_midnight, at_noon = (draw(city, 1000, start, 60.0) for start in (MIDNIGHT, NOON))
        assert at_midnight["cell"].equals(at_noon["cell"])


def test_drift_moves_the_hot_cells_and_more_drift_moves_them_further() -> None:
    common = []
    for drift in (0.1, 0.3, 1.0):
        city = City(drift=drift)
        common.append(
            overlap(hottest(city.order_shares(MIDNIGHT)), hottest(city.order_shares(NOON)))
        )
    assert 1.0 > common[0] > common[1] > common[2]
    assert common[2] < 0.5


@STREAMS
def test_drift_shows_in_the_rows(draw: Draw, time: str, hot_cells: float) -> None:
    city = City(drift=1.0)
    hot = []
    for start in (MIDNIGHT, MIDNIGHT + timedelta(days=1), NOON):
        cells = draw(city, 100_000, start, 60.0)["cell"].to_numpy()
        hot.append(hottest(np.bincount(cells, minlength=city.cells).astype(np.float64)))
    midnight, next_midnight, noon = hot
    assert midnight == next_midnight
    assert overlap(midnight, noon) < 0.5


@pytest.mark.parametrize("start", [MIDNIGHT, datetime(1969, 12, 31, 23, 56, tzinfo=UTC)])
def test_a_long_batch_follows_the_drift_row_by_row(start: datetime) -> None:
    city = City(drift=1.0)
    table = city.orders(200_000, start, 86_400.0)
    hours = (micros(table["ordered_at"]) - micros(table["ordered_at"])[0]) // 3_600_000_000
    cells = table["cell"].to_numpy()
    for hour in (0, 6, 12, 18):
        shares = city.order_shares(start + timedelta(hours=hour, minutes=30))
        in_hot_cells = np.isin(cells[hours == hour], list(hottest(shares)))
        assert in_hot_cells.mean() == pytest.approx(0.8, abs=0.04)


@STREAMS
@settings(deadline=None)
@given(
    rows=st.integers(0, 200),
    seconds=st.floats(1e-6, 1e5),
    batch=st.integers(0, 1000),
    start=st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
)
def test_times_ascend_within_the_batch(
    draw: Draw, time: str, hot_cells: float, rows: int, seconds: float, batch: int, start: datetime
) -> None:
    table = draw(City(order=3), rows, start, seconds, batch)
    assert table.num_rows == rows
    since = micros(table[time]) - (start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    assert (np.diff(since) >= 0).all()
    assert (since >= 0).all()
    assert (since < round(seconds * 1e6)).all()


@STREAMS
def test_rows_depend_on_seed_and_batch_alone(draw: Draw, time: str, hot_cells: float) -> None:
    table = draw(City(seed=1), 100, MIDNIGHT, 5.0, batch=1)
    assert table.equals(draw(City(seed=1), 100, MIDNIGHT, 5.0, batch=1))
    for other in (
        draw(City(seed=1), 100, MIDNIGHT, 5.0, batch=0),
        draw(City(seed=2), 100, MIDNIGHT, 5.0, batch=1),
    ):
        for column in ("cell", "lat", "lon", time):
            assert not table[column].equals(other[column])


@STREAMS
def test_a_zone_is_only_a_way_to_write_a_time(draw: Draw, time: str, hot_cells: float) -> None:
    local = MIDNIGHT.astimezone(timezone(timedelta(hours=8)))
    city = City(drift=0.5)
    assert draw(city, 50, MIDNIGHT, 5.0).equals(draw(city, 50, local, 5.0))


@STREAMS
@pytest.mark.parametrize("order", [2, 6, 10])
def test_positions_lie_in_their_cell_and_fill_it(
    draw: Draw, time: str, hot_cells: float, order: int
) -> None:
    city = City(order=order)
    table = draw(city, 20_000, MIDNIGHT, 5.0)
    lat, lon = table["lat"].to_numpy(), table["lon"].to_numpy()
    assert np.array_equal(city.cells_at(lat, lon), table["cell"].to_numpy())
    for degrees, origin, extent in ((lat, 30.50, 0.30), (lon, 103.90, 0.35)):
        within = (degrees - origin) / extent * 2**order % 1
        assert np.abs(np.histogram(within, 4, (0, 1))[0] / 20_000 - 0.25).max() < 0.02


def test_columns_have_the_documented_types() -> None:
    at = pa.timestamp("us", tz="UTC")
    place = [("cell", pa.int64()), ("lat", pa.float64()), ("lon", pa.float64())]
    assert City(order=2).orders(1, MIDNIGHT, 1.0).schema == pa.schema(
        [("order_id", pa.int64()), *place, ("passengers", pa.int32()), ("ordered_at", at)]
    )
    assert City(order=2).tracks(1, MIDNIGHT, 1.0).schema == pa.schema(
        [
            ("taxi_id", pa.int64()),
            *place,
            ("speed_kmh", pa.float64()),
            ("occupied", pa.bool_()),
            ("seen_at", at),
        ]
    )


def test_values_are_those_of_taxis_and_passengers() -> None:
    orders = City().orders(20_000, MIDNIGHT, 5.0)
    assert np.unique(orders["passengers"].to_numpy()).tolist() == [1, 2, 3, 4]
    tracks = City().tracks(20_000, MIDNIGHT, 5.0)
    speed, occupied = tracks["speed_kmh"].to_numpy(), tracks["occupied"].to_numpy()
    assert speed.min() > 0
    assert speed.max() <= 120
    assert occupied.mean() == pytest.approx(0.6, abs=0.02)
    assert speed[occupied].mean() > speed[~occupied].mean() + 5


def test_a_taxi_keeps_to_a_neighbourhood() -> None:
    city = City()
    tracks = city.tracks(100_000, MIDNIGHT, 5.0)
    taxis, cells = tracks["taxi_id"].to_numpy(), tracks["cell"].to_numpy()
    assert taxis.min() >= 0
    assert taxis.max() < FLEET
    by_taxi = np.lexsort((cells, taxis))
    same_taxi = np.diff(taxis[by_taxi]) == 0
    assert same_taxi.mean() > 0.8
    # An average taxi covers a ten-thousandth of the tracks: seldom more than a few cells.
    assert np.quantile(np.diff(cells[by_taxi])[same_taxi], 0.99) <= 20


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"order": 1}, "order"),
        ({"order": 11}, "order"),
        ({"seed": -1}, "seed"),
        ({"drift": -0.1}, "drift"),
        ({"drift": 1.1}, "drift"),
        ({"drift": float("nan")}, "drift"),
    ],
)
def test_refuses_a_city_that_cannot_be(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        City(**arguments)


@STREAMS
def test_refuses_a_batch_that_cannot_be(draw: Draw, time: str, hot_cells: float) -> None:
    city = City(order=2)
    with pytest.raises(ArgumentError, match="`rows` must be"):
        draw(city, -1, MIDNIGHT, 5.0)
    with pytest.raises(ArgumentError, match="`seconds` must be"):
        draw(city, 1, MIDNIGHT, 0.0)
    with pytest.raises(ArgumentError, match="`batch` must be"):
        draw(city, 1, MIDNIGHT, 5.0, batch=-1)
    with pytest.raises(ArgumentError, match="`start` must be a time with a time zone"):
        draw(city, 1, datetime(2026, 3, 1), 5.0)


def test_batches_are_files_in_order_with_unique_ids(tmp_path: Path) -> None:
    write_batches(City(order=4), tmp_path, 3, 40, 100, seconds=2.5, start=MIDNIGHT)
    for name, time, rows in (("orders", "ordered_at", 40), ("tracks", "seen_at", 100)):
        paths = sorted((tmp_path / name).iterdir())
        assert [path.name for path in paths] == ["0000.parquet", "0001.parquet", "0002.parquet"]
        changed = [path.stat().st_mtime for path in paths]
        assert changed == sorted(set(changed))
        tables = [pq.read_table(path) for path in paths]
        for batch, table in enumerate(tables):
            since = micros(table[time]) - int(MIDNIGHT.timestamp()) * 1_000_000
            assert table.num_rows == rows
            assert since[0] >= batch * 2_500_000
            assert since[-1] < (batch + 1) * 2_500_000
        assert not tables[0]["cell"].equals(tables[1]["cell"])
    ids = pq.read_table(tmp_path / "orders")["order_id"].to_pylist()
    assert len(set(ids)) == 120


def test_order_ids_are_unique_whatever_the_sizes_of_the_batches() -> None:
    city = City(order=2)
    tables = [city.orders(rows, MIDNIGHT, 5.0, batch) for batch, rows in enumerate((50, 5, 500))]
    ids = [order for table in tables for order in table["order_id"].to_pylist()]
    assert len(set(ids)) == 555


def test_a_new_run_replaces_the_files_of_the_last(tmp_path: Path) -> None:
    city = City(order=2)
    write_batches(city, tmp_path, 2, 5, 5, seconds=1.0)
    with pytest.raises(ArgumentError, match="`tracks_per_batch` must be"):
        write_batches(city, tmp_path, 1, 5, -5, seconds=1.0)
    assert len(list((tmp_path / "orders").iterdir())) == 2
    write_batches(city, tmp_path, 1, 5, 5, seconds=1.0)
    assert [path.name for path in (tmp_path / "orders").iterdir()] == ["0000.parquet"]
