"""What is checked before anything is read, and columns in the names of folders."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from skewless.errors import ArgumentError, ColumnError, DataError
from skewless.files import partitions
from skewless.files.reading import FORMATS, FileFormat, check, is_splittable

SCHEMA = pa.schema([("x", pa.int64())])


@pytest.mark.parametrize("name", FORMATS)
def test_options_of_all_formats(name: str) -> None:
    options = [("MaxFilesPerTrigger", "1"), ("ignoreCorruptFiles", "TRUE"), ("mergeSchema", "x")]
    check(name, options, SCHEMA)
    with pytest.raises(ArgumentError, match=r"`option` must be one of: .*; received 'speed'"):
        check(name, [("Speed", "1")], SCHEMA)
    with pytest.raises(ArgumentError, match="`ignoreMissingFiles` must be 'true' or 'false'"):
        check(name, [("ignoremissingfiles", "perhaps")], SCHEMA)
    for type in (pa.duration("us"), pa.large_string(), pa.timestamp("ns"), pa.null()):
        with pytest.raises(ColumnError, match="`y`"):
            check(name, [], SCHEMA.append(pa.field("y", type)))


def test_other_formats_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"one of: 'parquet', 'orc', 'csv', 'json'"):
        check("avro", [], SCHEMA)


def test_what_can_be_read_in_parts() -> None:
    formats = {name: FileFormat(name, SCHEMA) for name in FORMATS}
    assert is_splittable(formats["parquet"], "/a.gz.parquet")
    assert is_splittable(formats["csv"], "s3a://b/a.gz/x.csv")
    assert not is_splittable(formats["csv"], "s3a://b/a.csv.gz")
    assert not is_splittable(formats["json"], "/a.json.bz2")
    with pytest.raises(ArgumentError, match=r"\.gz, \.bz2, \.zst"):
        is_splittable(formats["json"], "/a.json.lz4")
    assert pickle.loads(pickle.dumps(formats)) == formats


@pytest.mark.parametrize(
    ("path", "base", "found"),
    [
        ("/d/a=1/b=2/f", "/d", {"a": "1", "b": "2"}),
        ("/d/a=1/b=2/f", "file:/d/", {"a": "1", "b": "2"}),
        ("/d/a=1/b=2/f", "/d/a=1", {"b": "2"}),
        ("/d/a=1/x/b=2/y/f", "/d", {"b": "2"}),  # what is not beside the file is not looked at
        ("/d/a=1/=2/b=/f=3", "/d", {"a": "1"}),
        ("/d/a=1=2/f", "/d", {"a": "1=2"}),
        ("/d/a=1/f", "/d/*", {}),
        ("/d/a=1/f", "", {}),
        ("/da/a=1/f", "/d", {}),
        ("s3a://b/d/a=1/f", "s3://b/d", {"a": "1"}),
    ],
)
def test_folders_that_are_columns(path: str, base: str, found: dict[str, str]) -> None:
    assert partitions.found_in(path, base) == found


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("300", pa.int8(), 44),
        ("-129", pa.int8(), 127),
        ("65536", pa.int16(), 0),
        ("TRUE", pa.bool_(), True),
        ("1e2", pa.float64(), 100.0),
        ("a%20b", pa.binary(), b"a%20b"),
        ("a%20b", pa.string(), "a b"),
    ],
)
def test_values_of_folders(text: str, type: pa.DataType, value: object) -> None:
    fields = [pa.field("k", type)]
    found = partitions.values(f"/d/K={text}/f", "/d", fields, "UTC", case_sensitive=False)
    assert found[0].as_py() == value
    assert partitions.values(f"/d/K={text}/f", "/d", fields, "UTC", case_sensitive=True) == {}


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("2147483648", pa.int32()),
        ("2147483648", pa.int8()),
        ("1.0", pa.int64()),
        ("1_0", pa.int64()),
        ("yes", pa.bool_()),
        ("2024-1-1", pa.date32()),
        ("2024-02-30", pa.date32()),
        ("today", pa.timestamp("us")),
        ("1", pa.decimal128(5, 2)),
    ],
)
def test_values_of_folders_that_are_none(text: str, type: pa.DataType) -> None:
    with pytest.raises(DataError):
        partitions.values(f"/d/k={text}/f", "/d", [pa.field("k", type)], "UTC", case_sensitive=True)
