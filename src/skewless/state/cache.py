"""Segments that a process has mapped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import pyarrow as pa

from skewless.state.files import Folder
from skewless.state.parts import Part, Range, is_far
from skewless.state.segments import Rows, SegmentInfo, read_parts, read_segment

# Who asks, the folder, the segment, which columns, and which parts if not all.
Key = tuple[str, str, str, tuple[str, ...], tuple[Part, ...] | None]


class SegmentCache:
    """Segments that this process has mapped. Workers come and go: nothing depends on a hit."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._rows: OrderedDict[Key, Rows] = OrderedDict()

    def rows(
        self,
        folder: Folder,
        segment: SegmentInfo,
        time_index: int | None,
        scope: str = "",
        schema: pa.Schema | None = None,
        ranges: Sequence[Range] | None = None,
    ) -> Rows:
        """The rows of a segment. The scope says who asks: a query's operator, say. One that was
        started again may ask for other columns. Rows outside of some `ranges` of hashes may be
        missing."""
        names = () if schema is None else tuple(schema.names)
        parts = None
        if ranges is not None and schema is not None and is_far(folder):
            parts = segment.parts_in(ranges)
        key = (scope, folder.root, segment.name, names, parts)
        if key not in self._rows:
            if parts is None or schema is None:
                self._rows[key] = read_segment(folder, segment, time_index, schema)
            else:
                self._rows[key] = read_parts(folder, segment, parts, time_index, schema)
        self._rows.move_to_end(key)
        while len(self._rows) > self._most:
            self._rows.popitem(last=False)
        return self._rows[key]

    def keep_only(self, folder: Folder, segments: set[str], scope: str = "") -> None:
        """Let go of a scope's other segments, so that deleted files free their space."""
        for key in list(self._rows):
            if key[:2] == (scope, folder.root) and key[2] not in segments:
                del self._rows[key]


CACHE = SegmentCache()  # of this process
