"""What may change on a checkpoint, on Spark; and a new checkpoint over an old output folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import ArgumentError
from tests.spark.support import (
    Oracle,
    assert_same,
    bound,
    finish,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    keyed_tables,
    mixed,
    multiset,
    read_parquet,
    run,
)


@pytest.mark.slow
def test_a_query_that_is_changed_three_times(spark: SparkSession, tmp_path: Path) -> None:
    """Its bound, strategy, lateness and condition; then a new column; then its output mode."""
    left, right = keyed_pair(tmp_path, batches=2)

    def more(batch: int) -> None:
        for side, stream, salt in (("left", left, 1), ("right", right, 2)):
            (table,) = keyed_tables(side, [mixed(batch, 40, 6, salt)])
            number = table.column(2).to_numpy() + 1000 * batch
            stream.add(table.set_column(2, table.schema.field(2), pa.array(number)))

    out = run(keyed_join(left.read(spark), right.read(spark)), tmp_path)
    seen = max(t for table in left.tables for t in table.column("at").to_pylist())
    more(2)
    settings: dict[str, Any] = {"strategy": sk.Hash(), "instances": 3, "late": "12 seconds"}
    longer = keyed_join(left.read(spark), right.read(spark), within="7 seconds", **settings)
    assert run(longer.where("a % 2 = 0"), tmp_path) == out
    more(3)
    new = left.read(spark).select(F.lit("new").alias("word"), "k", "a", "at")
    newer = keyed_join(new, right.read(spark), within="7 seconds", where="a % 2 = 0")
    run(newer.select("k", "at", "a", "seen", "b", "word"), tmp_path)
    reports = sk.history(str(tmp_path / "checkpoint"))
    told = [note for report in reports for note in report.notes]
    notes = [note for note in told if not note.startswith("instances: ")]
    assert len(notes) == 2
    assert "within is now -7 seconds to 7 seconds" in notes[0]
    assert "the left input has new columns, null in rows from before: word" in notes[1]

    oracle = Oracle(left.tables, right.tables)
    moment = f"epoch_us(l.at) > epoch_us(TIMESTAMPTZ '{seen.isoformat()}')"
    near = f"CASE WHEN {moment} THEN {bound(-7, 7)} ELSE {bound(-4, 4)} END"
    # A pair comes with the later of its rows; rows are numbered by batches from the third on.
    batch = "greatest(l.a, r.b) // 1000"
    filtered = f"({batch} < 2 OR l.a % 2 = 0)"
    word = "CASE WHEN l.a >= 3000 THEN 'new' END"
    columns = f"l.k, l.at, l.a, r.seen, r.b, {word}"
    expected = oracle.join(f"l.k = r.k AND {near} AND {filtered}", columns)
    assert expected.total() > 100
    found = spark.read.schema("k long, at timestamp, a long, seen timestamp, b long, word string")
    rows = found.parquet(str(out)).toArrow()
    assert_same(multiset(row.values() for row in rows.to_pylist()), expected)


@pytest.mark.slow
def test_a_new_checkpoint_over_an_old_folder(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path, batches=2)
    joined = keyed_join(left.read(spark), right.read(spark))
    out = run(joined, tmp_path)
    once = keyed_oracle(left, right)
    (tmp_path / "checkpoint").rename(tmp_path / "former")
    jobs = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("refused", "")
    with pytest.raises(ArgumentError) as refusal:
        run(joined, tmp_path)
    for part in ("path", str(out), "skewless.existing", "append", "overwrite"):
        assert part in str(refusal.value)
    assert len(jobs.getJobIdsForGroup("refused")) == 0
    run(joined, tmp_path, **{"skewless.existing": "overwrite"})
    assert_same(read_parquet(out), once)
    run(joined, tmp_path, **{"skewless.existing": "overwrite"})  # its own by now
    assert_same(read_parquet(out), once)
    (tmp_path / "checkpoint").rename(tmp_path / "second")
    run(joined, tmp_path, **{"skewless.existing": "Append"})
    assert_same(read_parquet(out), once + once)


@pytest.mark.quick(1)
@pytest.mark.parametrize("value", ["replace", 3, ""])
def test_a_wrong_word(spark: SparkSession, tmp_path: Path, value: Any) -> None:
    left, right = keyed_pair(tmp_path, batches=1)
    joined = keyed_join(left.read(spark), right.read(spark))
    with pytest.raises(ArgumentError, match=r"skewless.existing.*append, overwrite"):
        run(joined, tmp_path, **{"skewless.existing": value})


def test_where_nothing_can_be_there_already(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path, batches=1)
    writer = keyed_join(left.read(spark), right.read(spark)).writeStream.format("noop")
    with pytest.raises(ArgumentError, match=r"skewless.existing.*left out"):
        writer.option("skewless.existing", "append").start()


@pytest.mark.slow
def test_update_is_append(spark: SparkSession, tmp_path: Path) -> None:
    left, right = keyed_pair(tmp_path, batches=2)
    writer = keyed_join(left.read(spark), right.read(spark)).writeStream.outputMode("update")
    writer = writer.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.trigger(availableNow=True).start(str(tmp_path / "out")))
    assert_same(read_parquet(tmp_path / "out"), keyed_oracle(left, right))
