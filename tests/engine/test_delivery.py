"""Results that are delivered after the commit, without Kafka: a system that takes a part and its
marker in one step. Whatever ends the work, it has every row once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from skewless import failpoints
from skewless.errors import StateError
from skewless.failpoints import DELIVERY, POINTS
from skewless.placement.routing import Hash
from skewless.state import delivery
from skewless.state.commits import Commit
from skewless.state.epochs import Ownership
from skewless.state.files import Folder
from skewless.state.rollback import Rollback, plan_rollback, roll_back
from tests.crashes import CrashError, assert_nothing_is_left_over, crash_at
from tests.driver import Driver, Setup
from tests.operators.two_way.test_crashes import EQUALITY
from tests.oracle import Row, multiset, rows_of

pytestmark = pytest.mark.usefixtures("early_compaction")

NEVER_REACHED = ("publish.begun", "publish.one", "publish.done")


class System:
    """Has rows, and by part the commit that they are of."""

    to, tasks = "orders", 2

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()
        self.markers: dict[int, tuple[int, int]] = {}
        self.most_parts = 0

    def deliver(self, folder: Folder, commit: Commit) -> None:
        assert commit.deliver is not None
        self.most_parts = max(self.most_parts, len(commit.deliver.parts))
        for number, part in enumerate(commit.deliver.parts):
            if self.markers.get(number) == (commit.epoch, commit.batch_id):
                continue
            tables = [_table(folder, file.name) for file in part]
            failpoints.hit("delivery.produced", folder.root, commit.batch_id)
            self.rows += multiset(rows_of(pa.concat_tables(tables)))
            self.markers[number] = (commit.epoch, commit.batch_id)
            failpoints.hit("delivery.one", folder.root, commit.batch_id)


def _table(folder: Folder, name: str) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(folder.read(name))).read_all()


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    monkeypatch.setattr(delivery, "PART_BYTES", 1)
    return System()


def started(folder: Path, system: System | None, setup: Setup | None = None) -> Driver:
    output = folder / "nowhere"
    return Driver(folder / "state", EQUALITY.case.spec, setup, output, deliverer=system)  # type: ignore[arg-type]


@pytest.mark.parametrize("point", [p for p in (*POINTS, *DELIVERY) if p not in NEVER_REACHED])
def test_every_row_once_through_a_crash(tmp_path: Path, system: System, point: str) -> None:
    query = started(tmp_path, system)
    for number, batch in enumerate(EQUALITY.batches):
        if number == 4:
            with pytest.raises(CrashError), crash_at(point):
                query.run(number, batch)
            query.reopen(Setup(Hash(), 3))
        query.run(number, batch)
    expected = sum((answer.rows for answer in EQUALITY.case.answers()), Counter())
    assert expected
    assert system.rows == expected
    assert system.most_parts == 2
    assert not (tmp_path / "nowhere").exists()
    assert_nothing_is_left_over(query)


def test_another_sink_does_not_leave_results_behind(tmp_path: Path, system: System) -> None:
    query = started(tmp_path, system)
    with pytest.raises(CrashError), crash_at("delivery.begun"):
        query.run(0, EQUALITY.batches[0])
    with pytest.raises(StateError, match="still to be delivered to orders"):
        started(tmp_path, None)
    started(tmp_path, system)
    assert system.rows
    started(tmp_path, None)


def rolled_back(query: Driver, to: int) -> Rollback:
    state = Folder(query.query.folder.root)
    offsets = Path(state.root).parent / "offsets"
    offsets.mkdir(exist_ok=True)
    (offsets / str(to)).touch()
    plan = plan_rollback(state, to)
    roll_back(state, plan, Ownership(state))
    return plan


def test_a_rollback_says_what_it_leaves_behind(tmp_path: Path, system: System) -> None:
    """What was delivered stays, and comes again."""
    query = started(tmp_path, system)
    for number in range(3):
        query.run(number, EQUALITY.batches[number])
    first, second, third = (answer.rows for answer in EQUALITY.case.answers()[:3])
    assert rolled_back(query, 0).batches == (1, 2)
    query.reopen(Setup())
    query.run(1, EQUALITY.batches[1])
    assert system.rows == first + second + third + second


def test_a_rollback_to_the_last_batch_leaves_its_delivery_to_be_done(
    tmp_path: Path, system: System
) -> None:
    query = started(tmp_path, system)
    query.run(0, EQUALITY.batches[0])
    with pytest.raises(CrashError), crash_at("delivery.begun"):
        query.run(1, EQUALITY.batches[1])
    assert rolled_back(query, 1).batches == ()
    query.reopen(Setup())
    first, second = (answer.rows for answer in EQUALITY.case.answers()[:2])
    assert system.rows == first + second
