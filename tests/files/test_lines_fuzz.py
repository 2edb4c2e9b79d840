"""Lines that nobody would write, one by one: what is read here is what Spark reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.errors import DataError
from skewless.files.splits import Split
from skewless.state.files import Folder
from tests.files.comparing import of_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skewless.files.reading import FileFormat

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LINES = int(os.environ.get("SKEWLESS_FUZZ_LINES", "3000"))

PIECES = ['"', '"', ",", "\\", " ", "a", "1", "-", ".", "e", "\t", "ä", "#", "null", "NaN", "Inf"]
PIECES += ["2024-01-02", "T", ":", "03:04:05", "Z", "0", "true", "9", '""', '\\"', "f", "x", "+"]
JSON = ["{", "}", "[", "]", ":", ",", '"', " ", "1", "-", "0", ".5", "e1", "null", "true", '"a"']
JSON += ['"b":', '"c":', '"x"', "\\", "\\u00e4", "'", '"t":', '"2024-01-02"', "T03:04:05", "NaN"]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Times as numbers: Spark knows such that Python does not."""
    for at, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type):
            number = pa.int32() if pa.types.is_date(field.type) else pa.int64()
            table = table.set_column(at, field.name, table.column(at).cast(number))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def read_one(form: FileFormat, path: Path, line: str) -> list[dict[str, Any]] | None:
    """The rows of one line, None if it is refused."""
    path.write_text(line, encoding="utf-8", newline="")
    size = path.stat().st_size
    columns = range(len(form.schema))
    try:
        found = list(form.read(Split(str(path), size, 0, size), Folder("/"), columns))
    except DataError:
        return None
    return rows_of(pa.Table.from_batches(found, form.schema))


def compare(
    spark: SparkSession, tmp_path: Path, name: str, ddl: str, texts: list[str], **o: str
) -> int:
    """How many lines are read here, all of them as by Spark."""
    path = tmp_path / f"all.{name}"
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8", newline="")
    frame = spark.read.schema(ddl).format(name).options(**o).load(str(path))
    rows = {row["i"]: row for row in rows_of(frame.toArrow())}
    form = of_format(name, tmp_path, ddl, options=o)
    count = 0
    for i, text in enumerate(texts):
        ours = read_one(form, tmp_path / f"one.{name}", f"{text}\n")
        if ours is None:
            continue
        count += 1
        if ours and ours[0]["i"] is None:  # Spark did not see the number, either
            assert i not in rows, text
            continue
        theirs = [rows[i]] if i in rows else []
        assert repr(ours) == repr(theirs), f"{text!r}: here {ours}, in Spark {theirs}"
    return count


@pytest.mark.parametrize(
    "options", [{}, {"escape": '"'}, {"mode": "DROPMALFORMED"}, {"nullValue": "a"}], ids=str
)
def test_csv(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    rng = np.random.default_rng(int(os.environ.get("SKEWLESS_FUZZ_SEED", "1")))
    texts = [
        f"{i}," + "".join(rng.choice(PIECES, rng.integers(0, 9)).tolist()) for i in range(LINES)
    ]
    declared = "i int, a string, b string, c double"
    assert compare(spark, tmp_path, "csv", declared, texts, **options) > LINES / 5
    declared = "i int, a bigint, b decimal(4,1), c boolean"
    assert compare(spark, tmp_path, "csv", declared, texts, **options) > LINES / 5
    declared = "i int, a timestamp, b date, c timestamp_ntz"
    assert compare(spark, tmp_path, "csv", declared, texts, **options) > LINES / 20


def spoiled(rng: np.random.Generator, text: str) -> str:
    """A text with pieces put in and characters left out."""
    for _ in range(rng.integers(0, 3)):
        at = int(rng.integers(0, len(text) + 1))
        if rng.random() < 0.5:
            text = text[:at] + str(rng.choice(JSON)) + text[at:]
        else:
            text = text[:at] + text[at + 1 :]
    return text


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_json(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    rng = np.random.default_rng(int(os.environ.get("SKEWLESS_FUZZ_SEED", "1")))
    values = ["1", "-5", "1.5", "1e3", "true", "null", '"x"', '""', "[1]", '{"b":1}', "-0", "NaN"]
    values += ['"2024-01-02"', '"2024-01-02T03:04:05Z"', '"2024-13-01"', '"a\\"b"', "1.25", "-0.0"]
    texts = []
    for i in range(LINES):
        names = rng.permutation(["a", "b", "c", "t"])[: rng.integers(0, 5)]
        inner = "".join(f',"{n}":{rng.choice(values)}' for n in names)
        rest = spoiled(rng, f"{inner}}}") if rng.random() < 0.6 else f"{inner}}}"
        texts.append(f'{{"i":{i},"z":0{rest}')
    for declared in (
        "i int, a bigint, b string, c double, t timestamp",
        "i int, a decimal(3,1), b boolean, c array<int>, t struct<b:int>",
        "i int, a timestamp_ntz, b date, c float, t array<string>",
    ):
        assert compare(spark, tmp_path, "json", declared, texts, mode=mode) > LINES / 8
