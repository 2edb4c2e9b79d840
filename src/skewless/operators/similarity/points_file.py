"""Points as small files of the state: centers, with what is known of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.operators.similarity.points import Points, Sets
from skewless.state.blobs import BlobInfo, read_blob, write_blob
from skewless.state.files import Folder

POINTS_KEY = b"skewless.points"
POINT = "center"

Arrays = Mapping[str, npt.NDArray[Any]]


def write_points(folder: Folder, label: str, points: Points, more: Arrays) -> BlobInfo:
    """Store points, and one value each of some more columns."""
    is_sets = isinstance(points, Sets)
    values: npt.NDArray[Any]
    if isinstance(points, Sets):
        offsets, values = points.offsets, points.values
    else:
        offsets, values = np.arange(len(points) + 1) * points.shape[1], points.ravel()
    column = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
    batch = pa.record_batch({POINT: column} | {name: pa.array(v) for name, v in more.items()})
    batch = batch.replace_schema_metadata({POINTS_KEY: b"sets" if is_sets else b"matrix"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return write_blob(folder, label, sink.getvalue())


def read_points(folder: Folder, blob: BlobInfo) -> tuple[Points, dict[str, npt.NDArray[Any]]]:
    """Points and further columns, as they were written."""
    with pa.ipc.open_file(pa.py_buffer(read_blob(folder, blob))) as reader:
        batch = reader.get_batch(0)
    column = batch.column(POINT)
    values = column.flatten().to_numpy()
    points: Points
    if (batch.schema.metadata or {}).get(POINTS_KEY) == b"sets":
        offsets = column.offsets.to_numpy().astype(np.int64)
        points = Sets(offsets - offsets[0], values)
    else:
        points = values.reshape(len(batch), len(values) // max(len(batch), 1))
    names = [name for name in batch.schema.names if name != POINT]
    return points, {n: batch.column(n).to_numpy(zero_copy_only=False) for n in names}
