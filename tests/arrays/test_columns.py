"""Bytes of rows, counted by offsets as they would be one by one; and pieces of so many bytes."""

from __future__ import annotations

import tempfile
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skewless.arrays import columns
from skewless.arrays.columns import Columns, gathered, most_bytes, pieces_of, pieces_of_batch
from skewless.arrays.values import is_bytes
from skewless.engine.pipeline import as_schema
from skewless.state.files import Folder
from skewless.state.segments import SEGMENTS, WIDEST_KEY, Rows, read_segment, write_segment
from skewless.state.turns import in_turn
from tests.strategies import examples

SMALL = [pa.schema([("s", pa.string())])]
TEXTS = st.none() | st.text(max_size=5)
PAIR = pa.struct([("a", pa.string()), ("b", pa.int32())])
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.none() | st.integers(0, 9)),
    "text": (pa.string(), TEXTS),
    "large text": (pa.large_string(), TEXTS),
    "binary": (pa.binary(), st.none() | st.binary(max_size=5)),
    "decimal": (pa.decimal128(20, 2), st.none()),
    "null": (pa.null(), st.none()),
    "list": (pa.list_(pa.string()), st.none() | st.lists(TEXTS, max_size=3)),
    "large list": (pa.large_list(pa.int16()), st.none() | st.lists(st.just(1), max_size=3)),
    "vector": (pa.list_(pa.string(), 2), st.none() | st.lists(TEXTS, min_size=2, max_size=2)),
    "struct": (PAIR, st.none() | st.fixed_dictionaries({"a": TEXTS, "b": st.none()})),
    "map": (
        pa.map_(pa.string(), pa.list_(PAIR)),
        st.none()
        | st.lists(
            st.tuples(st.text(max_size=3), st.lists(st.just({"a": "äb", "b": 1}), max_size=2)),
            max_size=2,
        ),
    ),
}


def bytes_of(value: Any, kind: pa.DataType) -> int:
    """By the value: an offset where its length may vary, and what it holds."""
    if pa.types.is_fixed_size_list(kind):
        return sum(bytes_of(v, kind.value_type) for v in value or [None] * kind.list_size)
    if pa.types.is_struct(kind):
        return sum(bytes_of((value or {}).get(f.name), f.type) for f in kind)
    if pa.types.is_map(kind):
        inner = ((k, kind.key_type) for k, _ in value or [])
        items = ((v, kind.item_type) for _, v in value or [])
        return 4 + sum(bytes_of(v, t) for v, t in (*inner, *items))
    if pa.types.is_nested(kind):
        offset = 8 if pa.types.is_large_list(kind) else 4
        return offset + sum(bytes_of(v, kind.value_type) for v in value or [])
    if not pa.types.is_null(kind) and is_bytes(kind):
        data = value.encode() if isinstance(value, str) else value or b""
        return len(data) + (8 if pa.types.is_large_string(kind) else 4)
    return 0 if pa.types.is_null(kind) else kind.bit_width // 8


@pytest.mark.parametrize("name", TYPES)
@examples(50)
@given(data=st.data())
def test_bytes_of_rows_are_those_of_their_values(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    drawn = data.draw(st.lists(values, max_size=8))
    begin = data.draw(st.integers(0, len(drawn)))
    sliced = Columns([pa.array(drawn, kind).slice(begin)])
    expected = [bytes_of(value, kind) for value in drawn[begin:]]
    some = np.array(data.draw(st.permutations(range(len(expected)))), np.int64)
    assert sliced.row_bytes(some).tolist() == [expected[i] for i in some]
    assert sliced.widest == max(expected, default=0)
    assert most_bytes(sliced, some) >= sum(expected)


@examples(50)
@given(st.lists(TEXTS, max_size=9), st.lists(st.integers(0, 8), max_size=20), st.integers(1, 60))
def test_pieces_are_as_large_as_may_be(texts: list[Any], taken: list[int], most: int) -> None:
    source = Columns([pa.array(texts, pa.string())])
    rows = np.array([row for row in taken if row < len(texts)], np.int64)
    with mock.patch.object(columns, "PIECE_BYTES", most):
        found = list(pieces_of((source, rows), (source, rows)))
    sizes = 2 * source.row_bytes(rows)
    assert [i for piece in found for i in range(piece.start, piece.stop)] == list(range(len(rows)))
    for piece, after in zip(found, [*found[1:], None], strict=True):
        assert sizes[piece].sum() <= most or piece.stop - piece.start == 1
        assert after is None or sizes[piece].sum() + sizes[after.start] > most


@examples(50)
@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 40), st.integers(1, 5))
def test_small_parts_are_gathered(sizes: list[int], most: int, rows: int) -> None:
    parts = [["x"] * size for size in sizes]
    with mock.patch.object(columns, "PIECE_BYTES", most):
        found = list(gathered(parts, len, rows))
    assert [part for some in found for part in some] == parts
    for some in found:
        assert sum(map(len, some)) <= most or len(some) == 1
        assert sum(map(len, some[:-1])) < rows


def test_a_small_batch_is_left_as_it_is() -> None:
    batch = pa.record_batch({"a": ["x", "y"]})
    assert list(pieces_of_batch(batch)) == [batch]
    with mock.patch.object(columns, "BATCH_BYTES", 5):
        assert [len(piece) for piece in pieces_of_batch(batch)] == [1, 1]
        # A slice of something large is as small as it is.
        (one,) = pieces_of_batch(batch.slice(1, 1))
    assert one.to_pylist() == [{"a": "y"}]


@pytest.mark.slow
def test_large_texts_are_cut_before_they_are_cast() -> None:
    """3 GiB of zeros, which no memory is spent on: a file that has none of them."""
    with tempfile.TemporaryFile() as file:
        file.truncate(3 << 30)
        zeros = pa.py_buffer(np.memmap(file, np.uint8, "r"))
        offsets = pa.py_buffer(np.arange(49, dtype=np.int64) << 26)
        texts = pa.LargeStringArray.from_buffers(48, offsets, zeros)
        batch = pa.record_batch([texts], ["s"])
        found = [as_schema(piece, schema) for piece in pieces_of_batch(batch) for schema in SMALL]
        assert [len(piece) for piece in found] == [1] * 48


SORTED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), TEXTS), max_size=8).map(
    lambda rows: sorted(rows, key=lambda row: row[:2])
)


N = (0, 0, None)


def rows_of(drawn: list[tuple[int, int, str | None]]) -> Rows:
    hashes, times = (np.array([row[i] for row in drawn], np.int64) for i in (0, 1))
    texts = pa.array([text for _, _, text in drawn], pa.string())
    return Rows(hashes.astype(np.uint64), times, Columns([texts]))


@examples(50)
@given(st.lists(SORTED, max_size=4), st.integers(1, 90), st.booleans())
@example([[N], [N, N, (0, 2, "00\x80\x80\u0800")], [N, (0, 1, "\x80\x80\x80")]], 41, False)
def test_sorted_rows_come_in_turn(
    drawn: list[list[tuple[int, int, str | None]]], most: int, by_hash: bool
) -> None:
    parts = [rows_of(rows) for rows in drawn]
    with mock.patch.object(columns, "PIECE_BYTES", most):
        turns = list(in_turn(parts, by_hash=by_hash))
    ends = [0] * len(parts)
    before: list[tuple[int, ...]] = []
    for ranges in turns:
        assert [at.start for at in ranges] == ends, "nothing is left out, nothing comes twice"
        ends = [at.stop for at in ranges]
        some = [row[: 1 if by_hash else 2] for rows, at in zip(drawn, ranges, strict=True)
                for row in rows[at]]  # fmt: skip
        assert not before or not some or max(before) < min(some), "what is alike is together"
        before = some or before
        taken = [p.slice(at.start, at.stop) for p, at in zip(parts, ranges, strict=True)]
        size = sum(rows.nbytes for rows in taken if len(rows))  # Arrow sees a byte where none are
        assert size <= most or len(set(some)) == 1
    assert ends == list(map(len, parts))


def test_segments_tell_how_wide_their_rows_are() -> None:
    schema = pa.schema([("s", pa.string())])
    rows = rows_of([(0, 0, "x" * 100), (1, 1, "y"), (2, 2, "zz")])
    with tempfile.TemporaryDirectory() as root:
        folder = Folder(root)
        folder.make(SEGMENTS)
        some = {"floor_us": 0, "level": 0, "batch_id": 0}
        segments = [write_segment(folder, "left", schema, r, **some)
                    for r in (rows, rows.slice(1, 3))]  # fmt: skip
        told = [pa.ipc.open_file(f"{root}/{s.name}").schema.metadata[WIDEST_KEY] for s in segments]
        assert told == [b"104", b"6"], "a slice has forgotten what it was cut from"
        assert [read_segment(folder, s, None).columns.widest for s in segments] == [104, 6]
