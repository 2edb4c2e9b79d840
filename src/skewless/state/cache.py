"""Segments that a process has mapped."""

from __future__ import annotations

from collections import OrderedDict

import pyarrow as pa

from skewless.state.files import Folder
from skewless.state.segments import Rows, SegmentInfo, read_segment


class SegmentCache:
    """Segments that this process has mapped. Workers come and go: nothing depends on a hit."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._rows: OrderedDict[tuple[str, str, str, tuple[str, ...]], Rows] = OrderedDict()

    def rows(
        self,
        folder: Folder,
        segment: SegmentInfo,
        time_index: int | None,
        scope: str = "",
        schema: pa.Schema | None = None,
    ) -> Rows:
        """The rows of a segment. The scope says who asks: a query's operator, say. One that was
        started again may ask for other columns."""
        names = () if schema is None else tuple(schema.names)
        key = (scope, folder.root, segment.name, names)
        if key not in self._rows:
            self._rows[key] = read_segment(folder, segment, time_index, schema)
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
