"""Small files that live as long as a commit lists them: what groupers know, and worksets."""

from __future__ import annotations

import uuid
import zlib

import pyarrow as pa

from skewless.errors import StateDamagedError
from skewless.state.commits import GrouperFile
from skewless.state.files import Folder
from skewless.state.segments import REPAIR


def write_kept(
    folder: Folder, place: str, data: bytes | pa.Buffer, *, task: int = -1, suffix: str = ""
) -> GrouperFile:
    """Store a file under a name nobody knows before a commit, or an arrival, lists it."""
    name = f"{place}/{uuid.uuid4().hex}{suffix}"
    folder.write(name, data)
    return GrouperFile(task, name, len(memoryview(data)), zlib.crc32(data))


def read_kept(folder: Folder, file: GrouperFile) -> bytes:
    """The content of such a file; one that is missing or altered is refused."""
    try:
        data = folder.read(file.name)
    except FileNotFoundError as error:
        raise StateDamagedError(f"{folder.path(file.name)} is missing. {REPAIR}") from error
    if (len(data), zlib.crc32(data)) != (file.bytes, file.crc32):
        raise StateDamagedError(f"{folder.path(file.name)} was truncated or altered. {REPAIR}")
    return data
