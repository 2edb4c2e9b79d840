"""However files are cut, every row is read once."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import ArgumentError, DataError
from skewless.files.reading import FORMATS, FileFormat
from skewless.files.splits import FileRef, Split, splits
from skewless.state.files import Folder

SIZES = st.lists(st.integers(0, 5000), max_size=12)
SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])


def bytes_of(tasks: list[tuple[Split, ...]]) -> Counter[tuple[str, int]]:
    return Counter(
        (split.path, at) for task in tasks for split in task for at in range(split.begin, split.end)
    )


@given(SIZES, st.integers(1, 9), st.integers(1, 900), st.integers(0, 4000), st.booleans())
def test_every_byte_is_in_one_split(
    sizes: list[int], tasks: int, least: int, more: int, splittable: bool
) -> None:
    files = [FileRef(f"/{i}", size) for i, size in enumerate(sizes)]
    most = least + more
    found = splits(files, tasks, splittable=splittable, least=least, most=most)
    assert bytes_of(found) == Counter({(f.path, at): 1 for f in files for at in range(f.size)})
    assert len(found) <= tasks
    assert all(task for task in found)
    if not splittable:
        assert all(split.is_whole for task in found for split in task)
    else:
        assert all(split.end - split.begin <= most for task in found for split in task)


@given(SIZES, st.integers(1, 9), st.integers(1, 900))
def test_no_task_reads_much_more_than_its_share(sizes: list[int], tasks: int, least: int) -> None:
    files = [FileRef(f"/{i}", size) for i, size in enumerate(sizes)]
    found = splits(files, tasks, least=least, most=10_000)
    loads = [sum(split.end - split.begin for split in task) for task in found]
    # A cut is moved to the nearest end of its file if that is near.
    assert max(loads, default=0) <= sum(sizes) / tasks + 2 * least + 1


def test_large_files_are_cut_and_small_ones_are_not() -> None:
    mib = 1 << 20
    files = [FileRef("/large", 300 * mib), FileRef("/a", mib), FileRef("/b", mib)]
    found = splits(files, 4)
    assert len(found) == 4
    assert [len(task) for task in found] == [1, 1, 1, 3]
    assert Counter(s.path for task in found for s in task) == {"/large": 4, "/a": 1, "/b": 1}
    assert splits(files, 1)[0][0] == Split("/large", 300 * mib, 0, 100 * mib)
    assert splits([], 4) == splits([FileRef("/empty", 0)], 4) == []


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="`tasks` must be at least 1; received 0"):
        splits([], 0)
    with pytest.raises(ArgumentError, match="`least`"):
        splits([], 1, least=5, most=4)


def written(path: Path, name: str, rows: list[int]) -> int:
    """A file of row groups or stripes with so many rows, numbered; the number of all."""
    table = pa.table({"x": np.arange(sum(rows)), "s": [f"row {i}" for i in range(sum(rows))]})
    table = table.cast(SCHEMA)
    if name == "parquet":
        with pq.ParquetWriter(path, SCHEMA) as writer:
            for i, count in enumerate(rows):
                writer.write_table(table.slice(sum(rows[:i]), count))
    elif name == "json":
        path.write_text("".join(f'{{"x":{i},"s":"row {i}"}}\n' for i in range(sum(rows))))
    elif name == "csv":
        path.write_text("".join(f"{i},row {i}\n" for i in range(sum(rows))))
    elif name == "orc":
        po.write_table(table, path, stripe_size=1024, batch_size=64, compression="uncompressed")
    return sum(rows)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.lists(st.integers(1, 400), max_size=6), min_size=1, max_size=3),
    tasks=st.integers(1, 12),
    least=st.integers(1, 3000),
)
def test_every_row_is_read_once(
    name: str,
    counts: list[list[int]],
    tasks: int,
    least: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    expected: Counter[tuple[int, str]] = Counter()
    files = []
    for i, rows in enumerate(counts):
        path = folder / f"{i} ü.{name}"
        count = written(path, name, rows)
        expected.update((x, f"row {x}") for x in range(count))
        files.append(FileRef(f"file:{path}", path.stat().st_size))
    form = pickle.loads(pickle.dumps(FileFormat(name, SCHEMA, base=str(folder))))
    found: Counter[tuple[int, str]] = Counter()
    for task in splits(files, tasks, least=least, most=max(least, 5000)):
        for split in task:
            for batch in form.read(split, Folder("/"), [1, 0]):
                assert batch.schema == pa.schema([SCHEMA.field(1), SCHEMA.field(0)])
                found.update(zip(batch["x"].to_pylist(), batch["s"].to_pylist(), strict=True))
    assert found == expected


def test_a_file_that_changed_is_not_read_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    written(path, "parquet", [10, 10])
    form = FileFormat("parquet", SCHEMA, (("ignoreCorruptFiles", "true"),))
    size = path.stat().st_size
    with pytest.raises(DataError, match=rf"has {size} bytes and had {size + 1} when it was found"):
        list(form.read(Split(str(path), size + 1, 0, 100), Folder("/"), [0]))
    whole = form.read(Split(str(path), size + 1, 0, size + 1), Folder("/"), [0])
    assert sum(map(len, whole)) == 20


def test_no_columns_are_still_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    written(path, "parquet", [10, 7])
    split = Split(str(path), path.stat().st_size, 0, path.stat().st_size)
    batches = list(FileFormat("parquet", SCHEMA).read(split, Folder("/"), []))
    assert sum(batch.num_rows for batch in batches) == 17
    assert all(batch.num_columns == 0 for batch in batches)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    split = Split(f"file:{tmp_path}/none.parquet", 9, 0, 9)
    with pytest.raises(DataError, match=r"none\.parquet is gone"):
        list(FileFormat("parquet", SCHEMA).read(split, Folder("/"), [0]))
    form = FileFormat("parquet", SCHEMA, (("IgnoreMissingFiles", "TRUE"),))
    assert list(form.read(split, Folder("/"), [0])) == []
