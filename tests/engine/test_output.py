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
from skewless.files import orc_writing, parquet_writing
from skewless.files.parts import NotAsSparkError
from skewless.files.writing import FileWriting
from skewless.state.files import Folder
from tests.crashes import assert_nothing_is_left_over
from tests.frame.kits import KITS
from tests.frame.streams import busy, rows_of
from tests.queries import PipelineRun

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


class Choosy:
    """Writes no rows of number 1."""

    def __init__(self, _: FileWriting) -> None: ...

    def __call__(self, sink: pa.NativeFile, rows: pa.Table) -> Choosy:
        return self

    def write(self, rows: pa.Table) -> None:
        if 1 in rows["k"].to_pylist():
            raise NotAsSparkError("a one")

    def close(self) -> None: ...


@pytest.mark.parametrize("most", [output.LITTLE_BYTES, 0])
def test_what_is_not_as_spark_writes_it_is_told(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Whoever comes upon it, the instance or the driver, that has the little ones."""
    monkeypatch.setattr(parquet_writing, "Files", Choosy)
    monkeypatch.setattr(output, "LITTLE_BYTES", most)
    wrote = FileTarget("out", writing()).output(folder, 7)
    written = [wrote.write(rows(number, 1), folder, number, 2) for number in (1, 2)]
    assert [one.left for one in written] == ["" if most else "a one", ""]
    with pytest.raises(NotAsSparkError, match="a one"):
        wrote.together(written, folder)


@pytest.mark.parametrize("name", ["join", "aggregate", "join → aggregate"])
def test_the_sink_writes_what_the_instances_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Every row once, and nothing is left of what the instances had begun."""

    class Never(Choosy):
        def write(self, rows: pa.Table) -> None:
            raise NotAsSparkError("never")

    kit, tried = KITS[name], []
    monkeypatch.setattr(orc_writing, "Files", lambda writing: tried.append(1) or Never(writing))
    run = PipelineRun(tmp_path / "state", kit.pipeline(kit.setups[0]), tmp_path / "out")
    streams = busy(*kit.streams)
    for number, (begin, end) in enumerate([(0, 8), (8, 999)]):
        run.run_streams(number, [[[s.batch(begin, end)]] for s in streams], columns=number == 1)
    assert tried
    run.start(run.pipeline)  # repeated tasks leave files that go when a query starts
    assert rows_of(run.published_table()) == kit.expected(streams)
    assert_nothing_is_left_over(run)


def test_nothing_is_nothing() -> None:
    assert Written.from_json({"files": [], "little": "", "left": ""}) == Written()
