"""Segments that a process has mapped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import pyarrow as pa

from skewless.state.files import Folder
from skewless.state.parts import Part, Range, is_far
from skewless.state.segments import Rows, SegmentInfo, read_parts, read_segment, verify_segment

# Who asks, the folder, the segment, which columns, and which parts if not all.
Key = tuple[str, str, str, tuple[str, ...], tuple[Part, ...] | None]


class SegmentCache:
    """Segments that this process has mapped. Workers come and go: nothing depends on a hit.

    What the batch at work and the one before have asked for stays, however much it is: instances
    and batches ask for nearly the same, one after the other. Of all else there are at most so many.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._rows: OrderedDict[Key, tuple[Rows, int]] = OrderedDict()
        self._verified: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()  # a driver may work for several queries

    def rows(
        self,
        folder: Folder,
        segment: SegmentInfo,
        time_index: int | None,
        scope: str = "",
        schema: pa.Schema | None = None,
        ranges: Sequence[Range] | None = None,
        *,
        batch_id: int = -1,
        verify: bool = False,
    ) -> Rows:
        """The rows of a segment. The scope says who asks: a query's operator, say. One that was
        started again may ask for other columns. Rows outside of some `ranges` of hashes may be
        missing. With `verify`, the content is compared with its checksum, unless it was for this
        scope; parts have checksums of their own."""
        names = () if schema is None else tuple(schema.names)
        parts = None
        if ranges is not None and schema is not None and is_far(folder):
            parts = segment.parts_in(ranges)
        key = (scope, folder.root, segment.name, names, parts)
        known = self._rows.get(key)
        if known is not None:
            rows, _ = known
        elif parts is None or schema is None:
            if verify and key[:3] not in self._verified:
                verify_segment(folder, segment)
                self._verified.add(key[:3])
            rows = read_segment(folder, segment, time_index, schema)
        else:
            rows = read_parts(folder, segment, parts, time_index, schema)
        with self._lock:
            self._rows[key] = rows, batch_id
            self._rows.move_to_end(key)
            self._make_room(scope, batch_id)
        return rows

    def _make_room(self, scope: str, batch_id: int) -> None:
        while len(self._rows) > self._most:
            (oldest, *_), (_, asked_in) = next(iter(self._rows.items()))
            if oldest == scope and 0 <= batch_id <= asked_in + 1:
                return
            self._rows.popitem(last=False)

    def let_go(self, folder: Folder, scope: str, before_batch_id: int) -> None:
        """Forget what a scope has not asked for since a batch, so that deleted files free their
        space."""
        with self._lock:
            for key, (_, asked_in) in list(self._rows.items()):
                if key[:2] == (scope, folder.root) and asked_in < before_batch_id:
                    del self._rows[key]


CACHE = SegmentCache()  # of this process
