"""Balancing on Spark: a hot key is found, split and told about, and results stay exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import skewless as sk
from skewless.errors import ArgumentError
from tests.spark.support import (
    FileStream,
    assert_same,
    file_stream,
    keyed_join,
    keyed_oracle,
    keyed_tables,
    read_parquet,
    run,
)

EAGER: dict[str, Any] = {"floor_ms": 0, "noise": 0, "patience": 1, "cooldown": 0}


def skewed(folder: Path, batches: int, rows: int = 300) -> tuple[FileStream, FileStream]:
    """Two streams in which a third of all rows has the key 7; in the second half, the key 3."""
    streams = []
    for number, side in enumerate(("left", "right")):
        rng = np.random.default_rng(number)
        tables = []
        for batch in range(batches):
            hot = 7 if batch < batches / 2 else 3
            keys = np.where(rng.random(rows) < 0.33, hot, rng.integers(100, 200, rows))
            times = 10 * batch + np.sort(rng.integers(0, 40, rows)) / 4
            tables.append(list(zip(keys.tolist(), times.tolist(), strict=True)))
        streams.append(file_stream(folder / side, keyed_tables(side, tables)))
    return streams[0], streams[1]


def test_a_hot_key_is_split_and_the_result_is_exact(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(tmp_path, 8)
    joined = keyed_join(left.read(spark), right.read(spark), balance=sk.Auto(**EAGER), instances=4)
    assert_same(read_parquet(run(joined, tmp_path)), keyed_oracle(left, right))
    history = sk.history(str(tmp_path / "checkpoint"))
    accepted = [d for report in history for d in report.decisions if d.accepted]
    assert {"key 7", "key 3"} <= {d.subject for d in accepted if d.kind == "split"}
    assert all(d.reason for report in history for d in report.decisions)
    assert any("carr" in report.verdict for report in history)
    report = history[-1]
    assert report.slots is not None
    assert len(report.slots) == 64
    assert {key.value for key in report.keys if key.isolated} >= {"3"}


def test_a_dry_run_is_told_but_not_done(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(tmp_path, 3)
    joined = keyed_join(
        left.read(spark), right.read(spark), balance=sk.Auto(dry_run=True, **EAGER), instances=4
    )
    assert_same(read_parquet(run(joined, tmp_path)), keyed_oracle(left, right))
    decisions = [d for r in sk.history(str(tmp_path / "checkpoint")) for d in r.decisions]
    assert decisions
    assert not any(d.accepted for d in decisions)


BAD_PINS: dict[str, dict[object, int]] = {
    "type": {"seven": 0},
    "columns": {(1, 2): 0},
    "instance": {7: 4},
}


@pytest.mark.parametrize("pin", BAD_PINS.values(), ids=BAD_PINS.keys())
def test_a_pin_that_cannot_be_is_refused(
    spark: SparkSession, tmp_path: Path, pin: dict[object, int]
) -> None:
    left, right = skewed(tmp_path, 1, rows=1)
    with pytest.raises(ArgumentError) as error:
        keyed_join(left.read(spark), right.read(spark), balance=sk.Auto(pin=pin), instances=4)
    assert error.value.argument == "pin"


def test_a_band_cannot_be_pinned(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(tmp_path, 1, rows=1)
    with pytest.raises(ArgumentError, match="pin"):
        sk.join(
            left.read(spark), right.read(spark), sk.band("k", "k", 1), left_time="at",
            right_time="seen", within="1 second", balance=sk.Auto(pin={7: 0}),
        )  # fmt: skip


def test_a_static_join_has_no_batches_to_balance(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(tmp_path, 2)
    frames = [spark.read.parquet(str(tmp_path / side)) for side in ("left", "right")]
    rows = keyed_join(*frames, balance=sk.Auto(**EAGER)).toDF().collect()
    assert len(rows) == sum(keyed_oracle(left, right).values())
