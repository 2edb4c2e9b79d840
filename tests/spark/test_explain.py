"""`sk.explain`: what a query stores and for how long, who does what, and what is seldom meant."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from skewless.errors import ArgumentError
from tests.spark.support import TIMESTAMP, FileStream, at, file_stream, finish

MINUTE_US = 60_000_000
PER_BATCH, BATCHES = 60, 4  # a row a second


def rows(batch: int) -> pa.Table:
    numbers = range(batch * PER_BATCH, (batch + 1) * PER_BATCH)
    return pa.table({
        "k": [i % 5 for i in numbers],
        "x": [float(i) for i in numbers],
        "note": [f"n{i}" for i in numbers],
        "at": pa.array([at(i) for i in numbers], TIMESTAMP),
    })  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> FileStream:
    return file_stream(tmp_path_factory.mktemp("rows"), [rows(b) for b in range(BATCHES)])


@pytest.fixture
def stream(spark: SparkSession, files: FileStream) -> DataFrame:
    return files.read(spark)


def test_a_join(spark: SparkSession, files: FileStream, stream: DataFrame) -> None:
    columns = files.read_columns(spark)
    joined = sk.join(columns, stream, on="k", time="at", within=("-1 minute", "2 minutes"),
                     late=("30 seconds", "0 seconds"))  # fmt: skip
    told = sk.explain(joined.where("x > 3 and reverse(note_right) <> 'a'").select("k", "x"))
    (operator,) = told.operators
    left, right = operator.inputs
    # A left row waits for partners up to two minutes later, and for those that are late.
    assert (left.kept_us, right.kept_us) == (2.5 * MINUTE_US, MINUTE_US)
    assert (left.late_us, right.late_us) == (MINUTE_US / 2, 0)
    assert left.reader.startswith("skewless reads the files as columns")
    assert right.reader == "Spark reads it; sk.readStream(spark) would read them as columns"
    assert (left.columns, right.columns) == (("k", "x", "at"), ("k", "note", "at"))
    assert set(operator.columns_not_carried) == {"note", "at", "x_right", "at_right"}
    assert "x > 3" in (operator.filter_inside or "").replace("`", "").replace("3.0D", "3")
    assert "Auto(" in operator.divided_by
    assert told.steps == ("where", "select")
    assert told.warnings == (
        "join: rows of right that come out of order are dropped, as `late` is 0",
    )
    assert operator.state_rows is None and operator.expected_rows is None
    assert json.loads(json.dumps(told.to_dict()))["operators"][0]["name"] == "join"
    assert len(str(told).splitlines()) <= 24


def test_what_spark_keeps_is_said_with_the_reason(stream: DataFrame) -> None:
    left = sk.join(stream, stream, on="k", time="at", within="1 minute", how="left",
                   late="1 second")  # fmt: skip
    (operator,) = sk.explain(left.where("x > 3")).operators
    assert operator.filter_inside is None
    assert "its rows are not pairs alone" in operator.filters_left[0]
    inner = sk.join(stream, stream, on="k", time="at", within="1 minute", late="1 second")
    (operator,) = sk.explain(inner.where("x > 3 and sha2(note, 256) = 'a'")).operators
    assert operator.filter_inside is not None and "sha2" not in operator.filter_inside
    assert any("sha2" in text for text in operator.filters_left)


# Minutes behind the latest event time. Partners of a row that is looked up must still be there when
# it is decided about.
KEPT = {
    "left": (lambda s: sk.join(s, s, on="k", time="at", within="1 minute", how="left"), (1, 2)),
    "semi": (
        lambda s: sk.join(s, s, on="k", time="at", within="1 minute", how="left_semi"), (1, 2),
    ),
    "unbounded": (lambda s: sk.join(s, s, on="k", within=sk.UNBOUNDED), (None, None)),
    "half open": (
        lambda s: sk.join(s, s, on="k", time="at", within=("0 seconds", sk.UNBOUNDED)), (None, 0),
    ),
    "asof": (lambda s: sk.asof_join(s, s, on="k", time="at", tolerance="1 minute"), (0, 1)),
    "three": (
        lambda s: sk.join3(s, s, s, on=[sk.equal("r.k", "s.k"), sk.equal("s.k", "t.k")],
                           time="at", within="1 minute"), (2, 1, 2),
    ),
    "alike": (
        lambda s: sk.similarity_join(s, on=["x"], threshold=1, time="at", within="1 minute"), (1,),
    ),
    "windowed": (
        lambda s: sk.aggregate(s, "k", {"n": "count"}, time="at", window="1 minute"), (1,),
    ),
    "totals": (lambda s: sk.aggregate(s, "k", {"n": "count"}), (None,)),
    "first": (lambda s: sk.deduplicate(s, by="k", time="at", within="1 minute"), (1,)),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_how_long_rows_are_kept(stream: DataFrame, name: str) -> None:
    make, minutes = KEPT[name]
    told = sk.explain(make(stream))
    (operator,) = told.operators
    kept = tuple(i.kept_us for i in operator.inputs)
    assert kept == tuple(None if m is None else m * MINUTE_US for m in minutes)
    grows = [text for text in told.warnings if "the state grows" in text]
    assert len(grows) == sum(m is None for m in minutes)
    assert str(told).startswith(f"{operator.name}: ")


def test_composed(stream: DataFrame) -> None:
    lower = sk.join(stream, stream, on="k", time="at", within="1 minute", late="1 second")
    upper = sk.aggregate(lower.select("k", "at"), "k", {"n": "count"}, time="at", window="1 minute")
    first, second = sk.explain(upper).operators
    assert [first.name, second.name] == ["join-1", "aggregate-2"]
    assert second.inputs[0].source.startswith("join-1 → select")
    assert second.inputs[0].late_us is None
    assert second.inputs[0].kept_us == 2 * MINUTE_US, "its window, and how late results can be"


def test_expected_state_is_about_what_it_becomes(
    stream: DataFrame, spark: SparkSession, tmp_path: Path
) -> None:
    def joined() -> sk.Result:
        return sk.join(stream, stream, on="k", time="at", within="1 minute", late="10 seconds")

    checkpoint = str(tmp_path / "ckpt")
    writer = joined().writeStream.format("noop").option("checkpointLocation", checkpoint)
    finish(writer.trigger(availableNow=True).start())
    told = sk.explain(joined(), checkpoint=checkpoint)
    (operator,) = told.operators
    for i in operator.inputs:
        assert i.rows_per_second == pytest.approx(1, rel=0.05)
        assert i.expected_rows == pytest.approx(70, rel=0.05), "a row a second, for 70 seconds"
    assert operator.state_rows == sk.history(checkpoint)[-1].state_rows
    assert operator.expected_rows == pytest.approx(140, rel=0.05)
    # Rows are dropped batch by batch, so that up to a batch of each side more may lie there.
    assert operator.expected_rows <= (operator.state_rows or 0) + 2
    assert (operator.state_rows or 0) <= operator.expected_rows + 2 * PER_BATCH
    assert "rows per second of event time" in str(told)


@pytest.mark.parametrize("strategy", ["auto", sk.TriJoin()], ids=["rows", "pairs"])
def test_expected_state_of_three_streams(
    stream: DataFrame, tmp_path: Path, strategy: str | sk.TriJoin
) -> None:
    """The stream in the middle is stored for both conditions; pairs lie beside rows."""

    def joined() -> sk.Result:
        return sk.join3(stream, stream, stream, on=[sk.equal("r.k", "s.k"), sk.equal("s.k", "t.k")],
                        time="at", within="10 seconds", strategy=strategy)  # fmt: skip

    checkpoint = str(tmp_path / "ckpt")
    writer = joined().writeStream.format("noop").option("checkpointLocation", checkpoint)
    finish(writer.trigger(availableNow=True).start())
    (operator,) = sk.explain(joined(), checkpoint=checkpoint).operators
    assert [i.copies for i in operator.inputs] == [1, 2, 1]
    assert [i.expected_rows for i in operator.inputs] == pytest.approx([20, 20, 20], rel=0.05)
    last = sk.history(checkpoint)[-1]
    pairs = last.counters["intermediates"] / (last.state_rows - last.counters["intermediates"])
    assert (pairs > 0) == (strategy != "auto")
    assert operator.expected_rows == pytest.approx(60 * (1 + pairs), rel=0.05)
    assert "stored twice, once for each condition, for 10" in str(sk.explain(joined()))


def test_what_is_no_result_is_refused(stream: DataFrame) -> None:
    with pytest.raises(ArgumentError, match="`result` must be a result of skewless"):
        sk.explain(stream)  # type: ignore[arg-type]
