"""Segments: written once, mapped back, and refused when they are not what was committed."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.columns import Columns
from skewless.arrays.types import FAR_US, HASH_MAX, SIDES
from skewless.errors import StateDamagedError, StateFormatError
from skewless.state import cache as cache_module
from skewless.state import segments
from skewless.state.cache import SegmentCache
from skewless.state.files import Folder
from skewless.state.segments import (
    SCRATCH,
    SEGMENTS,
    Rows,
    SegmentInfo,
    read_arrays,
    read_segment,
    times_of,
    verify_segment,
    write_arrays,
    write_segment,
)
from tests.strategies import examples

WHOLE = st.integers(0, 1 << 62)
TIMES = st.integers(-FAR_US, FAR_US)
INFOS = st.builds(
    SegmentInfo,
    name=st.text(max_size=9),
    side=st.sampled_from(SIDES),
    rows=WHOLE,
    bytes=WHOLE,
    crc32=st.integers(0, (1 << 32) - 1),
    hash_min=st.integers(0, HASH_MAX),
    hash_max=st.integers(0, HASH_MAX),
    time_min_us=TIMES,
    time_max_us=TIMES,
    floor_us=TIMES,
    level=st.integers(0, 9),
    batch_id=st.integers(-1, 1 << 40),
    kind=st.sampled_from(["rows", "packs"]),
)
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("text", pa.string())])
ROWS = Rows(
    np.array([1, 1, 2**64 - 1], np.uint64),
    np.array([-5, 3, 2], np.int64),
    Columns([pa.array([-5, 3, 2], SCHEMA.field(0).type), pa.array(["a", None, "c"])]),
)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(str(tmp_path))
    made.make(SEGMENTS)
    return made


def write(folder: Folder, rows: Rows = ROWS) -> SegmentInfo:
    return write_segment(folder, "left", SCHEMA, rows, floor_us=-9, level=2, batch_id=7)


def test_a_segment_is_read_as_it_was_written(folder: Folder) -> None:
    segment = write(folder)
    verify_segment(folder, segment)
    rows = read_segment(folder, segment, 0)
    assert rows.hashes.tolist() == ROWS.hashes.tolist()
    assert rows.times.tolist() == ROWS.times.tolist()
    assert [c.to_pylist() for c in rows.columns] == [c.to_pylist() for c in ROWS.columns]
    assert len(rows) == 3
    assert read_segment(folder, segment, None).times.tolist() == [0, 0, 0]


def test_its_description_fits_the_file(folder: Folder) -> None:
    segment = write(folder)
    content = folder.read(segment.name)
    assert (segment.bytes, segment.crc32) == (len(content), zlib.crc32(content))
    assert (segment.side, segment.rows, segment.level, segment.batch_id) == ("left", 3, 2, 7)
    assert (segment.hash_min, segment.hash_max) == (1, 2**64 - 1)
    assert (segment.time_min_us, segment.time_max_us, segment.floor_us) == (-5, 3, -9)
    assert segment.name.startswith(f"{SEGMENTS}/e0.left-")


def test_a_segment_says_what_its_rows_are(folder: Folder) -> None:
    options = {"floor_us": 0, "level": 0, "batch_id": 0}
    packs = write_segment(folder, "left", SCHEMA, ROWS, kind="packs", **options)  # type: ignore[arg-type]
    assert (packs.kind, write(folder).kind) == ("packs", "rows")


def test_rows_that_are_not_state_lie_elsewhere(folder: Folder) -> None:
    folder.make(SCRATCH)
    segment = write_segment(
        folder, "left", SCHEMA, ROWS, floor_us=0, level=0, batch_id=0, place=SCRATCH
    )
    assert segment.name.startswith(f"{SCRATCH}/e0.left-")
    assert folder.list(SEGMENTS) == []


@examples(100)
@given(INFOS)
def test_descriptions_travel_as_json(segment: SegmentInfo) -> None:
    assert SegmentInfo.from_json(json.loads(json.dumps(segment.to_json()))) == segment


def test_every_segment_has_a_name_of_its_own(folder: Folder) -> None:
    assert write(folder).name != write(folder).name


def test_rows_are_mapped_not_copied(folder: Folder) -> None:
    many = 1 << 16
    times = np.zeros(many, np.int64)
    columns = Columns([pa.array(times).cast(SCHEMA.field(0).type), pa.nulls(many, pa.string())])
    rows = Rows(np.zeros(many, np.uint64), times, columns)
    segment = write(folder, rows)
    before = pa.total_allocated_bytes()
    read = read_segment(folder, segment, 0)
    assert pa.total_allocated_bytes() - before < segment.bytes // 10
    assert not read.hashes.flags.writeable
    assert not read.times.flags.owndata


def test_a_missing_segment_is_told(folder: Folder) -> None:
    segment = write(folder)
    folder.delete(segment.name)
    for look in (lambda: read_segment(folder, segment, 0), lambda: verify_segment(folder, segment)):
        with pytest.raises(StateDamagedError, match=f"{folder.path(segment.name)} is missing"):
            look()


@pytest.mark.parametrize("change", [-1, -100, +8])
def test_a_segment_of_another_size_is_refused(folder: Folder, change: int) -> None:
    segment = write(folder)
    content = folder.read(segment.name)
    folder.write(segment.name, content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(StateDamagedError, match=rf"{segment.name} has \d+ bytes"):
        read_segment(folder, segment, 0)
    with pytest.raises(StateDamagedError, match=f"{segment.name} was truncated or altered"):
        verify_segment(folder, segment)


def test_every_altered_byte_is_found(folder: Folder) -> None:
    segment = write(folder)
    content = folder.read(segment.name)
    for position in range(0, len(content), 17):
        altered = bytearray(content)
        altered[position] ^= 0x10
        folder.write(segment.name, bytes(altered))
        with pytest.raises(StateDamagedError, match="restore the checkpoint"):
            verify_segment(folder, segment)


def test_a_newer_segment_format_is_refused(folder: Folder) -> None:
    with mock.patch.object(segments, "FORMAT", b"3"):
        segment = write(folder)
    verify_segment(folder, segment)
    with pytest.raises(StateFormatError, match=rf"{segment.name} is of segment format b'3'.*b'1'"):
        read_segment(folder, segment, 0)


def test_an_arrow_file_of_somebody_else_is_refused(folder: Folder) -> None:
    write_arrays(folder, f"{SEGMENTS}/other.arrow", {"hash": ROWS.hashes})
    other = replace(
        write(folder),
        name=f"{SEGMENTS}/other.arrow",
        bytes=folder.size(f"{SEGMENTS}/other.arrow"),
    )
    with pytest.raises(StateFormatError, match="segment format None"):
        read_segment(folder, other, 0)


def test_plain_arrays(folder: Folder) -> None:
    arrays = {"hash": ROWS.hashes, "row": np.array([2, 0, 1])}
    write_arrays(folder, "probes.arrow", arrays)
    read = read_arrays(folder, "probes.arrow")
    assert {name: values.tolist() for name, values in read.items()} == {
        name: values.tolist() for name, values in arrays.items()
    }


def test_times_of_a_slice() -> None:
    column = pa.array([1, 2, 3, 4], SCHEMA.field(0).type).slice(1, 2)
    assert times_of([column], 0, 2).tolist() == [2, 3]
    assert times_of([column], None, 2).tolist() == [0, 0]


# The cache of mapped segments.


def test_a_segment_is_mapped_once_per_process(folder: Folder) -> None:
    segment, cache = write(folder), SegmentCache()
    first = cache.rows(folder, segment, 0)
    with mock.patch.object(segments, "read_segment", side_effect=AssertionError):
        assert cache.rows(folder, segment, 0) is first


def test_the_cache_forgets_the_least_recently_used(folder: Folder) -> None:
    a, b, c = (write(folder) for _ in range(3))
    cache = SegmentCache(most=2)
    kept = {s.name: cache.rows(folder, s, 0) for s in (a, b)}
    assert cache.rows(folder, a, 0) is kept[a.name]
    cache.rows(folder, c, 0)
    assert cache.rows(folder, a, 0) is kept[a.name]
    assert cache.rows(folder, b, 0) is not kept[b.name]


def test_what_a_batch_asks_for_stays_mapped_however_much_it_is(folder: Folder) -> None:
    many, cache = [write(folder) for _ in range(5)], SegmentCache(most=2)
    kept = [cache.rows(folder, s, 0, batch_id=7) for s in many]
    again = [cache.rows(folder, s, 0, batch_id=8) for s in many]
    assert all(a is b for a, b in zip(again, kept, strict=True))
    cache.rows(folder, many[4], 0, batch_id=9)
    cache.rows(folder, many[4], 0, batch_id=10)
    assert cache.rows(folder, many[0], 0, batch_id=10) is not kept[0]
    assert cache.rows(folder, many[4], 0, batch_id=10) is kept[4]


def test_letting_go_concerns_one_folder_only(folder: Folder, tmp_path: Path) -> None:
    other = Folder(str(tmp_path / "other"))
    other.make(SEGMENTS)
    a, b, elsewhere = write(folder), write(folder), write(other)
    cache = SegmentCache()
    asked = ((folder, a, 4), (folder, b, 3), (other, elsewhere, 3))
    kept = [cache.rows(f, s, 0, batch_id=batch_id) for f, s, batch_id in asked]
    cache.let_go(folder, "", before_batch_id=4)
    assert cache.rows(folder, a, 0) is kept[0]
    assert cache.rows(folder, b, 0) is not kept[1]
    assert cache.rows(other, elsewhere, 0) is kept[2]


def test_a_segment_is_verified_once_by_whoever_reads_it_first(folder: Folder) -> None:
    segment, cache = write(folder), SegmentCache(most=1)
    with mock.patch.object(cache_module, "verify_segment") as verify:
        cache.rows(folder, segment, 0)
        cache.rows(folder, write(folder), 0)
        assert not verify.called
        for _ in range(2):
            cache.rows(folder, segment, 0, verify=True)
            cache.rows(folder, write(folder), 0)
        assert verify.call_count == 1
        cache.rows(folder, segment, 0, scope="started again", verify=True)
        assert verify.call_count == 2
    damaged = replace(segment, crc32=segment.crc32 ^ 1)
    with pytest.raises(StateDamagedError, match="was truncated or altered"):
        cache.rows(folder, damaged, 0, scope="started once more", verify=True)
