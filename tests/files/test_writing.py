"""Files of a task without Spark: which rows are where, how many files, and what is refused."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import ArgumentError, StateAccessError
from skewless.expressions.zones import Zone
from skewless.files import partitioning, parts
from skewless.files.writing import SETTINGS, FileWriting, unsupported
from skewless.state.files import Folder

if TYPE_CHECKING:
    from tests.s3 import S3Server

NAMES = {
    pa.int64(): "long", pa.string(): "string", pa.float64(): "double", pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp", pa.timestamp("us"): "timestamp_ntz",
    pa.decimal128(9, 2): "decimal(9,2)", pa.decimal128(20, 9): "decimal(20,9)",
}  # fmt: skip


def spark_schema(schema: pa.Schema, **metadata: Any) -> str:
    fields = [
        {"name": f.name, "type": NAMES[f.type], "nullable": f.nullable, "metadata": metadata}
        for f in schema
    ]
    return json.dumps({"type": "struct", "fields": fields})


def writing_of(schema: pa.Schema, format: str = "parquet", **more: Any) -> FileWriting:
    return FileWriting(format, schema, spark_schema(schema), "4.3.0", **more)


def rows_of(folder: Path) -> pa.Table:
    return pa.concat_tables(
        pq.ParquetFile(path).read() for path in sorted(folder.rglob("*.parquet"))
    )


COLUMNS = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.int64())])
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b/", "", None]), st.integers(0, 2)), max_size=40)
QUICK = settings(max_examples=60, deadline=None)


def batches_of(rows: list[tuple[str | None, int]], size: int) -> list[pa.RecordBatch]:
    table = pa.table([[k for k, _ in rows], [n for _, n in rows], range(len(rows))], schema=COLUMNS)
    return [*table.to_batches(size), pa.RecordBatch.from_pylist([], schema=COLUMNS)]


@QUICK
@given(rows=ROWS, size=st.integers(1, 9), most=st.integers(0, 5), open_files=st.integers(1, 3),
       group=st.integers(1, 8), held=st.sampled_from([0, 100, 1 << 30]))  # fmt: skip
def test_rows_are_in_their_folders(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str | None, int]],
    size: int,
    most: int,
    open_files: int,
    group: int,
    held: int,
) -> None:
    """Once each, in the order in which they came, in files of at most so many rows."""
    at = tmp_path_factory.mktemp("files")
    writing = writing_of(
        COLUMNS, partition_by=("k", "n"), settings=(("spark.sql.files.maxRecordsPerFile", "7"),),
        options=(("MAXRECORDSPERFILE", str(most)),),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "OPEN_FILES", open_files)
        patch.setattr(parts, "GROUP_ROWS", group)
        patch.setattr(parts, "HELD_BYTES", held)
        patch.setattr(partitioning, "GATHER_ROWS", group)
        written = writing.write(batches_of(rows, size), Folder(str(at)), "s", "part-1")
    names = {"a": "k=a", "b/": "k=b%2F", "": "k=__HIVE_DEFAULT_PARTITION__"}
    expected: dict[str, list[int]] = {}
    for i, (k, n) in enumerate(rows):
        expected.setdefault(f"{names[k or '']}/n={n}", []).append(i)
    found: dict[str, list[int]] = {}
    for file in written:
        values = pq.ParquetFile(at / "s" / file.name).read()["v"].to_pylist()
        assert file.rows == len(values)
        assert 0 < file.rows <= (most or file.rows)
        assert file.bytes == (at / "s" / file.name).stat().st_size
        found.setdefault(file.name.rpartition("/")[0], []).extend(values)
    # Null and "" are two values of one folder.
    same = "k=__HIVE"
    assert {k: v for k, v in found.items() if same not in k} == {
        k: v for k, v in expected.items() if same not in k
    }
    assert {k: sorted(v) for k, v in found.items()} == expected
    on_disk = [str(path.relative_to(at / "s")) for path in at.rglob("*.*") if path.is_file()]
    assert sorted(on_disk) == sorted(file.name for file in written)


@QUICK
@given(rows=st.integers(0, 30), size=st.integers(1, 9), most=st.integers(1, 5))
def test_files_are_full(
    tmp_path_factory: pytest.TempPathFactory, rows: int, size: int, most: int
) -> None:
    at = tmp_path_factory.mktemp("files")
    writing = writing_of(COLUMNS, settings=(("spark.sql.files.maxRecordsPerFile", str(most)),))
    batches = batches_of([("a", 1)] * rows, size)
    written = writing.write(batches, Folder(str(at)), "s", "part-7-x")
    full, rest = divmod(rows, most)
    assert [file.rows for file in written] == [most] * full + [rest] * (rest > 0)
    assert [file.name for file in written] == [
        f"part-7-x-c{i:03d}.snappy.parquet" for i in range(len(written))
    ]


def test_small_batches_are_one_row_group(tmp_path: Path) -> None:
    batches = batches_of([("a", 1)] * 40, 1)
    [file] = writing_of(COLUMNS).write(batches, Folder(str(tmp_path)), "s", "p")
    assert pq.read_metadata(tmp_path / "s" / file.name).num_row_groups == 1


def test_open_files_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that come again have a further file; nothing waits in memory for ever."""
    monkeypatch.setattr(partitioning, "GATHER_ROWS", 1)
    monkeypatch.setattr(parts, "OPEN_FILES", 2)
    monkeypatch.setattr(parts, "HELD_BYTES", 0)
    batches = batches_of([(None, n % 3) for n in range(9)], 1)
    written = writing_of(COLUMNS, partition_by=("n",)).write(
        batches, Folder(str(tmp_path)), "s", "p"
    )
    assert Counter(file.name.partition("/")[0] for file in written) == {f"n={i}": 3 for i in "012"}
    assert {file.name.rpartition("/")[2] for file in written} == {
        f"p.c00{i}.snappy.parquet" for i in range(3)
    }


def test_dictionaries_are_where_values_repeat(tmp_path: Path) -> None:
    schema = pa.schema([("same", pa.string()), ("each", pa.int64())])
    batch = pa.record_batch([pa.array(["a"] * 1000), pa.array(range(1000))], schema=schema)
    [file] = writing_of(schema).write([batch], Folder(str(tmp_path)), "s", "p")
    group = pq.read_metadata(tmp_path / "s" / file.name).row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(2)] == [True, False]


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "HELD_BYTES", 0)
    monkeypatch.setattr(partitioning, "GATHER_ROWS", 1)

    def failing() -> Any:
        yield from batches_of([("a", 1), ("a", 2), (None, 1)], 1)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        writing_of(COLUMNS, partition_by=("k",), options=(("maxRecordsPerFile", "1"),)).write(
            failing(), Folder(str(tmp_path)), "s", "p"
        )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    with pytest.raises(StateAccessError, match=r"cannot write .*/s/p-c000\.snappy\.parquet"):
        writing_of(COLUMNS).write(batches_of([("a", 1)], 1), Folder(str(tmp_path)), "s", "p")


def test_remote_stores_get_whole_files(s3: S3Server, cache_folder: Path) -> None:
    folder = s3.folder("written")
    writing = writing_of(COLUMNS, partition_by=("k",))
    written = writing.write(batches_of([("a", 1), ("b/", 2)], 9), folder, "s", "p")
    assert folder.list("s") == sorted(file.name for file in written)
    for file in written:
        assert folder.size(f"s/{file.name}") == file.bytes
    table = pq.read_table(pa.BufferReader(folder.read("s/k=b%2F/p.c000.snappy.parquet")))
    assert table.to_pylist() == [{"n": 2, "v": 1}]


def test_nulls_where_none_were_declared_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("v", pa.int64(), nullable=False)])
    batch = pa.record_batch({"v": pa.array([1, None])})
    with pytest.raises(pa.ArrowInvalid):
        writing_of(schema).write([batch], Folder(str(tmp_path)), "s", "p")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


MOMENTS = pa.schema([("t", pa.timestamp("us", "UTC")), ("v", pa.int64())])
BERLIN = (("spark.sql.session.timeZone", "Europe/Berlin"),)
LEFT_TO_SPARK: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": "avro"}, "the format 'avro'"),
    "option": ({"options": (("parquet.block.size", "1"),)}, "the option 'parquet.block.size'"),
    "number": ({"options": (("maxRecordsPerFile", "x"),)}, "maxRecordsPerFile 'x'"),
    "codec": ({"options": (("compression", "lz4"),)}, "the compression 'lz4'"),
    "codec of the session": (
        {"settings": (("spark.sql.parquet.compression.codec", "brotli"),)},
        "the compression 'brotli'",
    ),
    "rebase": (
        {"settings": (("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"),)},
        "the setting spark.sql.parquet.datetimeRebaseModeInWrite 'LEGACY'",
    ),
    "milliseconds": (
        {"settings": (("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS"),)},
        "the setting spark.sql.parquet.outputTimestampType 'TIMESTAMP_MILLIS'",
    ),
    "encrypted": (
        {"settings": (("spark.hadoop.parquet.crypto.factory.class", "x"),)},
        "the setting spark.hadoop.parquet.crypto.factory.class",
    ),
    "clocks and moments": (
        {"schema": pa.schema([("t", pa.timestamp("us", "UTC")), ("c", pa.timestamp("us"))])},
        "columns of types timestamp, as INT96, and timestamp_ntz in one file",
    ),
    "all columns": ({"partition_by": ("k", "n", "v")}, "folders named by all columns"),
    "no column": ({"partition_by": ("K",)}, "folders named by 'K', which is no column"),
    "twice": ({"partition_by": ("k", "k")}, "folders named twice by one column"),
    "doubles": (
        {"schema": pa.schema([("d", pa.float64()), ("v", pa.int64())]), "partition_by": ("d",)},
        "folders named by the column 'd' of type double",
    ),
    "fractions": (
        {
            "schema": pa.schema([("d", pa.decimal128(20, 9)), ("v", pa.int64())]),
            "partition_by": ("d",),
        },
        "folders named by the column 'd' of type decimal(20,9)",
    ),
    "zone": (
        {"schema": MOMENTS, "partition_by": ("t",), "settings": BERLIN},
        "folders named by the column 't' of type timestamp",
    ),
    "zone by option": (
        {
            "schema": MOMENTS,
            "partition_by": ("t",),
            "options": (("timezone", "Asia/Tokyo"),),
            "settings": BERLIN,
            "zone": Zone((), (3_600_000_000,)),
        },
        "folders named by the column 't' of type timestamp",
    ),
    "names": (
        {"schema": pa.schema([("a", pa.int64()), ("A", pa.int64())])},
        "columns of one name",
    ),
    "name": ({"schema": pa.schema([("a;", pa.int64())])}, "the name of the column 'a;'"),
}


@pytest.mark.parametrize(("changes", "reason"), LEFT_TO_SPARK.values(), ids=LEFT_TO_SPARK.keys())
def test_left_to_spark(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    writing = writing_of(**{"schema": COLUMNS, **changes})
    assert unsupported(writing) == reason
    with pytest.raises(ArgumentError, match="left to Spark because of"):
        writing.write([], Folder(str(tmp_path)), "s", "p")
    assert unsupported(writing_of(COLUMNS)) is None


@pytest.mark.parametrize("kind", ["void", "variant", "time(6)", "string collate UNICODE_CI",
                                  "interval year to month", "interval", "char(3)"])  # fmt: skip
def test_types_left_to_spark(kind: str) -> None:
    for type in (kind, {"type": "array", "elementType": kind, "containsNull": True}):
        fields = [{"name": "a", "type": type, "nullable": True, "metadata": {}}]
        schema = json.dumps({"type": "struct", "fields": fields})
        writing = FileWriting("parquet", pa.schema([("a", pa.string())]), schema, "4.3.0")
        assert unsupported(writing) == f"the column 'a' of type {kind}"


@pytest.mark.parametrize("name", ["parquet.field.id", "__CHAR_VARCHAR_TYPE_STRING"])
def test_metadata_left_to_spark(name: str) -> None:
    schema = spark_schema(COLUMNS, **{name: 1})
    reason = unsupported(FileWriting("parquet", COLUMNS, schema, "4.3.0"))
    assert reason == f"the metadata {name!r} of the column 'k'"


def test_timestamps_name_folders_in_the_sessions_zone(tmp_path: Path) -> None:
    writing = writing_of(
        MOMENTS, partition_by=("t",), settings=BERLIN, zone=Zone((), (3_600_000_000,))
    )
    batch = pa.record_batch({"t": pa.array([0, 500_000], MOMENTS[0].type), "v": [1, 2]})
    written = writing.write([batch], Folder(str(tmp_path)), "s", "p")
    assert [file.name.partition("/")[0] for file in written] == [
        "t=1970-01-01 01%3A00%3A00", "t=1970-01-01 01%3A00%3A00.5"
    ]  # fmt: skip


def test_goes_to_tasks() -> None:
    writing = writing_of(COLUMNS, options=(("compression", "zstd"),))
    assert unsupported(writing) is None
    assert pickle.loads(pickle.dumps(writing)) == writing
    assert len(set(SETTINGS)) == len(SETTINGS)
