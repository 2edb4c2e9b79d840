"""A query ends while a large group is being put together, which takes several batches; and goes on
with other instances. At every point, on local disks and as on a remote store, where each instance
rewrites its own: nothing is lost, nothing comes twice, and nothing is left behind."""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from skewless import failpoints
from skewless.engine import exchange
from skewless.state import compaction, parts
from tests.crashes import OFTEN, CrashError, crash_at
from tests.frame.kit import Kit
from tests.frame.kits import KITS
from tests.frame.test_elastic import elastic, every_core_has_work
from tests.frame.test_frame import BATCHES, Frame, busy_frame

CORES = (3, 2, 4, 1, 3, 5, 2, 4, 3)  # in each batch
OTHER_CORES = (2, 5, 1, 4, 2, 1, 4, 2, 1)  # of the query that goes on
QUICK = ("join", "aggregate")
EVERY_KIT = pytest.mark.parametrize(
    "kit",
    [
        pytest.param(kit, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, kit in KITS.items()
    ],
)


@pytest.fixture(autouse=True, params=["near", "far"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two generations are put together, two rows at a time; instances are as many as cores."""
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    monkeypatch.setattr(compaction, "PORTION_ROWS", 2)
    monkeypatch.setattr(compaction, "PIECE_ROWS_MIN", 1)
    monkeypatch.setattr(parts, "FORCED", request.param == "far")
    monkeypatch.setattr(parts, "PART_BYTES_MIN", 1)
    monkeypatch.setattr(exchange, "PACKET_BYTES_MAX", 64)
    every_core_has_work(monkeypatch)
    place: str = request.param
    return place


def is_under_way(frame: Frame) -> bool:
    """Whether something is being put together, and not done."""
    last = frame.run.query.last
    return last is not None and any(s.segments.under_way for s in last.operators.values())


@cache
def points_in_mid_compaction(name: str, place: str) -> dict[tuple[str, int], int]:
    """For every point and visit of it, the last batch that reaches it and that began while
    something was being put together."""
    found: dict[tuple[str, int], int] = {}
    with tempfile.TemporaryDirectory() as folder:
        frame = busy_frame(elastic(KITS[name]), Path(folder))
        for number in range(BATCHES):
            hits: Counter[str] = Counter()
            begins_in_the_middle = is_under_way(frame)
            with mock.patch.object(
                failpoints, "hit", lambda point, *_, hits=hits: hits.update([point])
            ):
                frame.batch(number, cores=CORES[number])
            for point, count in hits.items() if begins_in_the_middle else ():
                for visit in {1, count // 2, count} - {0} if point in OFTEN else {1}:
                    found[point, visit] = number
    return found


def crashed_at(frame: Frame, point: str, visit: int, number: int) -> None:
    for before in range(number):
        frame.batch(before, cores=CORES[before])
    assert is_under_way(frame)
    with crash_at(point, visit), pytest.raises(CrashError):
        frame.batch(number, cores=CORES[number])
    frame.restart(1)
    for after in range(number, BATCHES):
        frame.batch(after, cores=OTHER_CORES[after])
    frame.check()


@EVERY_KIT
def test_a_crash_in_mid_compaction(kit: Kit, place: str, tmp_path: Path) -> None:
    points = points_in_mid_compaction(kit.name, place)
    assert {"compaction.written", "commit.begun", "commit.written", "cleanup.done"} <= {
        point for point, _ in points
    }
    for (point, visit), number in points.items():
        frame = busy_frame(elastic(kit), tmp_path / f"{point}-{visit}")
        crashed_at(frame, point, visit, number)


@EVERY_KIT
def test_it_is_done_whoever_does_it(kit: Kit, tmp_path: Path) -> None:
    """Without a crash: what one number of instances has begun, others go on with."""
    frame = busy_frame(elastic(kit), tmp_path)
    went_on = 0
    for number in range(BATCHES):
        before = is_under_way(frame)
        frame.batch(number, cores=CORES[number], twice=number % 3 == 0)
        went_on += before
    assert went_on
    frame.check()
