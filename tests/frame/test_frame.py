"""What holds for every operator and every pipeline: the result is the same however streams are cut
into batches and tasks, tasks repeated, queries started again with another setup, or crashed at any
point of the commit protocol. Nothing is lost, nothing comes twice, and nothing is left behind."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import failpoints
from skewless.errors import StateDamagedError
from skewless.state import compaction
from tests.crashes import (
    COMMITTED_FROM,
    DAMAGES,
    OFTEN,
    POINTS,
    CrashError,
    assert_nothing_is_left_over,
    crash_at,
    leave_rubbish,
    listed_files,
)
from tests.frame.kit import Kit
from tests.frame.kits import KITS
from tests.frame.streams import Stream, busy, rows_of, streams
from tests.queries import PipelineRun, Streams
from tests.strategies import examples

BATCHES = 9
# Some kits are crashed at every point by everybody, the others with the slow tests.
QUICK = ("join", "deduplicate", "join → aggregate")
EVERY_KIT = pytest.mark.parametrize("kit", KITS.values(), ids=list(KITS))
QUICK_OR_SLOW = pytest.mark.parametrize(
    "kit",
    [
        pytest.param(kit, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, kit in KITS.items()
    ],
)
VISITS = [(point, visit) for point in POINTS for visit in ((1, 2) if point in OFTEN else (1,))]


@dataclass(frozen=True)
class Cut:
    """How streams come: where each is cut into batches, and these into tasks."""

    batches: tuple[tuple[int, ...], ...]
    tasks: int

    def streams(self, streams: Sequence[Stream], number: int) -> Streams:
        """The rows of one batch."""
        return [
            self._tasks(stream, *self._range(stream, at, number))
            for stream, at in zip(streams, self.batches, strict=True)
        ]

    def _range(self, stream: Stream, at: tuple[int, ...], number: int) -> tuple[int, int]:
        ends = [0, *sorted(min(a, len(stream.rows) - 1) for a in at), len(stream.rows)]
        return ends[number], ends[number + 1]

    def _tasks(self, stream: Stream, begin: int, end: int) -> list[list[pa.RecordBatch]]:
        ends = [begin + (end - begin) * n // self.tasks for n in range(self.tasks + 1)]
        return [[stream.batch(a, b)] for a, b in pairwise(ends)]


def even_cut(kit: Kit, streams: Sequence[Stream]) -> Cut:
    """Equal batches; the last has the row that ends a stream."""
    each = tuple(
        tuple((len(s.rows) - 1) * n // (BATCHES - 1) for n in range(1, BATCHES)) for s in streams
    )
    return Cut(each, tasks=2)


def cuts(kit: Kit) -> st.SearchStrategy[Cut]:
    at = st.lists(st.integers(0, 15), min_size=BATCHES - 1, max_size=BATCHES - 1).map(tuple)
    return st.builds(Cut, st.tuples(*(at for _ in kit.streams)), st.integers(1, 3))


class Frame:
    """A kit at work: runs all batches, in spite of everything."""

    def __init__(self, kit: Kit, folder: Path, streams: Sequence[Stream], cut: Cut) -> None:
        self._kit, self._streams, self._cut = kit, streams, cut
        pipeline = kit.pipeline(kit.setups[0])
        self.run = PipelineRun(folder / "state", pipeline, folder / "out", keep_commits=3)

    def restart(self, setup: int) -> None:
        self.run.start(self._kit.pipeline(self._kit.setups[setup % len(self._kit.setups)]))

    def batch(self, number: int, *, twice: bool = False, cores: int | None = None) -> None:
        rows = self._cut.streams(self._streams, number)
        # Every other batch is written by the instances themselves.
        self.run.run_streams(number, rows, twice=twice, cores=cores, columns=number % 2 == 1)

    def check(self) -> None:
        self.restart(0)  # repeated tasks leave files that go when a query starts
        found, expected = rows_of(self.run.published_table()), self._kit.expected(self._streams)
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
        assert_nothing_is_left_over(self.run)


@pytest.fixture(autouse=True)
def _early_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)


Story = tuple[Kit, tuple[Stream, ...], Cut]


@st.composite
def stories(draw: st.DrawFn, kit: Kit) -> Story:
    most = 14 if len(kit.streams) < 4 else 8
    return kit, draw(streams(*kit.streams, most=most)), draw(cuts(kit))


RESTARTS = st.lists(st.none() | st.integers(0, 3), min_size=BATCHES, max_size=BATCHES)
CRASHES = st.lists(
    st.tuples(
        st.integers(0, BATCHES - 1), st.sampled_from(POINTS), st.integers(1, 4), st.integers(0, 3)
    ),
    min_size=1,
    max_size=6,
)


def check_any_cutting(data: st.DataObject, kit: Kit) -> None:
    _, arriving, cut = data.draw(stories(kit))
    restarts, twice = data.draw(RESTARTS), data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        frame = Frame(kit, Path(folder), arriving, cut)
        for number in range(BATCHES):
            if (setup := restarts[number]) is not None:
                frame.restart(setup)
            frame.batch(number, twice=twice)
        frame.check()


def check_any_crashes(data: st.DataObject, kit: Kit) -> None:
    _, arriving, cut = data.draw(stories(kit))
    crashes = data.draw(CRASHES)
    with tempfile.TemporaryDirectory() as folder:
        frame = Frame(kit, Path(folder), arriving, cut)
        for number in range(BATCHES):
            for _, point, visit, setup in [c for c in crashes if c[0] == number]:
                try:
                    with crash_at(point, visit):
                        frame.batch(number)
                except CrashError:
                    frame.restart(setup)
            frame.batch(number)
        frame.check()


@EVERY_KIT
@examples(5)
@given(data=st.data())
def test_any_cutting(data: st.DataObject, kit: Kit) -> None:
    check_any_cutting(data, kit)


@EVERY_KIT
@examples(5)
@given(data=st.data())
def test_any_crashes(data: st.DataObject, kit: Kit) -> None:
    check_any_crashes(data, kit)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@EVERY_KIT
@examples(500)
@given(data=st.data())
def test_any_cutting_at_length(data: st.DataObject, kit: Kit) -> None:
    check_any_cutting(data, kit)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@EVERY_KIT
@examples(500)
@given(data=st.data())
def test_any_crashes_at_length(data: st.DataObject, kit: Kit) -> None:
    check_any_crashes(data, kit)


def busy_frame(kit: Kit, folder: Path) -> Frame:
    arriving = busy(*kit.streams)
    return Frame(kit, folder, arriving, even_cut(kit, arriving))


@cache
def points_hit(name: str) -> list[Counter[str]]:
    """How often each point is hit in each batch of a kit's busy story."""
    hits: list[Counter[str]] = [Counter() for _ in range(BATCHES)]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(compaction, "FAN_IN", 2):
        frame = busy_frame(KITS[name], Path(folder))
        for number in range(BATCHES):
            count = hits[number]
            with mock.patch.object(
                failpoints, "hit", lambda point, *_, count=count: count.update([point])
            ):
                frame.batch(number)
    return hits


@QUICK_OR_SLOW
@pytest.mark.parametrize(("point", "visit"), VISITS)
def test_a_crash_at(point: str, visit: int, kit: Kit, tmp_path: Path) -> None:
    reached = [n for n, hits in enumerate(points_hit(kit.name)) if hits[point] >= visit]
    crashed = reached[-1]  # there must be one: a point that is never hit is no point
    frame = busy_frame(kit, tmp_path)
    for number in range(crashed):
        frame.batch(number)
    with crash_at(point, visit), pytest.raises(CrashError):
        frame.batch(crashed)
    frame.restart(1)
    committed = POINTS.index(point) >= COMMITTED_FROM
    assert frame.run.query.is_done(crashed) == committed
    # Spark repeats the batch that its log does not know to be done, and goes on from there.
    for number in range(crashed, BATCHES):
        frame.batch(number)
    frame.restart(2)
    frame.check()


@EVERY_KIT
def test_old_commits_go_with_their_files(kit: Kit, tmp_path: Path) -> None:
    frame = busy_frame(kit, tmp_path)
    listed = []
    for number in range(BATCHES):
        frame.batch(number)
        last = frame.run.query.last
        assert last is not None
        listed.append(last.files)
        assert listed_files(frame.run.query.folder) == set().union(*listed[-3:])
        assert_nothing_is_left_over(frame.run)
    assert any(listed)


@EVERY_KIT
def test_what_a_crash_left_is_removed(kit: Kit, tmp_path: Path) -> None:
    frame = busy_frame(kit, tmp_path)
    for number in range(4):
        frame.batch(number)
    leave_rubbish(frame.run)
    frame.restart(1)
    assert_nothing_is_left_over(frame.run)
    for number in range(4, BATCHES):
        frame.batch(number)
    frame.check()


@EVERY_KIT
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_state_is_refused(damage: str, kit: Kit, tmp_path: Path) -> None:
    frame = busy_frame(kit, tmp_path)
    for number in range(4):
        frame.batch(number)
    change, why = DAMAGES[damage]
    last = frame.run.query.last
    assert last is not None
    segments = sorted(s.name for s in last.segments)
    change(Path(frame.run.root) / segments[0])
    with pytest.raises(StateDamagedError, match=why):
        frame.restart(0)
        for number in range(4, BATCHES):
            frame.batch(number)
