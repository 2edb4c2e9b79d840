"""Stopping and starting again: the output is as if the query had never stopped."""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import skewless as sk
from skewless.engine.lifecycle import TRANSIENT, Query
from skewless.errors import CheckpointInUseError
from skewless.spark.executor import BatchDriver
from skewless.spark.sinks import ForeachBatchSink
from tests.chaos import Chaos
from tests.frame.kits import KITS
from tests.spark.support import (
    assert_same,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    keyed_tables,
    mixed,
    read_parquet,
    run,
)

pytestmark = pytest.mark.usefixtures("early_compaction")


STEPS: list[dict[str, Any]] = [
    {"instances": 2, "slots": 8},
    {"instances": 5, "slots": 8, "balance": sk.Broadcast()},
    {"instances": 3, "slots": 8, "balance": Chaos()},
    {"instances": 3, "slots": 8, "balance": Chaos(seed=1)},
    {"instances": 1, "slots": 8, "balance": sk.ContRand(groups=2)},
    {"instances": 4, "slots": 100, "balance": sk.ContRand(groups=3), "late": "30 seconds"},
    {"instances": 3, "slots": 1},
]


@pytest.mark.slow
def test_restart_with_other_sizes(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """State written under one strategy and size is read under any other."""
    left, right = keyed_pair(tmp_path, batches=1)
    for step, more in enumerate(STEPS):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "skewless"):
            out = run(
                keyed_join(
                    left.read(spark), right.read(spark), **({"within": "12 seconds"} | more)
                ),
                tmp_path,
            )
        warnings = [r.getMessage() for r in caplog.records if r.name == "skewless"]
        asked = more["slots"]
        expected = f"the checkpoint has 8 slots, {asked} were asked for: 8 are used"
        assert warnings == ([] if asked == 8 else [expected])
        assert len(sk.history(str(tmp_path / "checkpoint"))[-1].instances) == more["instances"]
        assert_same(read_parquet(out), keyed_oracle(left, right, 12))
        for side, stream in (("left", left), ("right", right)):
            batch = mixed(step + 1, 40, 6, 1 + (side == "right"))
            stream.add(*keyed_tables(side, [batch]))


def test_restart_without_anything_new(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path, batches=2)
    joined = keyed_join(left.read(spark), right.read(spark))
    out = run(joined, tmp_path)
    files = sorted(out.iterdir())
    assert sorted(run(joined, tmp_path).iterdir()) == files
    assert len(sk.history(str(tmp_path / "checkpoint"))) == 2


def test_restart_with_another_condition(spark: SparkSession, tmp_path: Path) -> None:
    """`where`, the selected columns and `late` are no part of the state."""
    left, right = keyed_pair(tmp_path, batches=1)
    frames = left.read(spark), right.read(spark)
    run(keyed_join(*frames, where="a >= 0"), tmp_path)
    for side, stream in (("left", left), ("right", right)):
        stream.add(*keyed_tables(side, [mixed(1, 40, 6, 1 + (side == "right"))]))
    later = keyed_join(*frames, where="a < 0 OR a >= 0", late="1 hour")
    out = run(later.select(*later.columns), tmp_path)
    assert_same(read_parquet(out), keyed_oracle(left, right))


@pytest.mark.slow
def test_stops_at_any_moment(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped in the middle of a batch and started again at once, over and over."""
    chance = random.Random(5)
    left, right = keyed_pair(tmp_path, batches=8, rows=30)
    joined = keyed_join(left.read(spark), right.read(spark), within="12 seconds")
    writer = joined.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(7):
        query = writer.start()
        time.sleep(chance.random() * 0.8)
        query.stop()
    out = run(joined, tmp_path)
    assert_same(read_parquet(out), keyed_oracle(left, right, 12))
    assert all(file.suffix == ".parquet" for file in out.iterdir())


def test_nothing_is_left_behind(spark: SparkSession, tmp_path: Path) -> None:
    """When a query opens its state, only what a commit lists is kept."""
    left, right = keyed_pair(tmp_path, batches=4)
    joined = keyed_join(left.read(spark), right.read(spark))
    run(joined, tmp_path)
    state = tmp_path / "checkpoint" / "skewless"
    for orphan in (
        "segments/left-0.arrow",
        "blobs/left-0.arrow",
        "scratch/left-0.arrow",
        "reports/1/0.json",
        "staged/x/y",
    ):
        (state / orphan).parent.mkdir(parents=True, exist_ok=True)
        (state / orphan).write_bytes(b"half a file")
    before = {file for file in (state / "segments").iterdir()}
    out = run(joined, tmp_path)
    assert {file for file in (state / "segments").iterdir()} == before - {
        state / "segments/left-0.arrow"
    }
    for name in ("blobs", *TRANSIENT):
        assert [p for p in (state / name).rglob("*") if p.is_file()] == []
    assert_same(read_parquet(out), keyed_oracle(left, right))


def test_a_batch_after_the_end_is_refused(tmp_path: Path) -> None:
    """To return would let Spark commit the offsets of rows that nobody has worked on."""
    kit = KITS["join"]
    query = Query(str(tmp_path / "skewless"), kit.pipeline(kit.setups[0]))
    driver = BatchDriver(query, ForeachBatchSink(lambda frame, batch_id: None), {})
    driver.close()
    with pytest.raises(CheckpointInUseError, match=r"batch 3 came when the query on .* had ended"):
        driver(None, 3)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
