"""Files on a remote store: read by ranges, nothing else is fetched."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from skewless.errors import DataError
from skewless.files.opening import RangeFile
from skewless.files.reading import FileFormat
from skewless.files.splits import FileRef, Split, splits
from skewless.state.files import Folder
from skewless.state.stores.traffic import TRAFFIC
from tests.s3 import BUCKET

if TYPE_CHECKING:
    from tests.s3 import S3Server

ROWS = 200_000
KEY = "data/k=a%3Ab ü/part 1"


def table() -> pa.Table:
    rng = np.random.default_rng(1)
    wide = pa.array([bytes(b) for b in rng.integers(0, 256, (ROWS, 40), np.uint8)])
    return pa.table({"x": np.arange(ROWS), "wide": wide})


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("far") / "a.parquet"
    pq.write_table(table(), path, row_group_size=50_000, compression="none")
    return path.read_bytes()


def put(s3: S3Server, ending: str, data: bytes) -> FileRef:
    s3.client.put_object(Bucket=BUCKET, Key=f"{KEY}.{ending}", Body=data)
    return FileRef(f"s3a://{BUCKET}/{KEY}.{ending}", len(data))


def test_only_what_is_asked_for_is_fetched(s3: S3Server, parquet: bytes) -> None:
    file = put(s3, "parquet", parquet)
    fields = [("k", pa.string()), ("x", pa.int64()), ("wide", pa.binary())]
    form = FileFormat("parquet", pa.schema(fields), base=f"s3a://{BUCKET}/data")
    before, found = TRAFFIC.so_far(), []
    for task in splits([file], 3, least=1):
        for split in task:
            found += form.read(split, s3.folder(), [1, 0])
    made = pa.Table.from_batches(found)
    assert sorted(made["x"].to_pylist()) == list(range(ROWS))
    assert made["k"].unique().to_pylist() == ["a:b ü"]
    after = TRAFFIC.so_far()
    assert after["fetched_bytes"] - before["fetched_bytes"] < len(parquet) / 2
    assert after["requests"] - before["requests"] < 40
    assert after["misses"] == before["misses"]  # nothing is kept on disk


@pytest.mark.parametrize("name", ["orc", "csv", "json", "parquet"])
def test_all_formats(s3: S3Server, parquet: bytes, tmp_path: Path, name: str) -> None:
    data = parquet
    if name == "orc":
        po.write_table(table().select(["x"]), tmp_path / "a.orc")
        data = (tmp_path / "a.orc").read_bytes()
    elif name == "csv":
        data = b"".join(b"%d\n" % i for i in range(ROWS))
    elif name == "json":
        data = b"".join(b'{"x":%d}\n' % i for i in range(ROWS))
    file = put(s3, name, data)
    form = FileFormat(name, pa.schema([("x", pa.int64())]))
    tasks = splits([file], 4, least=1)
    batches = [b for task in tasks for split in task for b in form.read(split, s3.folder(), [0])]
    assert sorted(pa.Table.from_batches(batches)["x"].to_pylist()) == list(range(ROWS))


def test_a_file_that_is_gone(s3: S3Server) -> None:
    split = Split(f"s3a://{BUCKET}/none.parquet", 1000, 0, 1000)
    with pytest.raises(DataError, match=r"none\.parquet is gone"):
        list(FileFormat("parquet", pa.schema([("x", pa.int64())])).read(split, s3.folder(), [0]))


def test_a_store_that_does_not_answer_is_no_corrupt_file(
    s3: S3Server, parquet: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(s3, "parquet", parquet)

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, "no answer")

    monkeypatch.setattr(Folder, "read_range", fails)
    form = FileFormat("parquet", pa.schema([("x", pa.int64())]), (("ignoreCorruptFiles", "true"),))
    with pytest.raises(DataError, match="no answer"):
        list(form.read(Split(file.path, file.size, 0, file.size), s3.folder(), [0]))


@pytest.mark.parametrize("where", ["far", "here"])
def test_ranges_are_those_of_the_file(s3: S3Server, tmp_path: Path, where: str) -> None:
    data = np.random.default_rng(2).bytes(3_000_000)
    folder = s3.folder("ranges") if where == "far" else Folder(str(tmp_path))
    folder.write("a", data)
    ours, theirs = RangeFile(folder, "a", len(data)), io.BytesIO(data)
    rng = np.random.default_rng(3)
    for _ in range(60):
        at, whence = int(rng.integers(0, len(data) + 9)), int(rng.integers(0, 3))
        offset = {0: at, 1: at - theirs.tell(), 2: at - len(data)}[whence]
        assert ours.seek(offset, whence) == theirs.seek(offset, whence)
        count = int(rng.choice([-1, 0, 5, 70_000, 1_500_000]))
        assert ours.read(count) == theirs.read(count)
        assert ours.tell() == theirs.tell()
