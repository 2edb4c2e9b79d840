"""The simulated market: where its skew lies, that the streams meet, and that it repeats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.errors import ArgumentError
from skewless.workloads.live_commerce import LiveCommerce, write_live_commerce

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Draw = Callable[..., pa.Table]
STREAMS = pytest.mark.parametrize(
    ("draw", "time"),
    [
        (LiveCommerce.shows, "shown_at"),
        (LiveCommerce.purchases, "bought_at"),
        (LiveCommerce.activity, "seen_at"),
    ],
    ids=["shows", "purchases", "activity"],
)


@STREAMS
def test_rows_lie_in_their_time_in_order(draw: Draw, time: str) -> None:
    table = draw(LiveCommerce(), 500, NOON, 2.5)
    since = table[time].cast(pa.int64()).to_numpy() - int(NOON.timestamp()) * 1_000_000
    assert table.num_rows == 500
    assert (np.diff(since) >= 0).all()
    assert since[0] >= 0 and since[-1] < 2_500_000
    assert table[time].type == pa.timestamp("us", tz="UTC")
    assert all(column.null_count == 0 for column in table.columns)


@STREAMS
def test_rows_repeat_by_seed_and_batch(draw: Draw, time: str) -> None:
    first = draw(LiveCommerce(), 300, NOON, 5.0, batch=1)
    assert draw(LiveCommerce(), 300, NOON, 5.0, batch=1).equals(first)
    assert not draw(LiveCommerce(seed=8), 300, NOON, 5.0, batch=1).equals(first)
    assert not draw(LiveCommerce(), 300, NOON, 5.0, batch=2).equals(first)


def test_a_few_streamers_sell_most_and_show_no_more_than_others() -> None:
    market = LiveCommerce(streamers=1000, heat=1.1)
    hot = market.sellers.hottest(50)
    sold = np.isin(market.purchases(100_000, NOON, 60.0)["streamer"].to_numpy(), hot).mean()
    shown = np.isin(market.shows(100_000, NOON, 60.0)["streamer"].to_numpy(), hot).mean()
    assert sold == pytest.approx(market.sellers.share(50), abs=0.01)
    assert sold > 0.6
    assert shown == pytest.approx(0.05, abs=0.01)


def test_buyers_are_among_the_busy() -> None:
    market = LiveCommerce(users=1000, bustle=1.0)
    hot = market.people.hottest(20)
    for table in (market.purchases(50_000, NOON, 60.0), market.activity(50_000, NOON, 60.0)):
        share = np.isin(table["user"].to_numpy(), hot).mean()
        assert share == pytest.approx(market.people.share(20), abs=0.01)


def test_purchases_and_activity_are_drawn_apart() -> None:
    market = LiveCommerce()
    bought = market.purchases(1000, NOON, 60.0)["user"]
    assert not bought.equals(market.activity(1000, NOON, 60.0)["user"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"streamers": 0}, "streamers"),
        ({"users": 0}, "users"),
        ({"heat": -0.1}, "heat"),
        ({"bustle": float("nan")}, "bustle"),
        ({"seed": -1}, "seed"),
    ],
)
def test_refuses_a_market_that_cannot_be(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        LiveCommerce(**arguments)


@STREAMS
def test_refuses_a_batch_that_cannot_be(draw: Draw, time: str) -> None:
    market = LiveCommerce()
    with pytest.raises(ArgumentError, match="`rows` must be"):
        draw(market, -1, NOON, 5.0)
    with pytest.raises(ArgumentError, match="`seconds` must be"):
        draw(market, 1, NOON, 0.0)
    with pytest.raises(ArgumentError, match="`batch` must be"):
        draw(market, 1, NOON, 5.0, batch=-1)
    with pytest.raises(ArgumentError, match="`start` must be a time with a time zone"):
        draw(market, 1, datetime(2026, 3, 1), 5.0)


def test_batches_are_files_in_order_with_unique_ids(tmp_path: Path) -> None:
    write_live_commerce(LiveCommerce(), tmp_path, 3, (20, 40, 100), seconds=2.5, start=NOON)
    for name, time, rows in (
        ("shows", "shown_at", 20),
        ("purchases", "bought_at", 40),
        ("activity", "seen_at", 100),
    ):
        paths = sorted((tmp_path / name).iterdir())
        assert [path.name for path in paths] == ["0000.parquet", "0001.parquet", "0002.parquet"]
        changed = [path.stat().st_mtime for path in paths]
        assert changed == sorted(set(changed))
        for batch, path in enumerate(paths):
            table = pq.read_table(path)
            since = table[time].cast(pa.int64()).to_numpy() - int(NOON.timestamp()) * 1_000_000
            assert table.num_rows == rows
            assert since[0] >= batch * 2_500_000 and since[-1] < (batch + 1) * 2_500_000
    assert len(set(pq.read_table(tmp_path / "purchases")["purchase_id"].to_pylist())) == 120


def test_a_new_run_replaces_the_files_of_the_last(tmp_path: Path) -> None:
    market = LiveCommerce()
    write_live_commerce(market, tmp_path, 2, (5, 5, 5), seconds=1.0)
    with pytest.raises(ArgumentError, match="`rows` must be"):
        write_live_commerce(market, tmp_path, 1, (5, 5, -5), seconds=1.0)
    with pytest.raises(ArgumentError, match="`rows` must be three numbers"):
        write_live_commerce(market, tmp_path, 1, (5, 5), seconds=1.0)  # type: ignore[arg-type]
    assert len(list((tmp_path / "shows").iterdir())) == 2
    write_live_commerce(market, tmp_path, 1, (5, 5, 5), seconds=1.0)
    assert [path.name for path in (tmp_path / "shows").iterdir()] == ["0000.parquet"]
