"""Kills of the driver, of its tasks and of the broker: a reader that trusts only committed
transactions gets every row once."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from skewless.failpoints import DELIVERY, POINTS
from tests.kafka.broker import Broker
from tests.kafka.city import City
from tests.kafka.jars import connector_jars
from tests.kafka.reading import read_all
from tests.spark.killed import AFTER_S, last_commit, small, wait_for_a_moment
from tests.spark.processes import child, kill_tree, wait_for
from tests.spark.query_kits import JOIN, add_batches, close
from tests.spark.support import FileStream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(3600),
]

SCRIPT = Path(__file__).parent / "kill_child.py"
RARE = ("compaction.written",)  # not reached in every batch
NEVER_REACHED = ("publish.begun", "publish.one", "publish.done")
KILLS = 10  # at random moments, of each query of a part
PARTS = 5 if os.environ.get("SKEWLESS_EXAMPLES") in ("most", "all") else 1


@contextmanager
def queries_in(
    folder: Path, broker: Broker, queries: Sequence[dict[str, Any]], number: int, pause: str = ""
) -> Iterator[psutil.Popen]:
    """A process that works on what there is; every other one hands small batches to tasks."""
    config: dict[str, Any] = {"folder": str(folder), "servers": broker.servers, "queries": queries}
    config["settings"] = {"spark.jars": ",".join(connector_jars())}
    paused = {"SKEWLESS_PAUSE_AT": pause} if pause else {}
    with child(config, SCRIPT, **paused, **small(number)) as process:
        wait_for(folder / "started", process)
        yield process


class Story:
    """A query from files on one checkpoint that is killed, goes on, and is counted in the end."""

    def __init__(self, folder: Path, broker: Broker, topic: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.broker, self.topic = folder, broker, topic
        self.streams: list[FileStream] = JOIN.sources(folder)
        self.starts = 0

    def add(self, batches: int) -> None:
        add_batches(self.streams, batches)

    def add_more(self) -> None:
        """So that eight batches are to come."""
        self.add(max(0, last_commit(self.folder) + 9 - len(self.streams[0].tables)))

    def told(self, number: int) -> dict[str, Any]:
        """What a child is told of it."""
        way = list(JOIN.ways)[number % len(JOIN.ways)]
        return {"folder": str(self.folder), "query": "files", "topic": self.topic, "way": way}

    @contextmanager
    def child(self, pause: str = "") -> Iterator[psutil.Popen]:
        self.starts += 1
        queries = [self.told(self.starts)]
        with queries_in(self.folder, self.broker, queries, self.starts, pause) as process:
            yield process

    def finish(self) -> None:
        """Work on what is left, and count."""
        self.close()
        with self.child() as process:
            wait_for(self.folder / "done", process)
        self.check()

    def close(self) -> None:
        close(self.streams)

    def check(self) -> None:
        expected = Counter({(row[4], row[9]): n for row, n in JOIN.expected(self.streams).items()})
        found = [json.loads(r.value or b"") for r in read_all(self.broker.servers, [self.topic])]
        assert len(expected) > JOIN.more_than
        assert Counter((row["a_id"], row["b_id"]) for row in found) == expected


class CityStory:
    """A query from Kafka to Kafka; of the orders some are bad."""

    def __init__(self, folder: Path, city: City) -> None:
        folder.mkdir()
        self.folder, self.city, self.bad = folder, city, 0

    def add_more(self) -> None:
        self.city.send(120)
        self.city.produce("orders", [f"bad {self.bad + i}" for i in range(7)])
        self.bad += 7

    def told(self, number: int) -> dict[str, Any]:
        return {"folder": str(self.folder), "query": "city"}

    def close(self) -> None:
        """There is nothing to be done: all rows are joined when they come."""

    def check(self) -> None:
        """What was read, what was put aside and what was written are each there once."""
        assert self.city.matches() == self.city.expected()
        letters = pq.ParquetDataset(self.folder / "letters").read(["value"])
        expected = [f"bad {i}".encode() for i in range(self.bad)]
        assert sorted(letters.column("value").to_pylist()) == sorted(expected)


@pytest.fixture
def story(tmp_path: Path, kafka_broker: Broker, topic: str) -> Story:
    return Story(tmp_path / "files", kafka_broker, topic)


def kill_at(story: Story, points: tuple[str, ...], *, next_batch: bool = True) -> None:
    """One kill at each point, in processes of their own: in a batch that nobody has begun, or
    wherever the point comes first, as when the one before is delivered again."""
    for number, point in enumerate(points):
        batch, is_rare = last_commit(story.folder) + 2, point in RARE
        story.add(batch + (8 if is_rare else 2) - len(story.streams[0].tables))
        marker = f"marker-{number}-{next_batch}-{point}"
        at = f"{point}@{batch}" if next_batch and not is_rare else point
        with story.child(f"{at}={marker}") as process:
            wait_for(story.folder / "checkpoint" / "skewless" / marker, process)
            assert not (story.folder / "done").exists()
            kill_tree(process)


def test_kills_at_every_point_of_delivery(story: Story) -> None:
    kill_at(story, DELIVERY)
    kill_at(story, DELIVERY, next_batch=False)
    story.finish()


def test_kills_at_every_other_point(story: Story) -> None:
    kill_at(story, tuple(point for point in POINTS if point not in NEVER_REACHED))
    story.finish()


@pytest.mark.parametrize("part", range(PARTS))
def test_kills_at_random_moments(story: Story, city: City, tmp_path: Path, part: int) -> None:
    """Of a driver with all its tasks, until both of its queries have seen some while they worked;
    every third time of the broker, too, which comes back. The seed replays them, as far as a
    machine can."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    chance, number = random.Random(seed), 0
    kills: dict[Story | CityStory, int] = {story: 0, CityStory(tmp_path / "city", city): 0}
    while waiting := [one for one, count in kills.items() if count < KILLS]:
        for one in waiting:
            one.add_more()
        number += 1
        folders, queries = [one.folder for one in waiting], [one.told(number) for one in waiting]
        with queries_in(tmp_path, city.broker, queries, number) as process:
            wait_for_a_moment(process, tmp_path / "child.log", folders, chance)
            if chance.random() < 1 / 3:
                city.broker.kill()
                city.broker.start()
                time.sleep(chance.random() * AFTER_S)
            has_ended = process.poll() is not None
            done = [one for one in waiting if (one.folder / "done").exists()]
            assert len(done) == len(waiting) or not has_ended, "the child has failed"
            kill_tree(process)
        for one in waiting:
            kills[one] += one not in done
        print("killed after batches", [last_commit(one.folder) for one in kills])
    for one in kills:
        one.close()
    with queries_in(tmp_path, city.broker, [one.told(0) for one in kills], 0) as process:
        wait_for(tmp_path / "done", process)
    for one in kills:
        one.check()


@pytest.mark.parametrize("point", ["delivery.produced", "delivery.one"])
def test_tasks_that_are_killed_run_again(story: Story, point: str) -> None:
    """Python workers in the midst of a delivery: Spark repeats their tasks."""
    story.add(3)
    story.starts = 0  # so that tasks deliver
    marker = f"marker-{point}"
    with story.child(f"{point}={marker}") as process:
        wait_for(story.folder / "checkpoint" / "skewless" / marker, process)
        for worker in process.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # they end with the one that has forked them
                if "pyspark.daemon" in " ".join(worker.cmdline()):
                    worker.kill()
        wait_for(story.folder / "done", process)
    story.finish()


def test_a_broker_that_is_killed_in_mid_query(story: Story) -> None:
    story.add(6)
    with story.child("delivery.begun@2=marker-broker") as process:
        wait_for(story.folder / "checkpoint" / "skewless" / "marker-broker", process)
        kill_tree(process)
    with story.child() as process:
        while last_commit(story.folder) < 3:
            assert process.poll() is None
            time.sleep(0.01)
        story.broker.kill()
        story.broker.start()
        wait_for(story.folder / "done", process)
    story.finish()
