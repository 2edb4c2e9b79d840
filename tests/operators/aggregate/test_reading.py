"""What an instance reads of files of arrived rows on a remote store: its own, and few others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.arrays.columns import Columns
from skewless.operators.aggregate import reading
from skewless.operators.aggregate.accumulate import positions_in
from skewless.operators.aggregate.arrived import KeyRun
from skewless.operators.aggregate.reading import borders_of, read_share
from skewless.operators.aggregate.row_shares import FileShare
from skewless.state import parts
from skewless.state.files import Folder
from skewless.state.segments import SCRATCH, Rows, SegmentInfo, write_segment

SCHEMA = pa.schema({"id": pa.int64()})


def stored(folder: Folder, rows: int, borders: list[int]) -> SegmentInfo:
    folder.make(SCRATCH)
    numbers = np.arange(rows)
    hashes = np.random.default_rng(1).integers(0, 1 << 63, rows).astype(np.uint64)
    return write_segment(
        folder, "input", SCHEMA, Rows(hashes, numbers, Columns([pa.array(numbers)])),
        floor_us=0, level=0, batch_id=-1, place=SCRATCH, borders=borders,
    )  # fmt: skip


@pytest.fixture
def _far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "FORCED", True)
    monkeypatch.setattr(parts, "PART_BYTES_MIN", 64)


POSITIONS = st.lists(st.integers(0, 100), max_size=12)


@pytest.mark.usefixtures("_far")
@settings(deadline=None, max_examples=100)
@given(borders=POSITIONS, ends=POSITIONS)
def test_a_share_is_found_in_what_is_read(
    borders: list[int], ends: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = Folder(str(tmp_path_factory.mktemp("state")))
    file = stored(folder, 100, sorted(borders))
    begins_and_ends = np.array(sorted(ends[: len(ends) // 2 * 2]), np.int64).reshape(-1, 2)
    share = FileShare(file, begins_and_ends[:, 0], begins_and_ends[:, 1])
    rows, mine = read_share(folder, share, None, SCHEMA)
    found = rows.columns[0].to_numpy()[positions_in(mine.begins, mine.ends)]
    assert found.tolist() == positions_in(share.begins, share.ends).tolist()


@pytest.mark.usefixtures("_far")
def test_others_rows_are_not_read(tmp_path: Path) -> None:
    file = stored(Folder(str(tmp_path)), 100, [25, 50, 75])
    share = FileShare(file, np.array([25]), np.array([50]))
    rows, _ = read_share(Folder(str(tmp_path)), share, None, SCHEMA)
    assert rows.columns[0].to_pylist() == list(range(25, 50))
    nothing = FileShare(file, np.array([25]), np.array([25]))
    assert not len(read_share(Folder(str(tmp_path)), nothing, None, SCHEMA)[0])


def test_a_heavy_key_is_cut_finely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECES_EACH", 2)
    found = borders_of(np.array([0, 20, 100]), [KeyRun(7, "7", 30, 60)])
    assert found == [0, 20, 30, 55, 80, 90, 100]


def test_a_small_file_is_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "FORCED", True)
    assert len(stored(Folder(str(tmp_path)), 100, [25, 50, 75]).parts) == 1


def test_on_a_local_disk_files_have_no_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FORCED", False)
    assert not stored(Folder(str(tmp_path)), 100, [25, 50, 75]).parts
