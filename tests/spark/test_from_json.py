"""Streams whose values are JSON: the same rows, whoever parses them; what becomes of bad ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQueryException
from pyspark.sql.types import LongType

import skewless as sk
from skewless.engine.decoding import NO_JSON, Decoding
from skewless.errors import ArgumentError, ColumnError
from skewless.spark.json_streams import JsonStream, json_stream
from tests.files import json_cases
from tests.spark.support import (
    assert_same,
    file_stream,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    multiset,
    read_parquet,
    run,
    settings_of,
)

FIELDS = {"left": "k long, at timestamp, a long", "right": "k long, seen timestamp, b long"}
VALUES = pa.schema({"value": pa.binary(), "offset": pa.int64()})
BAD = [b"nope", b'{"k":1', b'{"k":"x","a":-1}', b"\xff", b'{"k":1,"at":"never","seen":"never"}']
BAD_VALUES = "bad values"


def values_of(table: pa.Table, *bad: bytes) -> pa.Table:
    """The rows as JSON, with bad values among them."""
    texts = [json.dumps(row, default=lambda time: time.isoformat()) for row in table.to_pylist()]
    values = [text.encode() for text in texts]
    for number, value in enumerate(bad):
        values.insert((number * 7) % (len(values) + 1), value)
    return pa.table({"value": values, "offset": range(len(values))}, VALUES)


class Streams:
    """Two streams of the smallest schema, and the same as JSON in files."""

    def __init__(self, folder: Path, *bad: bytes, batches: int = 3) -> None:
        self.folder, self.plain = folder, keyed_pair(folder / "plain", batches=batches)
        self.bad = len(bad) * batches
        self.values = {
            side: file_stream(folder / side, [values_of(t, *bad) for t in stream.tables])
            for side, stream in zip(FIELDS, self.plain, strict=True)
        }

    def raw(self, spark: SparkSession, side: str) -> DataFrame:
        return self.values[side].read(spark)

    def parsed(self, spark: SparkSession, **how: Any) -> list[DataFrame]:
        return [
            sk.from_json(self.raw(spark, side).select("value"), "value", fields, **how)
            for side, fields in FIELDS.items()
        ]

    def by_spark(self, spark: SparkSession) -> list[DataFrame]:
        text = F.col("value").cast("string")
        return [
            self.raw(spark, side).select(F.from_json(text, fields).alias("r")).select("r.*")
            for side, fields in FIELDS.items()
        ]

    def expected(self) -> Any:
        return keyed_oracle(*self.plain)


def reports(folder: Path) -> list[sk.BatchReport]:
    return sk.history(str(folder / "checkpoint"))


def total(found: list[sk.BatchReport], where: str) -> int:
    return sum(getattr(report, where).get(BAD_VALUES, 0) for report in found)


def drop_times(left: DataFrame, right: DataFrame) -> sk.Joined:
    return keyed_join(left, right, on_null_time="drop")


@pytest.mark.quick(1)
@pytest.mark.parametrize("on_bad", ["drop", "null"])
def test_a_join_of_values(
    spark: SparkSession,
    tmp_path: Path,
    on_bad: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Bad values have no time, or no key: they match nothing, and are counted either way."""
    streams = Streams(tmp_path, *BAD)
    joined = drop_times(*streams.parsed(spark, on_bad=on_bad))
    joined.explain()
    assert capsys.readouterr().out.count("(JSON, parsed as columns)\n") == 2
    with caplog.at_level(logging.WARNING, "skewless"):
        out = run(joined, tmp_path)
    assert_same(read_parquet(out), streams.expected())
    found = reports(tmp_path)
    is_dropped = on_bad == "drop"
    assert total(found, "dropped") == (2 * streams.bad if is_dropped else 0)
    assert total(found, "counters") == (0 if is_dropped else 2 * streams.bad)
    assert sum(r.rows_left for r in found) == sum(len(t) for t in streams.values["left"].tables)
    told = " ".join(record.getMessage() for record in caplog.records)
    assert ("10 bad values" in told) and ("loses rows" in told)
    assert ("what is malformed" in told) != is_dropped


def test_an_error_shows_the_value_and_where_it_stood(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(tmp_path, b'{"k":"x"}')
    left = sk.from_json(streams.raw(spark, "left"), "value", FIELDS["left"], on_bad="error")
    right = streams.parsed(spark)[1]
    with pytest.raises(StreamingQueryException) as caught:
        run(drop_times(left, right), tmp_path)
    assert '1 bad value of the left input: \'{"k":"x"}\' (offset 0)' in str(caught.value)
    assert not reports(tmp_path)
    good = Streams(tmp_path / "good")
    out = run(keyed_join(*good.parsed(spark, on_bad="error")), tmp_path / "good")
    assert_same(read_parquet(out), good.expected())


@pytest.mark.slow
def test_who_parses_may_change(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint goes on, whoever has parsed its values so far."""
    streams = Streams(tmp_path, *BAD, batches=1)
    more = Streams(tmp_path / "more", *BAD, batches=4)
    for side, stream in streams.values.items():
        stream.add(more.values[side].tables[1])
    run(drop_times(*streams.by_spark(spark)), tmp_path)
    for side, stream in streams.values.items():
        stream.add(*more.values[side].tables[2:])
    run(drop_times(*streams.parsed(spark)), tmp_path)
    for plain, other in zip(streams.plain, more.plain, strict=True):
        plain.tables += other.tables[1:]
    out = run(drop_times(*streams.by_spark(spark)), tmp_path)
    assert_same(read_parquet(out), streams.expected())
    assert total(reports(tmp_path), "counters") == 2 * 2 * len(BAD)


@pytest.mark.slow
def test_lines_of_text_and_a_stream_with_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Strings instead of bytes. The source is followed once."""
    values = Streams(tmp_path, batches=1).values["left"].tables[0]["value"].to_pylist()
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "0.txt").write_bytes(b"\n".join([*values, *BAD]))
    lines = spark.readStream.text(str(tmp_path / "lines"))
    text = F.from_json("value", FIELDS["left"]).alias("r")
    ours = sk.from_json(lines, "value", FIELDS["left"])
    found = []
    for name, frame in (("ours", ours), ("theirs", lines.select(text).select("r.*"))):
        pairs = sk.join(
            frame, frame, "k", time="at", within="4 seconds", late="1 minute", on_null_time="drop"
        )
        found.append(read_parquet(run(pairs, tmp_path / name)))
        assert len(list((tmp_path / name / "checkpoint" / "sources").iterdir())) == 1
    assert_same(found[0], found[1])
    assert found[0].total() > len(values)


Steps = Callable[[DataFrame], DataFrame]
SHAPES: dict[str, Steps] = {
    "filter": lambda frame: frame.where("a >= 5 and k is not null"),
    "computed": lambda frame: frame.withColumn("a", F.col("a") * 2).where("a % 3 = 0"),
    "watermark": lambda frame: frame.withWatermark("at", "10 seconds").select("a", "k", "at"),
    "other columns": lambda frame: frame.where("offset > 3").drop("offset"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_done_to_columns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """On Arrow: the same as on what Spark has parsed."""
    streams = Streams(tmp_path, *BAD)
    text = F.col("value").cast("string")
    raw = streams.raw(spark, "left")
    theirs = raw.select(F.from_json(text, FIELDS["left"]).alias("r"), "offset").select(
        "r.*", "offset"
    )
    ours = sk.from_json(raw, "value", FIELDS["left"])
    assert ours.schema == theirs.schema
    right = streams.parsed(spark)[1]
    found = []
    for who, left in (("ours", SHAPES[name](ours)), ("theirs", SHAPES[name](theirs))):
        assert isinstance(json_stream(left), JsonStream) == (who == "ours")
        joined = keyed_join(left.select("k", "at", "a"), right, on_null_time="drop")
        found.append(read_parquet(run(joined, tmp_path / who)))
    assert_same(found[0], found[1])
    assert found[0].total() > 5


UDF = F.udf(lambda k: k, LongType())
LEFT_TO_SPARK: dict[str, tuple[Steps, dict[str, Any], str]] = {
    "udf": (lambda frame: frame.withColumn("k", UDF("k")), {}, "Arrow cannot do"),
    "option": (lambda frame: frame, {"options": {"allowComments": True}}, "option allowComments"),
    "now": (lambda frame: frame.where("at < current_timestamp()"), {}, "time of day"),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", LEFT_TO_SPARK)
def test_what_is_left_to_spark(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says why, and bad values are dropped all the same."""
    steps, how, why = LEFT_TO_SPARK[name]
    streams = Streams(tmp_path, *BAD)
    left, right = streams.parsed(spark, on_bad="drop", **how)
    joined = drop_times(
        steps(left), steps(right.withColumnRenamed("seen", "at")).withColumnRenamed("at", "seen")
    )
    joined.explain()
    assert f"left: stream 0 (JSON, parsed by Spark: {why}" in (
        capsys.readouterr().out.replace("the option", "option").replace("the time", "time")
    )
    with caplog.at_level(logging.WARNING, "skewless"):
        out = run(joined, tmp_path)
    assert_same(read_parquet(out), streams.expected())
    assert any("Spark parses the JSON of stream 0" in r.getMessage() for r in caplog.records)
    assert sum(r.null_times for r in reports(tmp_path)) == 0


def test_only_what_stands_above_has_to_be_known(spark: SparkSession, tmp_path: Path) -> None:
    """Below, Spark may do anything."""
    raw = Streams(tmp_path, batches=1).raw(spark, "left").withColumn("offset", UDF("offset"))
    both = sk.from_json(raw.union(raw), "value", FIELDS["left"])
    assert isinstance(json_stream(both), JsonStream)
    assert json_stream(both.union(both)) == "several streams come together above it"
    assert json_stream(raw.union(raw)) is None


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.json.enablePartialResults", "false"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY"),
    ],
)
def test_other_settings_are_sparks(
    spark: SparkSession, tmp_path: Path, setting: str, value: str
) -> None:
    left = Streams(tmp_path, batches=1).parsed(spark)[0]
    assert isinstance(json_stream(left), JsonStream)
    before = spark.conf.get(setting, None)
    spark.conf.set(setting, value)
    try:
        assert json_stream(left) == f"{setting} is {value}"
    finally:
        spark.conf.unset(setting) if before is None else spark.conf.set(setting, before)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("k long, v binary", "`v` is of a type that only Spark reads"),
        ("k long, v array<string collate unicode>", "`v` has strings of a length or collation"),
        ("k long, v interval day to second", "`v` is of a type that only Spark reads"),
    ],
)
def test_types_that_are_sparks(spark: SparkSession, fields: str, why: str) -> None:
    raw = spark.createDataFrame([("{}",)], "value string")
    assert json_stream(sk.from_json(raw, "value", fields)) == why


@pytest.mark.slow
def test_spark_itself_runs_it(spark: SparkSession) -> None:
    """It is an ordinary DataFrame, and bad values are what they are with skewless."""
    texts = [*json_cases.WHOLE, '{"a":1}', '{"a":"x","b":"kept"}']
    raw = spark.createDataFrame([(i, text) for i, text in enumerate(texts)], "i int, value string")
    schema = "a int, b string, _corrupt_record string"
    frame = sk.from_json(raw, "value", schema)
    assert frame.columns == ["i", "a", "b", "_corrupt_record"]
    plain = raw.select("i", F.from_json("value", schema).alias("r")).select("i", "r.*")
    assert multiset(frame.collect()) == multiset(plain.collect())
    good = [row.i for row in frame.where("_corrupt_record is null").collect()]
    dropped = sk.from_json(raw, "value", "a int, b string", on_bad="drop")
    assert sorted(row.i for row in dropped.collect()) == sorted(good)
    with pytest.raises(PySparkException, match=r"sk\.from_json: bad value: null"):
        sk.from_json(raw.where("i = 3"), "value", "a int", on_bad="error").collect()
    assert sk.from_json(raw.where("i = 39"), "value", "a int", on_bad="error").count() == 1


@pytest.mark.slow
def test_through_the_shuffle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On remote stores rows go on as packets."""
    monkeypatch.setenv("SKEWLESS_EXCHANGE", "always")
    streams = Streams(tmp_path, *BAD)
    out = run(drop_times(*streams.parsed(spark, on_bad="drop")), tmp_path)
    assert_same(read_parquet(out), streams.expected())
    assert total(reports(tmp_path), "dropped") == 2 * streams.bad


@pytest.mark.slow
def test_static_rows(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(tmp_path, *BAD, batches=1)
    frames = [
        sk.from_json(streams.values[side].read_static(spark), "value", fields, on_bad="drop").drop(
            "offset"
        )
        for side, fields in FIELDS.items()
    ]
    assert all(isinstance(json_stream(frame), JsonStream) for frame in frames)
    assert_same(multiset(keyed_join(*frames).dataframe().collect()), streams.expected())


def test_only_what_is_asked_for_is_handed_over(spark: SparkSession, tmp_path: Path) -> None:
    raw = Streams(tmp_path, batches=1).raw(spark, "left").withColumn("topic", F.lit("t"))
    found = json_stream(sk.from_json(raw, "value", FIELDS["left"]).where("a > 3"))
    assert isinstance(found, JsonStream)
    assert found.rows.columns == ["value", "offset", "topic"]
    task: Any = None
    decoding, handed = found.decoding(task, (1, 0))  # at, k; and a for the filter
    assert (handed, decoding.made, decoding.text) == ((0,), (-1, -2, -3), 0)
    assert isinstance(decoding, Decoding) and not decoding.origin
    _, handed = found.decoding(task, (0, 3))
    assert handed == (0, 1)
    loud = json_stream(sk.from_json(raw, "value", FIELDS["left"], on_bad="error"))
    assert isinstance(loud, JsonStream)
    decoding, handed = loud.decoding(task, (0,))
    assert handed == (0, 1, 2)
    assert decoding.origin == (("topic", 2), ("offset", 1))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda f: sk.from_json("x", "value", "a int"), ArgumentError, "`df` must be a DataFrame"),
        (lambda f: sk.from_json(f, "v", "a int"), ColumnError, "a column of df: value, n"),
        (lambda f: sk.from_json(f, f["value"], "a int"), ArgumentError, "the name of a column"),
        (lambda f: sk.from_json(f, "n", "a int"), ColumnError, "of strings or bytes"),
        (lambda f: sk.from_json(f, "value", "a nosuch"), ArgumentError, "received 'a nosuch'"),
        (lambda f: sk.from_json(f, "value", LongType()), ArgumentError, "a StructType, or text"),
        (lambda f: sk.from_json(f, "value", "N int"), ColumnError, "once among the fields"),
        (lambda f: sk.from_json(f, "value", "a int", on_bad="x"), ArgumentError, "null, error"),
        (lambda f: sk.from_json(f, "value", "a int", options=3), ArgumentError, "received 3"),
        (
            lambda f: sk.from_json(f, "value", "a int", options={"Mode": "FAILFAST"}),
            ArgumentError,
            "on_bad says what happens",
        ),
        (
            lambda f: sk.from_json(f, "value", "a map<int,string>"),
            ArgumentError,
            "what Spark parses .*MAP_KEY_TYPE",
        ),
        (
            lambda f: sk.from_json(f, "value", "a varchar(3)"),
            ArgumentError,
            "what Spark parses .*VARCHAR",
        ),
        (
            lambda f: sk.from_json(f, "value", "a int, _corrupt_record int"),
            ColumnError,
            "it has the text of bad values",
        ),
    ],
)
def test_bad_arguments(
    spark: SparkSession, call: Callable[[Any], Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        call(spark.createDataFrame([("{}", 1)], "value string, n long"))


# Dead letters -------------------------------------------------------------------------------------


def letters_in(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder))


def test_dead_letters_are_what_spark_calls_corrupt(spark: SparkSession, tmp_path: Path) -> None:
    """All columns of the rows, in folders of their batches; and the rest is joined."""
    corrupt = [*BAD, *(text.encode() for text in json_cases.WHOLE)]
    streams = Streams(tmp_path, *corrupt, batches=2)
    folder = tmp_path / "letters"
    left = sk.from_json(
        streams.raw(spark, "left"), "value", FIELDS["left"], on_bad=sk.DeadLetters(str(folder))
    )
    right = sk.from_json(streams.raw(spark, "right"), "value", FIELDS["right"], on_bad="drop")
    out = run(drop_times(left.drop("offset"), right.drop("offset")), tmp_path)
    assert_same(read_parquet(out), streams.expected())
    rows = streams.values["left"].read_static(spark)
    text = F.col("value").cast("string")
    permissive = F.from_json(text, f"{FIELDS['left']}, _corrupt_record string")
    bad = rows.where(permissive["_corrupt_record"].isNotNull())
    found = letters_in(spark, folder)
    assert found.columns == ["value", "offset", "reason", "batch"]
    assert [row[0] for row in found.select("reason").distinct().collect()] == [NO_JSON]
    # Else Spark 4.1 parses no field that is not asked for, and calls less corrupt.
    with settings_of(spark, {"spark.sql.optimizer.enableJsonExpressionOptimization": "false"}):
        by_value = [multiset(df.select("value", "offset").collect()) for df in (found, bad)]
    assert_same(*by_value)
    assert {row[0] for row in found.select("batch").distinct().collect()} == {0, 1}
    counted = sum(report.dropped.get("dead letters", 0) for report in reports(tmp_path))
    assert counted == by_value[0].total() > 2 * len(BAD)
    table = ds.dataset(folder, partitioning="hive").to_table()
    assert table.num_rows == by_value[0].total()


@pytest.mark.slow
def test_dead_letters_beside_another_sink(spark: SparkSession, tmp_path: Path) -> None:
    """They are exactly once, even where the results are not."""
    streams = Streams(tmp_path, *BAD, batches=2)
    letters = sk.DeadLetters(str(tmp_path / "letters"))
    failed: list[int] = []

    def take(rows: DataFrame, batch_id: int) -> None:
        rows.count()
        if batch_id == 1 and not failed:
            failed.append(batch_id)
            raise RuntimeError("once")

    for _ in range(2):
        writer = drop_times(*streams.parsed(spark, on_bad=letters)).writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            assert letters_in(spark, tmp_path / "letters").count() == 2 * len(BAD)
    assert failed
    assert letters_in(spark, tmp_path / "letters").count() == 2 * 2 * len(BAD)


def test_dead_letters_that_would_get_lost_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(tmp_path, *BAD, batches=1)
    letters = sk.DeadLetters(str(tmp_path / "letters"))
    left, right = streams.parsed(spark, on_bad=letters)
    shout = F.udf(lambda k: k, LongType())
    with pytest.raises(ArgumentError, match=r"`on_bad`.*Spark has to parse.*DeadLetters"):
        run(drop_times(left.withColumn("k", shout("k")), right), tmp_path)
    static = streams.values["left"].read_static(spark)
    with pytest.raises(ArgumentError, match=r"`on_bad`.*used on streams"):
        sk.from_json(static, "value", FIELDS["left"], on_bad=letters)
    named = streams.raw(spark, "left").withColumnRenamed("offset", "Reason")
    with pytest.raises(ColumnError, match="Reason"):
        sk.from_json(named, "value", FIELDS["left"], on_bad=letters)
    with pytest.raises(ArgumentError, match="a folder"):
        sk.DeadLetters("")
    plain = streams.raw(spark, "left").select("value")
    told = sk.from_json(plain, "value", FIELDS["left"], on_bad=letters)
    query = told.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "own"))
    with pytest.raises(StreamingQueryException, match="bad value"):
        query.trigger(availableNow=True).start().awaitTermination()


def test_a_folder_of_letters_of_another_query(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "batch-000000000000-x.parquet").write_bytes(b"of another")
    streams = Streams(tmp_path, *BAD, batches=1)
    joined = drop_times(*streams.parsed(spark, on_bad=sk.DeadLetters(str(tmp_path / "letters"))))
    with pytest.raises(ArgumentError, match="not of this checkpoint"):
        run(joined, tmp_path)
