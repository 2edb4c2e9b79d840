"""JSON files, read here and by Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.errors import ArgumentError, DataError
from skewless.files import lines
from skewless.spark.catalyst.zones import zone_of
from tests.files.comparing import assert_same, of_format, read_here
from tests.files.making import DDL, NESTED, ddl, nested, table
from tests.files.test_csv_spark import TIMES
from tests.spark.support import settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Types are written as Spark writes them, which takes a session.
pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
DECLARED = "a bigint, b string"
# Without bytes, and without floats that Spark writes as strings.
ALL = {n: t for n, t in (DDL | NESTED).items() if n not in ("b", "f32", "f64", "m", "deep")}


def write(path: Path, *texts: str) -> Path:
    path.write_text("\n".join(texts), encoding="utf-8", newline="")
    return path.parent


GOOD = [
    '{"a":1,"b":"x"}', '{"b":"y","a":2}', '{"a":null}', "{}", '{"a":9223372036854775807}',
    '{"a":-0}', '{"A":5}', '  {"a":1}  ', '{"a":1,"b":"x","z":{"q":[1,{"r":2}]}}', "", "   ", "\t",
    '{"b":"\\u00e4\\ud83d\\ude00 \\n\\t\\" \\\\ \\/"}', '{"b":"\\u0000"}', '{"b":""}', '{"b":null}',
    '{"a" : 1 , "b" :\t"}{"}', '{"b":"ä€😀"}\r',
]  # fmt: skip
MALFORMED = ["abc", "1", '"x"', '{"a":1', '{"a":1,"b":"x', "/*c*/{}", "}", "true"]


def test_lines(spark: SparkSession, tmp_path: Path) -> None:
    """What is no object is a row of nulls, or none."""
    folder = write(tmp_path / "a.json", *GOOD, *MALFORMED, "null", *GOOD)
    found = assert_same(spark, "json", folder, DECLARED)
    assert len(found) == 2 * (len(GOOD) - 3) + len(MALFORMED) + 1
    write(tmp_path / "a.json", "\ufeff" + GOOD[0], *MALFORMED, *GOOD)
    assert len(assert_same(spark, "json", folder, DECLARED, options={"mode": "dropMalformed"})) > 9
    failing = of_format("json", folder, DECLARED, options={"mode": "failfast"})
    with pytest.raises(DataError, match=f"malformed lines: {len(MALFORMED)}; the mode is FAILFAST"):
        read_here(failing, folder, tasks=1)
    assert len(read_here(of_format("json", folder, DECLARED), folder, columns=[])) == len(
        read_here(of_format("json", folder, DECLARED), folder)
    )


def test_numbers_and_times(spark: SparkSession, tmp_path: Path) -> None:
    some = (
        "1 1.5 -1.5e3 1E5 0.1 16777217 3.4e39 1e-46 1e-400 1.00000017881393432617187499 NaN -0e0 "
        "123456789012345678901234567890 4.9e-324 Infinity -Infinity -0.0 1.7976931348623157e308"
    )
    numbers, decimals = some.split(), ["1", "1.5", "-999.99", "1e2", "-0.0", "0.01", "1E-2"]
    texts = [f'{{"d":{n},"f":{n}}}' for n in numbers]
    texts += [f'{{"p":{n}}}' for n in decimals] + ['{"b":true}', '{"b":false}']
    texts += ['{"i":127,"j":-32768,"k":2147483647}']
    texts += [json.dumps({"t": t, "n": t, "x": t}) for t in TIMES if '"' not in t]
    folder = write(tmp_path / "a.json", *texts)
    declared = (
        "d double, f float, p decimal(5,2), b boolean, i tinyint, j smallint, k int, t timestamp, "
        "n timestamp_ntz, x date"
    )
    assert len(assert_same(spark, "json", folder, declared)) == len(texts)


def test_files_of_spark_in_parts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 3000)
    made, more = table(150, 5), nested(150, 6)
    for name in more.column_names:
        made = made.append_column(name, more[name])
    pq.write_table(made.select(list(ALL)), tmp_path / "source.parquet")
    frame = spark.read.schema(ddl(ALL)).parquet(str(tmp_path / "source.parquet")).coalesce(1)
    for way in ("none", "gzip"):
        frame.write.option("compression", way).json(str(tmp_path / "files" / f"way={way}"))
    for tasks in (1, 6):
        found = assert_same(
            spark,
            "json",
            tmp_path / "files",
            f"way string, {ddl(ALL)}, none array<date>",
            tasks=tasks,
        )
        assert len(found) == 300


NOT_PLAIN = [
    '{"a":"1"}', '{"a":1.0}', '{"a":true}', '{"a":9223372036854775808}', '{"a":01}', '{"a":[1]}',
    '{"a":1,"a":2}', '{"a":1}{"a":2}', '{"a":1} x', '{"a":1,}', "{'a':1}", '{"a":1}//c',
    '{"b":1}', '{"b":true}', '{"b":[1]}', '{"b":{}}', '{"b":"\\ud83d"}', '{"b":"a\tb"}',
    '{"d":1000}', '{"d":1.005}', '{"t":"2024-1-1"}', '{"t":5}', '{"l":["abc"]}', '{"l":[5]}',
    '{"s":1}', '{"s":{"x":"y"}}', '{"i":128}', '{"f":-0}', '{"lf":[{"f":-0}]}',
]  # fmt: skip


NOT_PLAIN_TYPES = (
    f"{DECLARED}, d decimal(5,2), t date, l array<date>, s struct<x:int>, i tinyint, f float, "
    "lf array<struct<f:double>>"
)


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_values_that_are_not_plain(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """What Arrow's parser stops at is no reason to stop a stream that Spark goes on with."""
    for number, text in enumerate(NOT_PLAIN):
        write(tmp_path / f"{number}.json", '{"a":1}', text, '{"a":3}')
    write(tmp_path / "all.json", *GOOD, *NOT_PLAIN, *MALFORMED)
    found = assert_same(spark, "json", tmp_path, NOT_PLAIN_TYPES, options={"mode": mode})
    assert len(found) > 2 * len(NOT_PLAIN)


def test_failing_fast(tmp_path: Path) -> None:
    folder = write(tmp_path / "a.json", '{"a":1}', '{"a":"1"}', '{"b":1}')
    failing = of_format("json", folder, DECLARED, options={"mode": "FAILFAST"})
    with pytest.raises(DataError, match="malformed lines: 1; the mode is FAILFAST"):
        read_here(failing, folder, tasks=1)


def test_times_of_another_zone(spark: SparkSession, tmp_path: Path) -> None:
    zone = "Europe/Berlin"
    texts = [json.dumps({"t": text, "n": text}) for text in [*TIMES, "2024-03-31 02:30:00"]]
    folder = write(tmp_path / "a.json", *texts)
    with settings_of(spark, {"spark.sql.session.timeZone": zone}):
        known = {"time_zone": zone, "zone": zone_of(spark, zone)}
        assert_same(spark, "json", folder, "t timestamp, n timestamp_ntz", **known)


def test_several_rows_of_a_line_are_sparks(tmp_path: Path) -> None:
    folder = write(tmp_path / "a.json", '{"a":1}', '[{"a":2},{"a":3}]')
    form = of_format("json", folder, DECLARED, options={"ignoreCorruptFiles": "true"})
    with pytest.raises(DataError, match=r"a\.json: .*`spark.readStream` reads such files"):
        read_here(form, folder, tasks=1)


def test_a_line_of_two_and_one_of_half(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "a.json", '{"a":1}{"a":2}', '{"a":', "3}")
    assert len(assert_same(spark, "json", folder, DECLARED)) == 3
    (tmp_path / "a.json").write_bytes(b'{"b":"\xff"}\n')
    with pytest.raises(DataError, match="it is not UTF-8"):
        read_here(of_format("json", folder, DECLARED), folder)


def test_every_line_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for seed in range(20):
        monkeypatch.setattr(lines, "BLOCK_BYTES", int(rng.integers(1, 200)))
        count = int(rng.integers(0, 40))
        texts = [json.dumps({"a": i, "b": "x" * int(rng.integers(0, 20))}) for i in range(count)]
        for at in range(0, count, 7):
            texts[at] = "broken"
        folder = tmp_path / str(seed)
        folder.mkdir()
        write(folder / "a.json", *texts, *([""] if seed % 2 else []))
        found = read_here(of_format("json", folder, DECLARED), folder, tasks=1 + seed % 8)
        assert len(found) == count
        assert sorted(found["a"].drop_null().to_pylist()) == [i for i in range(count) if i % 7]


@pytest.mark.parametrize(
    ("options", "declared"),
    [
        ({"multiLine": "true"}, DECLARED),
        ({"primitivesAsString": "true"}, DECLARED),
        ({"timestampFormat": "dd"}, DECLARED),
        ({"mode": "lazy"}, DECLARED),
        ({"encoding": "UTF-16"}, DECLARED),
        ({}, "m map<string,int>"),
        ({}, "l array<binary>"),
        ({}, "a int, _corrupt_record string"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, str], declared: str) -> None:
    with pytest.raises(ArgumentError):
        of_format("json", tmp_path, declared, options=options)


def test_columns_of_arrow_are_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "a.json", '{"s":{"t":"2024-01-02"},"l":[{"d":"2024-01-02"},null]}')
    form = of_format("json", folder, "s struct<t:timestamp>, l array<struct<d:date>>")
    found = read_here(form, folder)
    assert found.schema.types == form.schema.types
    assert found["l"].to_pylist()[0][1] is None
    assert pa.types.is_date32(found.schema.field("l").type.value_type[0].type)
