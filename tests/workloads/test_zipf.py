"""Zipf keys: the law they follow, and the streams made of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ArgumentError
from skewless.workloads.zipf import EPOCH, ZipfKeys, publish, zipf_streams

EPOCH_US = 1_700_000_000_000_000


def law(keys: int, exponent: float) -> list[float]:
    weights = [rank**-exponent for rank in range(1, keys + 1)]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5, 2.0])
def test_the_hottest_keys_get_the_share_that_the_law_gives_them(exponent: float) -> None:
    rows = 200_000
    zipf = ZipfKeys(keys=500, exponent=exponent, seed=3)
    counts = np.bincount(zipf.draw(rows), minlength=500)
    for key, p in zip(zipf.hottest(5).tolist(), law(500, exponent), strict=False):
        five_sigma = 5 * math.sqrt(rows * p * (1 - p))
        assert abs(counts[key] - rows * p) < five_sigma


def test_exponent_zero_is_uniform() -> None:
    rows, keys = 200_000, 100
    counts = np.bincount(ZipfKeys(keys, 0.0, seed=1).draw(rows), minlength=keys)
    five_sigma = 5 * math.sqrt(rows / keys)
    assert len(counts) == keys
    assert np.abs(counts - rows / keys).max() < five_sigma


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.3])
def test_share_is_the_sum_of_the_law(exponent: float) -> None:
    zipf = ZipfKeys(keys=50, exponent=exponent)
    p = law(50, exponent)
    for count in (0, 1, 7, 50):
        assert zipf.share(count) == pytest.approx(sum(p[:count]))


@given(st.integers(1, 300), st.floats(0, 5), st.integers(0, 2**70))
def test_ranks_are_mapped_to_ids_one_to_one(keys: int, exponent: float, seed: int) -> None:
    zipf = ZipfKeys(keys, exponent, seed)
    assert sorted(zipf.hottest(keys).tolist()) == list(range(keys))
    drawn = zipf.draw(100)
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert drawn.max() < keys


def test_the_hot_keys_are_scattered_and_shared_by_all_exponents() -> None:
    mild, strong = ZipfKeys(1000, 0.5, seed=2), ZipfKeys(1000, 2.0, seed=2)
    assert np.array_equal(mild.hottest(1000), strong.hottest(1000))
    assert not np.array_equal(mild.hottest(1000), np.arange(1000))
    assert not np.array_equal(mild.hottest(1000), ZipfKeys(1000, 0.5, seed=3).hottest(1000))


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_draws_depend_on_seed_batch_and_side_alone(exponent: float) -> None:
    zipf = ZipfKeys(1000, exponent, seed=2)
    drawn = zipf.draw(100, batch=1, side=0)
    assert np.array_equal(drawn, ZipfKeys(1000, exponent, seed=2).draw(100, batch=1, side=0))
    others = [
        zipf.draw(100, batch=0, side=0),
        zipf.draw(100, batch=0, side=1),
        zipf.draw(100, batch=1, side=1),
        ZipfKeys(1000, exponent, seed=1).draw(100, batch=1, side=0),
    ]
    assert not any(np.array_equal(drawn, other) for other in others)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0, 1.0, 0), "keys"),
        ((1, -0.1, 0), "exponent"),
        ((1, math.nan, 0), "exponent"),
        ((1, math.inf, 0), "exponent"),
        ((1, 1.0, -1), "seed"),
    ],
)
def test_refuses_what_cannot_work(arguments: tuple[int, float, int], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        ZipfKeys(*arguments)


@pytest.mark.parametrize("count", [-1, 11])
def test_refuses_a_share_of_keys_that_do_not_exist(count: int) -> None:
    with pytest.raises(ArgumentError, match=f"`count` must be between 0 and 10; received {count}"):
        ZipfKeys(10, 1.0).share(count)


def test_streams_have_the_shape_that_benchmarks_read(tmp_path: Path) -> None:
    zipf_streams(tmp_path, 1.0, 0.5, files=3, rows=200, keys=40, seconds=2.5, seed=4)
    for side in ("r", "s"):
        paths = sorted((tmp_path / side).iterdir())
        assert [path.name for path in paths] == ["0000.parquet", "0001.parquet", "0002.parquet"]
        tables = [pq.read_table(path) for path in paths]
        for batch, table in enumerate(tables):
            assert table.schema.remove_metadata() == pa.schema(
                [
                    ("key", pa.int64()),
                    ("ts", pa.timestamp("us", tz="UTC")),
                    (f"{side}_id", pa.int64()),
                    (f"{side}_v", pa.float64()),
                ]
            )
            times = table["ts"].cast(pa.int64()).to_numpy() - EPOCH_US
            assert (np.diff(times) >= 0).all()
            assert times[0] >= batch * 2_500_000
            assert times[-1] < (batch + 1) * 2_500_000
        ids = np.concatenate([table[f"{side}_id"].to_numpy() for table in tables])
        assert np.array_equal(ids, np.arange(600))
        assert [path.stat().st_mtime - EPOCH.timestamp() for path in paths] == [0, 1, 2]


def test_each_side_has_its_own_skew_on_the_same_hot_key(tmp_path: Path) -> None:
    zipf_streams(tmp_path, left_zipf=2.0, right_zipf=1.0, files=2, rows=20_000, keys=100, seed=5)
    hot = ZipfKeys(100, 2.0, seed=5).hottest(1)[0]
    for side, exponent in (("r", 2.0), ("s", 1.0)):
        keys = pq.read_table(tmp_path / side)["key"].to_numpy()
        assert (keys == hot).mean() == pytest.approx(law(100, exponent)[0], abs=0.02)


def test_streams_repeat_with_the_seed_and_no_two_files_are_alike(tmp_path: Path) -> None:
    shape = {"left_zipf": 1.0, "right_zipf": 1.0, "files": 2, "rows": 100, "keys": 1000}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        zipf_streams(tmp_path / name, **shape, seed=seed)  # type: ignore[arg-type]
    files = ["r/0000.parquet", "r/0001.parquet", "s/0000.parquet", "s/0001.parquet"]
    for file in files:
        a, b, c = (pq.read_table(tmp_path / name / file) for name in "abc")
        assert a.equals(b)
        assert not a["key"].equals(c["key"])
    columns = [tuple(pq.read_table(tmp_path / "a" / file)["key"].to_pylist()) for file in files]
    assert len(set(columns)) == len(files)


def test_a_new_run_replaces_the_numbered_files_and_nothing_else(tmp_path: Path) -> None:
    zipf_streams(tmp_path, files=3, rows=5, keys=5)
    (tmp_path / "r" / "mine.parquet").write_text("keep")
    zipf_streams(tmp_path, files=1, rows=5, keys=5)
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == [
        "0000.parquet",
        "mine.parquet",
    ]


def test_a_refused_call_removes_nothing(tmp_path: Path) -> None:
    zipf_streams(tmp_path, files=1, rows=5, keys=5)
    with pytest.raises(ArgumentError, match="`exponent`"):
        zipf_streams(tmp_path, right_zipf=-1.0, files=1, rows=5, keys=5)
    with pytest.raises(ArgumentError, match="`seconds`"):
        zipf_streams(tmp_path, files=1, rows=5, keys=5, seconds=0)
    assert (tmp_path / "r" / "0000.parquet").exists()


def test_a_file_that_fails_midway_stays_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(table: pa.Table, path: Path) -> None:
        path.write_bytes(b"PAR1, then the disk was full")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", break_off)
    with pytest.raises(OSError, match="disk full"):
        publish(pa.table({"key": [1]}), tmp_path, 0)
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())
