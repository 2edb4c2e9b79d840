"""Small files that live as long as a commit lists them: what groupers know, and worksets."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa

from skewless.errors import StateDamagedError
from skewless.state.epochs import own_name
from skewless.state.files import Folder
from skewless.state.segments import REPAIR

BLOBS = "blobs"


@dataclass(frozen=True)
class BlobInfo:
    """A file of bytes; its operator knows what the label means."""

    label: str
    name: str
    bytes: int
    crc32: int


def write_blob(folder: Folder, label: str, data: bytes | pa.Buffer) -> BlobInfo:
    """Store bytes under a name nobody knows before a commit, or an arrival, lists it."""
    name = own_name(folder, BLOBS, label)
    folder.write(name, data)
    return BlobInfo(label, name, len(memoryview(data)), zlib.crc32(data))


def read_blob(folder: Folder, blob: BlobInfo) -> bytes:
    """The content of such a file; one that is missing or altered is refused."""
    try:
        data = folder.read(blob.name)
    except FileNotFoundError as error:
        raise StateDamagedError(f"{folder.path(blob.name)} is missing. {REPAIR}") from error
    if (len(data), zlib.crc32(data)) != (blob.bytes, blob.crc32):
        raise StateDamagedError(f"{folder.path(blob.name)} was truncated or altered. {REPAIR}")
    return data
