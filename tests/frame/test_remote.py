"""The same on S3: state and output in a bucket, of which this machine holds a cache only."""

from __future__ import annotations

from pathlib import Path

import pytest

from skewless.engine import instance
from skewless.errors import StateDamagedError
from skewless.state.cache import SegmentCache
from skewless.state.files import Folder
from skewless.state.stores import cache, remote
from tests.crashes import CrashError, assert_nothing_is_left_over, crash_at
from tests.frame.kit import Kit
from tests.frame.kits import KITS
from tests.frame.streams import busy
from tests.frame.test_frame import BATCHES, VISITS, Frame, even_cut, points_hit
from tests.queries import PipelineRun
from tests.s3 import SECRET, S3Server

QUICK = ("join", "aggregate")
SOME = [("segment.written", 2), ("instance.reported", 1), ("commit.written", 1), ("publish.one", 1)]
EVERY_KIT = pytest.mark.parametrize(
    "kit",
    [
        pytest.param(kit, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, kit in KITS.items()
    ],
)

pytestmark = pytest.mark.usefixtures("early_compaction", "cache_folder")


@pytest.fixture(autouse=True)
def _own_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "CACHE", SegmentCache())


class RemoteFrame(Frame):
    """A kit at work on folders of a bucket."""

    def __init__(self, kit: Kit, state: Folder, output: Folder) -> None:
        self._kit, self._streams = kit, busy(*kit.streams)
        self._cut = even_cut(kit, self._streams)
        self.run = PipelineRun(state, kit.pipeline(kit.setups[0]), output, keep_commits=3)

    def restart(self, setup: int) -> None:
        remote.FILES, instance.CACHE = cache.FileCache(), SegmentCache()  # as a new process
        super().restart(setup)


def remote_frame(kit: Kit, s3: S3Server) -> RemoteFrame:
    return RemoteFrame(kit, s3.folder(), s3.folder())


@EVERY_KIT
def test_restarts_and_crashes(kit: Kit, s3: S3Server, cache_folder: Path) -> None:
    """One query that is started again and again, its cache lost or damaged in between."""
    frame = remote_frame(kit, s3)
    crashes = dict(zip((2, 4, 5, 7), SOME, strict=True))
    for number in range(BATCHES):
        if number in crashes:
            with crash_at(*crashes[number]), pytest.raises(CrashError):
                frame.batch(number)
            frame.restart(number)
        frame.batch(number)
        if number == 3:
            for file in cache_folder.iterdir():
                file.unlink()
        if number == 6:
            for file in cache_folder.iterdir():
                file.write_bytes(file.read_bytes()[:-1])
    frame.check()
    prefix = frame.run.root.root.removeprefix("s3://bucket/")
    for key in s3.keys(prefix):
        assert SECRET.encode() not in s3.client.get_object(Bucket="bucket", Key=key)["Body"].read()


@pytest.mark.slow
@pytest.mark.parametrize("kit", KITS.values(), ids=list(KITS))
@pytest.mark.parametrize(("point", "visit"), VISITS)
def test_a_crash_at(point: str, visit: int, kit: Kit, s3: S3Server) -> None:
    crashed = [n for n, hits in enumerate(points_hit(kit.name)) if hits[point] >= visit][-1]
    frame = remote_frame(kit, s3)
    for number in range(crashed):
        frame.batch(number)
    with crash_at(point, visit), pytest.raises(CrashError):
        frame.batch(crashed)
    frame.restart(1)
    for number in range(crashed, BATCHES):
        frame.batch(number)
    frame.restart(2)
    frame.check()


@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damaged_state_is_refused(damage: str, s3: S3Server) -> None:
    """Whatever the cache still has of it."""
    frame = remote_frame(KITS["join"], s3)
    for number in range(3):
        frame.batch(number)
    folder, last = frame.run.query.folder, frame.run.query.last
    assert last is not None
    name = min(s.name for s in last.segments)
    content = folder.read(name)
    folder.delete(name)
    middle = len(content) // 2
    altered = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    if damage != "missing":
        folder.write(name, content[:middle] if damage == "truncated" else altered)
        # Of a whole copy in the cache nobody can tell.
        for file in cache.cache_folder().iterdir():
            file.unlink()
    with pytest.raises(StateDamagedError, match=r"is missing|was truncated or altered"):
        frame.restart(0)
        for number in range(3, BATCHES):
            frame.batch(number)


def test_what_a_crash_left_is_removed(s3: S3Server) -> None:
    frame = remote_frame(KITS["join"], s3)
    frame.batch(0)
    for part in ("segments", "blobs", "scratch", "reports/000000000001-x", "staged/000000000001"):
        frame.run.query.folder.write(f"{part}/of-a-crash", b"half a file")
    frame.restart(1)
    assert_nothing_is_left_over(frame.run)
