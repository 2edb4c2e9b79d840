"""Drivers that are killed with SIGKILL leave every row once in Delta, Iceberg and PostgreSQL.

All work is done by children, with the Spark that Delta and Iceberg exist for (lake.py). What is in
the tables is told by others than Spark (outside.py), what must be in there by DuckDB.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from skewless.failpoints import POINTS, TABLE
from skewless.spark.tables.database import KEPT
from tests.spark.killed import (
    every_file_is_read,
    last_commit,
    nothing_is_left_over,
    small,
    wait_for_a_moment,
)
from tests.spark.processes import ROOT, child, kill_tree, wait_for
from tests.spark.query_kits import JOIN, JOIN_AGGREGATE, QueryKit, add_batches, close
from tests.spark.support import FileStream, Rows, assert_same
from tests.tables import lake
from tests.tables.outside import READ
from tests.tables.places import Place
from tests.tables.postgres import Postgres, postgres

CHILD = Path(__file__).parent / "table_child.py"
PATIENCE_S = 1200  # for all that is left
KILLS = 10  # at random moments, of each query of a part
PARTS = 5 if os.environ.get("SKEWLESS_EXAMPLES") in ("most", "all") else 1
HIT = [point for point in POINTS if not point.startswith("publish.")]  # there are no files to move
KILLED = {"delta": JOIN, "iceberg table": JOIN_AGGREGATE, "jdbc": JOIN}
EVERY = {"delta table": JOIN_AGGREGATE, "iceberg": JOIN} | KILLED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    lake.prepare()
    with postgres() as running:
        yield running


@dataclass
class Story:
    """A query with a checkpoint, and the table that it writes to."""

    kit: QueryKit
    folder: Path
    place: Place
    kills: int = 0
    streams: list[FileStream] = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.streams = self.kit.sources(self.folder)

    def told(self, number: int = 0, checkpoint: str = "checkpoint") -> dict[str, Any]:
        """What a child is told of it."""
        way = list(self.kit.ways)[number % len(self.kit.ways)]
        told = {"folder": str(self.folder), "query": self.kit.name, "way": way}
        return told | {"checkpoint": checkpoint, "place": self.place.to_json()}

    def add_up_to(self, batches: int) -> None:
        """Let so many batches be to come."""
        there = len(self.streams[0].tables) - 1 - last_commit(self.folder)
        add_batches(self.streams, max(batches - there, 0))

    @property
    def expected(self) -> Rows:
        return self.kit.expected(self.streams)


@dataclass(frozen=True)
class Stories:
    """Queries that share the processes that are killed."""

    folder: Path
    server: Postgres
    each: Sequence[Story]

    @classmethod
    def of(cls, kinds: dict[str, QueryKit], server: Postgres, folder: Path) -> Stories:
        stories = []
        for number, (kind, kit) in enumerate(kinds.items()):
            place = Place(
                kind, str(folder / "tables"), server.url, f"t{number}_{folder.name[-8:]}".lower()
            )
            stories.append(Story(kit, folder / str(number), place))
        return cls(folder, server, stories)

    def child(
        self, queries: list[dict[str, Any]], number: int, **more: Any
    ) -> AbstractContextManager[psutil.Popen]:
        config = {"folder": str(self.folder), "queries": queries}
        config |= {"settings": lake.settings(self.folder / "tables")}
        places = os.pathsep.join([str(lake.HOME), str(ROOT), str(ROOT / "src")])
        pause = {"SKEWLESS_PAUSE_AT": more.pop("pause")} if "pause" in more else {}
        environment = {"PYTHONPATH": places} | small(number) | pause
        return child(config | more, CHILD, **environment)

    def work(self, queries: list[dict[str, Any]] | None = None, number: int = 0) -> None:
        """Have all there is worked on, to the end."""
        with self.child(queries or [story.told() for story in self.each], number) as process:
            wait_for(self.folder / "done", process, PATIENCE_S)

    def kill_at(self, point: str, number: int, stories: Sequence[Story]) -> None:
        """Have a process killed when all queries have come to a point."""
        for story in stories:
            story.add_up_to(2)
        marker = f"marker-{point}"
        queries, pause = [story.told(number) for story in stories], f"{point}={marker}"
        with self.child(queries, number, marker=marker, pause=pause) as process:
            wait_for(self.folder / "paused", process)
            assert not any((story.folder / "done").exists() for story in stories)
            kill_tree(process)
        print(f"killed at {point} after batches", [last_commit(s.folder) for s in stories])

    def kill_sometime(self, stories: Sequence[Story], chance: random.Random) -> None:
        """Start a process and kill it, mostly in the midst of batches."""
        for story in stories:
            story.add_up_to(8)
        number = chance.randrange(4)
        with self.child([story.told(number) for story in stories], number) as process:
            wait_for(self.folder / "started", process)
            log = self.folder / "child.log"
            wait_for_a_moment(process, log, [story.folder for story in stories], chance)
            has_ended = process.poll() is not None
            done = [story for story in stories if (story.folder / "done").exists()]
            assert len(done) == len(stories) or not has_ended, "the child has failed"
            kill_tree(process)
        for story in stories:
            story.kills += story not in done
        print("killed after batches", [last_commit(story.folder) for story in self.each])

    def found(self) -> list[Rows]:
        """What is in the table of each."""
        return [READ[story.place.kind](story.place, self.server) for story in self.each]

    def finish(self) -> None:
        """Work on what is left, and compare all with the oracle."""
        for story in self.each:
            close(story.streams)
        self.work()
        for story, found in zip(self.each, self.found(), strict=True):
            assert story.expected.total() > story.kit.more_than
            assert_same(found, story.expected)
            checkpoint = story.folder / "checkpoint"
            every_file_is_read(checkpoint, len(story.streams[0].tables))
            nothing_is_left_over(checkpoint / "skewless")
        self.only_tables_are_left()

    def only_tables_are_left(self) -> None:
        stages = self.server.ask("SELECT tablename FROM pg_tables WHERE tablename ~ '^skewless_'")
        assert stages == [["skewless_batches"]]
        kept = self.server.ask("SELECT count(*) FROM skewless_batches GROUP BY query_id")
        assert all(int(count) <= KEPT + 1 for (count,) in kept)


def test_kills_at_every_point(server: Postgres, tmp_path: Path) -> None:
    stories = Stories.of(KILLED, server, tmp_path)
    for story in stories.each:
        add_batches(story.streams, 3)
    stories.work()
    for number, point in enumerate(HIT):
        stories.kill_at(point, number, stories.each)
    for number, point in enumerate(TABLE):
        stories.kill_at(point, number, stories.each[-1:])
    stories.finish()


@pytest.mark.parametrize("part", range(PARTS))
def test_kills_at_random_moments(server: Postgres, tmp_path: Path, part: int) -> None:
    """Until all queries have seen some while they worked. The seed replays them, as far as a
    machine can."""
    stories = Stories.of(KILLED, server, tmp_path)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    chance = random.Random(seed)
    while waiting := [story for story in stories.each if story.kills < KILLS]:
        stories.kill_sometime(waiting, chance)
    stories.finish()


def test_others_write_to_the_same_tables(server: Postgres, tmp_path: Path) -> None:
    """A query is killed when its batch is in the table and not committed. Before it comes back,
    somebody else appends rows, and another query writes all it has; afterwards a third begins anew
    with the rows of the first."""
    first = Stories.of(EVERY, server, tmp_path)
    others = [
        Story(story.kit, tmp_path / f"other-{story.folder.name}", story.place)
        for story in first.each
    ]
    for story in (*first.each, *others):
        add_batches(story.streams, 3)
    for story in others:
        close(story.streams)
    first.work()
    first.kill_at("sink.staged", 0, first.each)
    before = first.found()
    first.work([story.told() | {"append": 5} for story in first.each])
    added = [after - now for after, now in zip(first.found(), before, strict=True)]
    assert [rows.total() for rows in added] == [5] * len(added)
    first.work([story.told() for story in others])
    for story in first.each:
        close(story.streams)
    first.work()
    first.work([story.told(checkpoint="anew") for story in first.each])
    for found, story, other, more in zip(first.found(), first.each, others, added, strict=True):
        assert_same(found, story.expected + story.expected + other.expected + more)
    first.only_tables_are_left()
