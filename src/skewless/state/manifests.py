"""Manifests: lists of segments that commits refer to, so that they need not repeat them.

A manifest is a blob, and as immutable as the segments it lists. A commit says which of them are
gone by now. So what a batch writes, and what a task is sent, follows what has changed.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import UInts
from skewless.errors import StateDamagedError
from skewless.state.blobs import BlobInfo, read_blob, write_blob
from skewless.state.files import Folder
from skewless.state.names import is_confined
from skewless.state.segments import REPAIR, SegmentInfo

LABEL = "manifest"
MANIFESTS_KEPT = 4096  # in memory of a worker, whoever asks for them

Flags = npt.NDArray[np.bool_]


class Listing:
    """Some segments, with what is asked of them again and again."""

    def __init__(self, segments: Sequence[SegmentInfo]) -> None:
        self.segments = tuple(segments)

    @cached_property
    def sides(self) -> dict[str, Flags]:
        """Which segments are of each side."""
        named = np.array([s.side for s in self.segments], dtype=object)
        return {side: named == side for side in {s.side for s in self.segments}}

    @cached_property
    def times_max(self) -> npt.NDArray[np.int64]:
        return np.array([s.time_max_us for s in self.segments], np.int64)

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        return np.array([s.rows for s in self.segments], np.int64)

    @cached_property
    def bytes(self) -> npt.NDArray[np.int64]:
        return np.array([s.bytes for s in self.segments], np.int64)

    @cached_property
    def hash_bounds(self) -> tuple[UInts, UInts]:
        lowest, highest = ([s.hash_min for s in self.segments], [s.hash_max for s in self.segments])
        return np.array(lowest, np.uint64), np.array(highest, np.uint64)

    @cached_property
    def generations(self) -> dict[tuple[str, int], dict[int, list[int]]]:
        """By side and level, where the segments of each batch stand."""
        found: dict[tuple[str, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for at, segment in enumerate(self.segments):
            found[segment.side, segment.level][segment.batch_id].append(at)
        return {key: dict(batches) for key, batches in found.items()}


@dataclass(frozen=True)
class Manifest:
    """A listing on disk. It is sent to tasks by name: a worker reads it once."""

    folder: Folder
    blob: BlobInfo
    count: int

    @cached_property
    def listing(self) -> Listing:
        return _READ.listing(self)

    def read(self) -> None:
        """Read it, whatever this process knows of it."""
        _READ.add(self, _read(self))

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "listing"}

    def to_json(self) -> dict[str, Any]:
        blob = self.blob
        return {"name": blob.name, "bytes": blob.bytes, "crc32": blob.crc32, "count": self.count}

    @staticmethod
    def from_json(folder: Folder, data: dict[str, Any]) -> Manifest:
        return Manifest(
            folder, BlobInfo(LABEL, data["name"], data["bytes"], data["crc32"]), data["count"]
        )


def write_manifest(folder: Folder, segments: Sequence[SegmentInfo]) -> Manifest:
    """Store a list of segments for the commits to come."""
    content = json.dumps([s.to_json() for s in segments], separators=(",", ":"))
    manifest = Manifest(folder, write_blob(folder, LABEL, content.encode()), len(segments))
    _READ.add(manifest, Listing(segments))
    return manifest


def _read(manifest: Manifest) -> Listing:
    """What a manifest lists. One that is missing or altered is refused, as any state is."""
    folder, blob = manifest.folder, manifest.blob
    found = [SegmentInfo.from_json(s) for s in json.loads(read_blob(folder, blob))]
    outside = [s.name for s in found if not is_confined(s.name)]
    if outside or len(found) != manifest.count:
        raise StateDamagedError(
            f"{folder.path(blob.name)} lists {len(found)} segments, {manifest.count} were "
            f"committed; outside of the state folder are {sorted(outside)}. {REPAIR}"
        )
    return Listing(found)


class _Read:
    """The manifests that this process has read last."""

    def __init__(self) -> None:
        self._listings: OrderedDict[tuple[str, str], Listing] = OrderedDict()
        self._lock = threading.Lock()

    def listing(self, manifest: Manifest) -> Listing:
        with self._lock:
            found = self._listings.get((manifest.folder.root, manifest.blob.name))
        if found is None:
            found = _read(manifest)
            self.add(manifest, found)
        return found

    def add(self, manifest: Manifest, listing: Listing) -> None:
        with self._lock:
            self._listings[manifest.folder.root, manifest.blob.name] = listing
            while len(self._listings) > MANIFESTS_KEPT:
                self._listings.popitem(last=False)


_READ = _Read()
