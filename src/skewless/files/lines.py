"""Files of lines, a few megabytes at a time: those lines that begin in a split."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skewless.errors import ArgumentError
from skewless.files.splits import Split

BLOCK_BYTES = 8 << 20
PEEK_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
UNKNOWN = (".snappy", ".lz4", ".deflate", ".lzo", ".xz")  # as Hadoop packs them


def packing_of(path: str) -> str | None:
    """How a file is compressed, by its name, as Hadoop goes by."""
    name = path.rpartition("/")[2]
    if name.endswith(UNKNOWN):
        raise ArgumentError("path", path, f"not compressed, or by its name {', '.join(PACKED)}")
    return next((how for ending, how in PACKED.items() if name.endswith(ending)), None)


def blocks(split: Split, source: pa.NativeFile) -> Iterator[pa.Buffer]:
    """Whole lines, together those that begin in the split."""
    how = packing_of(split.path)
    if how is None:
        found = _plain(source, split.begin, split.end if not split.is_whole else source.size())
    elif split.is_whole:
        found = _unpacked(pa.CompressedInputStream(source, how))
    else:
        raise ArgumentError("split", split, "the whole of a compressed file")
    at_start = split.begin == 0
    for block in found:
        yield block.slice(3) if at_start and bytes(block[:3]) == BOM else block
        at_start = False


def _plain(source: pa.NativeFile, begin: int, end: int) -> Iterator[pa.Buffer]:
    size = source.size()
    at = _next_line(source, begin - 1, size) if begin else 0
    while at < min(end, size):
        stop = _next_line(source, min(at + BLOCK_BYTES, end, size) - 1, size)
        source.seek(at)
        yield source.read_buffer(stop - at)
        at = stop


def _next_line(source: pa.NativeFile, at: int, size: int) -> int:
    """Where the line that follows the one at a position begins."""
    while at < size:
        source.seek(at)
        piece = source.read(PEEK_BYTES)
        found: int = piece.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not piece:
            break
        at += len(piece)
    return size


def _unpacked(stream: pa.CompressedInputStream) -> Iterator[pa.Buffer]:
    rest = b""
    while piece := stream.read(BLOCK_BYTES):
        rest += piece
        cut = rest.rfind(b"\n") + 1
        if cut:
            yield pa.py_buffer(rest[:cut])
            rest = rest[cut:]
    if rest:
        yield pa.py_buffer(rest)
