"""What instances write: files, or little that becomes one file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from skewless.engine import output
from skewless.engine.output import FileOutput, FileTarget, Written
from skewless.engine.report import InstanceLoad, InstanceReport
from skewless.files.writing import FileWriting
from skewless.state.files import Folder

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def writing(*partition_by: str) -> FileWriting:
    spark = from_arrow_schema(SCHEMA).json()
    return FileWriting("parquet", SCHEMA, spark, "4.0.0", partition_by)


def rows(number: int, count: int) -> Iterator[pa.RecordBatch]:
    for i in range(count):
        yield pa.record_batch([pa.array([number, i]), pa.array(["x", "y" * 100])], schema=SCHEMA)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path), epoch=1)


def files_of(folder: Folder, wrote: FileOutput, counts: list[int]) -> list[str]:
    reports = []
    for number, count in enumerate(counts):
        written = wrote.write(rows(number, count), folder, number, len(counts))
        report = InstanceReport(InstanceLoad(number), output=written)
        told = json.loads(json.dumps(report.to_json()))
        reports.append(InstanceReport.from_json(told).output)
    return [f"{wrote.staged}/{file.name}" for file in wrote.together(reports, folder)]


def read(folder: Folder, names: list[str]) -> list[tuple[int, str]]:
    tables = [pq.read_table(pa.BufferReader(folder.read(name))) for name in names]
    found = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    return sorted(found)  # type: ignore[arg-type]


@pytest.mark.parametrize("counts", [[3, 2, 1], [1], [0, 0], [5, 0, 4000], [4000, 4000]])
def test_little_becomes_one_file(folder: Folder, counts: list[int]) -> None:
    wrote = FileTarget("out", writing()).output(folder, 7)
    names = files_of(folder, wrote, counts)
    many = sum(count == 4000 for count in counts)
    little = any(0 < count < 4000 for count in counts)
    assert len(names) == many + little
    made = [b for n, count in enumerate(counts) for b in rows(n, count)]
    expected = sorted((k, t) for b in made for k, t in zip(*b.to_pydict().values(), strict=True))
    assert read(folder, names) == expected


def test_all_of_it_together_is_little(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The more instances there are, the less each may leave to the driver."""
    monkeypatch.setattr(output, "LITTLE_BYTES_IN_ALL", 1000)
    wrote = FileTarget("out", writing()).output(folder, 7)
    assert wrote.write(rows(0, 2), folder, 0, 2).files == ()
    assert len(wrote.write(rows(0, 2), folder, 0, 20).files) == 1


def test_names_of_what_is_shown(folder: Folder) -> None:
    target = FileTarget("/out", writing("k"))
    wrote = target.output(folder, 7)
    files = wrote.together([wrote.write(rows(0, 2), folder, 0, 1)], folder)
    moves = target.moves(files, folder, 7)
    assert {final.rpartition("/")[0] for _, final in moves} == {"/out/k=0", "/out/k=1"}
    assert all(final.split("/")[-1].startswith("batch-000000000007-part-") for _, final in moves)
    assert all(Path(folder.path(staged)).is_file() for staged, _ in moves)


def test_nothing_is_nothing() -> None:
    assert Written.from_json({"files": [], "little": ""}) == Written()
