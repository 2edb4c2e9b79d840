"""Job files on Spark: a step is the call that it stands for, and what `validate` says of columns is
what Spark says."""

from __future__ import annotations

import itertools
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from typer.testing import CliRunner

import skewless as sk
from skewless.arrays.values import is_comparable
from skewless.cli import app
from skewless.cli.start import result_of, start_job
from skewless.errors import JobFileError
from skewless.jobfile import Job, load_jobs
from skewless.jobfile.columns import are_comparable, parsed_type, source_columns
from skewless.jobfile.sql import selected
from skewless.spark.arguments import analysis
from skewless.spark.arguments.columns import arrow_type
from tests.job_files import BAD_COLUMNS, COMPOSED, GOOD, HEAD, STEPS, step_file
from tests.spark.support import TIMESTAMP, at, file_stream, finish


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the inputs of the files are; Spark wants their folders to exist."""
    for name in ("orders", "tracks", "payments"):
        (tmp_path / "in" / name).mkdir(parents=True)
    return tmp_path


def job_of(folder: Path, text: str) -> Job:
    file = folder / "job.toml"
    for place in ("in", "out", "ckpt"):
        text = text.replace(f'"{place}/', f'"{folder}/{place}/')
    text = text.replace('"ckpt"', f'"{folder}/ckpt"')
    file.write_text(text, encoding="utf-8")
    return load_jobs(file).jobs[0]


def described(result: sk.Result) -> list[Any]:
    """What a query is tied to, operator by operator, and what comes out of it."""
    pipeline, plan = result.pipeline(2, result.output_mode(None))
    nodes = [(n.name, n.operator.fingerprint(), n.operator.instances) for n in pipeline.nodes]
    return [nodes, result.schema.simpleString(), plan.steps]


@pytest.mark.quick(4)
@pytest.mark.parametrize(("text", "call"), STEPS.values(), ids=STEPS.keys())
def test_a_step_is_its_call(spark: SparkSession, folder: Path, text: str, call: Any) -> None:
    job = job_of(folder, step_file(text))
    made = result_of(spark, job)
    operator, inputs, arguments = call
    frames = [stream(spark, folder, name) for name in inputs]
    expected = getattr(sk, operator)(*frames, **arguments)
    assert described(made) == described(expected)


def stream(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    (source,) = [s for s in load_jobs(folder / "job.toml").sources.values() if s.name == name]
    assert source.schema is not None
    reader: Any = sk.readStream(spark) if source.columns else spark.readStream
    frame: DataFrame = reader.format(source.format).schema(source.schema).load(source.path)
    return frame


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [pytest.param(*case, id=name) for name, case in BAD_COLUMNS.items()],
)
def test_spark_refuses_what_validate_does(
    spark: SparkSession, folder: Path, text: str, mistakes: list[tuple[str, str]]
) -> None:
    """The engine is the oracle of mistakes in columns; it tells the same line."""
    job = job_of(folder, text)
    with pytest.raises(JobFileError) as caught:
        start_job(spark, job)
    lines = (folder / "job.toml").read_text(encoding="utf-8").splitlines()
    told = int(str(caught.value).removeprefix(f"{folder}/job.toml:").partition(":")[0])
    assert any(place in lines[told - 1] for place, _ in mistakes), str(caught.value)


KINDS = (
    "boolean", "tinyint", "int", "bigint", "float", "double", "decimal(10,2)", "string", "binary",
    "date", "timestamp", "timestamp_ntz", "array<int>", "struct<a:int>", "map<string,int>",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ansi", [True, False])
def test_what_is_compared_is_what_spark_compares(spark: SparkSession, ansi: bool) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    try:
        for a, b in itertools.combinations_with_replacement(KINDS, 2):
            said = are_comparable(parsed_type(a), parsed_type(b), ansi=ansi)
            assert said == spark_compares(spark, a, b), f"{a} with {b}"
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))


def spark_compares(spark: SparkSession, a: str, b: str) -> bool:
    kinds = [StructType.fromDDL(f"x {kind}")[0].dataType for kind in (a, b)]
    try:
        casts = analysis.casts_of(spark, *kinds)
    except analysis.NotUnderstoodError:
        return False
    return is_comparable(arrow_type(casts[0][-1] if casts[0] else kinds[0]))


TYPES = (
    "a BOOLEAN, b TINYINT, c BYTE, d SMALLINT, e SHORT, f INT, g INTEGER, h BIGINT, i LONG",
    "a FLOAT, b REAL, c DOUBLE, d DECIMAL(12,3), e DEC(5), f NUMERIC, g STRING NOT NULL, h BINARY",
    "a DATE, b TIMESTAMP COMMENT 'x, y', c TIMESTAMP_NTZ, d TIMESTAMP_LTZ, `e f` ARRAY<STRING>",
    "a: STRUCT<b: INT, c: ARRAY<STRUCT<d: DATE>>>, m MAP<STRING, DOUBLE>, from INT, user INT",
)


@pytest.mark.parametrize("schema", TYPES)
def test_schemas_are_read_as_spark_reads_them(schema: str) -> None:
    from skewless.jobfile.columns import schema_columns

    columns, wrong = schema_columns("x", schema)
    fields = StructType.fromDDL(schema).fields
    assert not wrong
    assert {f.name: arrow_type(f.dataType) for f in fields} == dict(columns.types)


SELECTED = (
    ["timestamp AS t", "cast(value AS STRING)", "value + 1 AS next"],
    ["cast(value AS STRING) AS v", "length(v) AS n", "cast(v AS DECIMAL(5, 1)) AS d"],
    ["from_json('{}', 'a INT, b STRUCT<c: DATE>') AS j", "j.b.c", "j.a AS a"],
    ["* EXCEPT (value)", "timestamp_seconds(value) AS at"],
    ["transform(array(value), x -> x + value) AS xs", "named_struct('a', value) AS s"],
    ["CAST(timestamp AS DATE) AS day", "date_trunc('hour', timestamp) AS hour", "user AS who"],
    ["if(value > 1, timestamp, NULL) AS maybe", "timestampdiff(MINUTE, timestamp, now()) AS m"],
    ["value AS v", "stack(2, value, 1L) AS (x)"],
)


@pytest.mark.parametrize("expressions", SELECTED, ids=range(len(SELECTED)))
def test_what_is_selected_is_what_spark_selects(
    spark: SparkSession, folder: Path, expressions: list[str]
) -> None:
    """Names are those of Spark; types, too, where they are known."""
    job = job_of(folder, GOOD["a short join and a step"])
    rate = next(source for source in job.sources if source.format == "rate")
    columns, wrong = selected(expressions, source_columns(rate)[0])
    assert wrong == [] and columns.whole
    fields = spark.readStream.format("rate").load().selectExpr(*expressions).schema.fields
    assert columns.names == [f.name for f in fields]
    for field in fields:
        assert columns.types[field.name] in (None, arrow_type(field.dataType))


def test_a_composed_file_end_to_end(spark: SparkSession, folder: Path) -> None:
    """Revenue by town, against DuckDB on the same rows."""
    batches = [
        {"orders": range(0, 40), "tracks": range(0, 60), "payments": range(0, 40)},
        {"orders": range(40, 80), "tracks": range(60, 120), "payments": range(40, 80)},
    ]
    tables = {name: [make(rows[name]) for rows in batches] for name, make in ROWS.items()}
    for name, of in tables.items():
        file_stream(folder / "in" / name, of)
    text = (HEAD + COMPOSED).replace('format = "json"', 'format = "parquet"')
    text = text.replace('within = "1 hour"', 'within = "5 minutes"')
    text = text.replace('format = "noop"', 'format = "parquet"\npath = "out/revenue"')
    job = job_of(folder, f"{text}\n[trigger]\navailable_now = true\n")
    finish(start_job(spark, job))
    whole = {name: pa.concat_tables(of) for name, of in tables.items()}
    # The last order is of minute 79. It may be a minute late, its track ten minutes from it, and
    # its payment five minutes from that: windows up to minute 63 are closed.
    expected = totals(whole, at(63 * 60))
    found = spark.read.parquet(str(folder / "out/revenue")).collect()
    got = sorted((r.town, int(r.until.timestamp()), round(r.total, 6)) for r in found)
    assert got == expected and len(got) > 2


ROWS = {
    "orders": lambda rows: pa.table({
        "id": list(rows), "cell": [i % 5 for i in rows], "price": [float(i % 13) for i in rows],
        "city": [f"c{i % 2}" for i in rows], "at": pa.array([at(i * 60) for i in rows], TIMESTAMP),
        "day": pa.array([None for _ in rows], pa.date32()),
    }),
    "tracks": lambda rows: pa.table({
        "taxi": pa.array(list(rows), pa.int32()), "cell": [i % 7 for i in rows],
        "speed": [float(i) for i in rows],
        "seen_at": pa.array([at(i * 40) for i in rows], TIMESTAMP),
        "day": pa.array([None for _ in rows], pa.date32()),
        "vector": pa.array([[1.0] for _ in rows], pa.list_(pa.float32())),
    }),
    "payments": lambda rows: pa.table({
        "id": list(rows), "amount": pa.array([None for _ in rows], pa.decimal128(10, 2)),
        "paid_at": pa.array([at(i * 60 + 30) for i in rows], TIMESTAMP),
        "tags": pa.array([None for _ in rows], pa.struct([("a", pa.int32()), ("b", pa.string())])),
    }),
}  # fmt: skip

ORACLE = """
    SELECT o.city, floor(epoch(p.paid_at) / 600) * 600 + 600 AS until, round(sum(price), 6)
    FROM orders o JOIN tracks t ON o.cell = t.cell
        AND abs(epoch_us(o.at) - epoch_us(t.seen_at)) <= 600_000_000
    JOIN payments p ON p.id = o.id AND abs(epoch_us(o.at) - epoch_us(p.paid_at)) <= 3_600_000_000
    WHERE price > 5 AND price < 100
    GROUP BY 1, 2 HAVING until <= ? ORDER BY 1, 2
"""


def totals(tables: dict[str, pa.Table], closed: datetime) -> list[tuple[str, int, float]]:
    """All windows that the watermark has closed."""
    database = duckdb.connect()
    for name, table in tables.items():
        database.register(name, table)
    found = database.execute(ORACLE, [closed.timestamp()]).fetchall()
    return [(city, int(until), total) for city, until, total in found]


def test_bad_jobs_are_told_by_line(spark: SparkSession, folder: Path) -> None:
    text = step_file(STEPS["join"][0] + '\nselect = ["no_such_function(id) AS x"]')
    with pytest.raises(JobFileError, match=r"job\.toml:\d+: `steps\.found\.select` must be valid"):
        result_of(spark, job_of(folder, text))
    with pytest.raises(JobFileError, match=r"`inputs\.orders\.format` must|orders\.format"):
        text = step_file(STEPS["join"][0]).replace('format = "parquet"', 'format = "nowhere"', 1)
        result_of(spark, job_of(folder, text))


def test_unknown_jobs_are_told(folder: Path) -> None:
    job_of(folder, GOOD["jobs"])
    told = CliRunner().invoke(app, ["run", str(folder / "job.toml"), "riddes"])
    assert told.exit_code == 2
    assert "no job `riddes` (did you mean `rides`?)" in told.stderr
    told = CliRunner().invoke(app, ["validate", str(folder / "job.toml"), "--json"])
    assert json.loads(told.stdout)["valid"]
