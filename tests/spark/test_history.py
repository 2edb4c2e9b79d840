"""What a query tells about itself: `sk.history`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import skewless as sk
from tests.spark.support import (
    FileStream,
    Oracle,
    bound,
    file_stream,
    keyed_join,
    keyed_tables,
    mixed,
    run,
)

HOT = 7


def skewed(batch: int, salt: int) -> list[tuple[int, float]]:
    """Forty rows, of which the hot key has ten, and a straggler from long ago."""
    rows = mixed(batch, 29, 5, salt) + [(HOT, batch * 10 + i) for i in range(10)]
    return [*rows, (1, -5.0)] if batch == 2 else [*rows, (2, batch * 10.0)]


@pytest.fixture(scope="module")
def query(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, FileStream, FileStream]:
    folder = tmp_path_factory.mktemp("history")
    left = [skewed(b, 1) for b in range(3)]
    right = [skewed(b, 2) for b in range(3)]
    a = file_stream(folder / "left", keyed_tables("left", left))
    b = file_stream(folder / "right", keyed_tables("right", right))
    joined = keyed_join(
        a.read(spark), b.read(spark), late="2 seconds", instances=3, balance=sk.ContRand(groups=2)
    )
    run(joined, folder)
    return str(folder / "checkpoint"), a, b


def matches_until(left: FileStream, right: FileStream, batches: int) -> int:
    oracle = Oracle(left.tables[:batches], right.tables[:batches], (2, 2))
    return oracle.join(f"l.k = r.k AND {bound(-4, 4)}").total()


def test_counts(query: tuple[str, FileStream, FileStream]) -> None:
    checkpoint, left, right = query
    reports = sk.history(checkpoint)
    assert isinstance(reports, list)
    assert all(isinstance(r, sk.BatchReport) for r in reports)
    assert [r.batch_id for r in reports] == [0, 1, 2]
    assert [(r.rows_left, r.rows_right) for r in reports] == [(40, 40)] * 3
    assert [r.late for r in reports] == [0, 0, Oracle(left.tables, right.tables, (2, 2)).late()]
    assert reports[2].late == 2
    totals = [0, *(matches_until(left, right, n) for n in (1, 2, 3))]
    assert [r.matches for r in reports] == [b - a for a, b in pairwise(totals)]
    assert reports[0].matches > 0


def test_state(query: tuple[str, FileStream, FileStream]) -> None:
    """After a batch the state holds what the next batches may still need, in whole segments."""
    reports = sk.history(query[0])
    assert reports[0].state_rows == 80
    assert reports[0].segments == 2
    assert reports[0].watermark_us is None
    assert reports[1].watermark_us is not None
    assert all(0 < r.state_rows <= 160 for r in reports)
    assert all(r.state_bytes > r.state_rows * 24 for r in reports)


def test_instances(query: tuple[str, FileStream, FileStream]) -> None:
    for report in sk.history(query[0]):
        assert [load.instance for load in report.instances] == [0, 1, 2]
        assert sum(load.matches for load in report.instances) == report.matches
        assert sum(load.pairs for load in report.instances) >= report.matches
        # Two of the three share a group: each sees all new rows of it, the third only its own.
        assert 80 < sum(load.rows for load in report.instances) <= 160
        assert sum(load.late for load in report.instances) == report.late
        assert all(load.time_ms > 0 and load.work_ms > 0 for load in report.instances)
        for told, by in (
            (report.busiest_over_mean, "work_ms"),
            (report.measured_over_mean, "time_ms"),
        ):
            loads = [getattr(load, by) for load in report.instances]
            assert told == pytest.approx(max(loads) * 3 / sum(loads))


def test_phases(query: tuple[str, FileStream, FileStream]) -> None:
    for report in sk.history(query[0]):
        assert all(ms >= 0 for ms in report.phases_ms.values())
        assert report.duration_ms == pytest.approx(sum(report.phases_ms.values()), abs=0.1)
        assert report.duration_ms > 1


def test_heavy_keys(query: tuple[str, FileStream, FileStream]) -> None:
    for report in sk.history(query[0]):
        heaviest = report.heavy_keys[0]
        assert heaviest.value == str(HOT)
        assert heaviest.share == pytest.approx(20 / 80)
        shares = [key.share for key in report.heavy_keys]
        assert shares == sorted(shares, reverse=True)


def test_heavy_keys_by_value(spark: SparkSession, tmp_path: Path) -> None:
    """A composite key and a band are told as a person would write them."""
    tables = keyed_tables("left", [[(3, 0.0)] * 8 + [(k, 0.0) for k in range(20, 28)]])
    source = file_stream(tmp_path / "left", tables)
    frame = source.read(spark).selectExpr("k", "at", "concat('city ', k) AS city", "k * 1.5D AS x")
    joined = sk.join(
        frame,
        frame,
        ["city", "k", sk.band("x", "x", 0.5)],
        left_time="at",
        right_time="at",
        within="1 second",
    )
    run(joined, tmp_path)
    (report,) = sk.history(str(tmp_path / "checkpoint"))
    assert report.heavy_keys[0].value == "city 3, 3, near 4.5"
    assert report.heavy_keys[0].share == 0.5


def test_heavy_keys_of_two_types(spark: SparkSession, tmp_path: Path) -> None:
    """A key is one key, however each side writes it."""
    tables = keyed_tables("left", [[(3, 0.0)] * 8 + [(k, 0.0) for k in range(20, 28)]])
    source = file_stream(tmp_path / "left", tables).read(spark)
    joined = sk.join(
        source.selectExpr("cast(k as decimal(10, 1)) m", "at"),
        source.selectExpr("cast(k as decimal(12, 3)) m", "at"),
        "m",
        left_time="at",
        right_time="at",
        within="1 second",
    )
    run(joined, tmp_path)
    (report,) = sk.history(str(tmp_path / "checkpoint"))
    assert [key.share for key in report.heavy_keys] == [0.5]


def test_as_json(query: tuple[str, FileStream, FileStream]) -> None:
    reports = sk.history(query[0])
    rows: list[dict[str, Any]] = json.loads(reports.to_json())
    assert [row["matches"] for row in rows] == [r.matches for r in reports]
    assert rows[0]["heavy_keys"][0] == {"value": str(HOT), "share": 0.25}
    assert [len(row["instances"]) for row in rows] == [3, 3, 3]
    assert rows[0]["busiest_over_mean"] >= 1
    assert [sk.BatchReport.from_json(row) for row in rows] == list(reports)


def test_as_frame(spark: SparkSession, query: tuple[str, FileStream, FileStream]) -> None:
    reports = sk.history(query[0])
    frame = reports.toDF(spark)
    assert {*frame.columns} == {*json.loads(reports.to_json())[0]}
    rows = frame.orderBy("batch_id").collect()
    assert [row.matches for row in rows] == [r.matches for r in reports]
    assert [row.late for row in rows] == [r.late for r in reports]
    assert rows[1].watermark_us == reports[1].watermark_us
    assert rows[0].instances[2].rows == reports[0].instances[2].rows
    assert rows[0].heavy_keys[0].value == str(HOT)
    assert rows[0].phases_ms == reports[0].phases_ms
    assert rows[0].verdict == reports[0].verdict
    slots, keys = reports[0].slots, reports[0].keys
    assert slots is not None
    assert rows[0].slots["probing_left"] == slots.probing_left.tolist()
    assert [int(key.hash) for key in rows[0]["keys"]] == [key.hash for key in keys]
    assert frame.selectExpr("explode(instances) i").groupBy("i.instance").count().count() == 3


def test_no_batches_yet(spark: SparkSession, tmp_path: Path) -> None:
    source = file_stream(tmp_path / "left", keyed_tables("left", [[(1, 0.0)]]))
    (tmp_path / "left" / "00000.parquet").unlink()
    frame = source.read(spark)
    joined = sk.join(frame, frame, "k", left_time="at", right_time="at", within="1 second")
    run(joined, tmp_path)
    reports = sk.history(str(tmp_path / "checkpoint"))
    assert reports == []
    assert reports.to_json() == "[]"
    assert reports.toDF(spark).count() == 0
