"""Kills of the driver, of its tasks and of the broker: a reader that trusts only committed
transactions gets every row once."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from skewless.failpoints import DELIVERY, POINTS
from skewless.state import delivery
from tests.kafka.broker import Broker
from tests.kafka.city import City
from tests.kafka.kill_child import run_all
from tests.kafka.reading import read_all
from tests.spark.killed import last_commit, small
from tests.spark.processes import child, kill_tree, wait_for, wait_until
from tests.spark.query_kits import JOIN, add_batches, close
from tests.spark.support import FileStream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(7200),
    pytest.mark.usefixtures("early_compaction"),
]

SCRIPT = Path(__file__).parent / "kill_child.py"
CITY_SCRIPT = Path(__file__).parent / "city_child.py"
RARE = ("compaction.written",)  # not reached in every batch
NEVER_REACHED = ("publish.begun", "publish.one", "publish.done")
KILLS = int(
    os.environ.get("SKEWLESS_KAFKA_KILLS")
    or (50 if os.environ.get("SKEWLESS_EXAMPLES") in ("most", "all") else 10)
)
MOMENT_S = 20.0


class Story:
    """A query on one checkpoint that is killed, goes on, and is counted in the end."""

    def __init__(self, folder: Path, broker: Broker, topic: str) -> None:
        self.folder, self.broker, self.topic = folder, broker, topic
        self.streams: list[FileStream] = JOIN.sources(folder)
        self.starts = 0

    def add(self, batches: int) -> None:
        add_batches(self.streams, batches)

    @contextmanager
    def child(self, pause: str = "") -> Iterator[psutil.Popen]:
        """A process that works on what there is; every other one hands small batches to tasks."""
        self.starts += 1
        config = {"folder": str(self.folder), "queries": [{"folder": str(self.folder)}]}
        ways = list(JOIN.ways)
        told = {"servers": self.broker.servers, "topic": self.topic}
        told["way"] = ways[self.starts % len(ways)]
        paused = {"SKEWLESS_PAUSE_AT": pause} if pause else {}
        with child(config | told, SCRIPT, **paused, **small(self.starts)) as process:
            wait_for(self.folder / "started", process)
            yield process

    def finish(self, spark: SparkSession) -> None:
        """Work on what is left in this process, and count."""
        close(self.streams)
        run_all(spark, self.folder, self.broker.servers, self.topic, "Hash")
        expected = Counter({(row[4], row[9]): n for row, n in self._expected().items()})
        found = [json.loads(r.value or b"") for r in read_all(self.broker.servers, [self.topic])]
        assert len(expected) > JOIN.more_than
        assert Counter((row["a_id"], row["b_id"]) for row in found) == expected

    def _expected(self) -> Counter[tuple[int, ...]]:
        return JOIN.expected(self.streams)


@pytest.fixture
def story(
    tmp_path: Path, kafka_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> Story:
    monkeypatch.setattr(delivery, "PART_BYTES", 1)
    return Story(tmp_path, kafka_broker, topic)


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


def test_kills_at_every_point_of_delivery(story: Story, spark: SparkSession) -> None:
    kill_at(story, DELIVERY)
    kill_at(story, DELIVERY, next_batch=False)
    story.finish(spark)


def test_kills_at_every_other_point(story: Story, spark: SparkSession) -> None:
    kill_at(story, tuple(point for point in POINTS if point not in NEVER_REACHED))
    story.finish(spark)


def test_kills_at_random_moments(story: Story, spark: SparkSession) -> None:
    """Of the driver with all its tasks; every third time of the broker, too, which comes back."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    chance = random.Random(seed)
    kills = 0
    while kills < KILLS:
        story.add(max(0, last_commit(story.folder) + 9 - len(story.streams[0].tables)))
        with story.child() as process:
            time.sleep(chance.random() * MOMENT_S)
            if chance.random() < 1 / 3:
                story.broker.kill()
                story.broker.start()
                time.sleep(chance.random() * MOMENT_S)
            assert (story.folder / "done").exists() or process.poll() is None, "it has failed"
            kills += not (story.folder / "done").exists()
            kill_tree(process)
        print("killed after batch", last_commit(story.folder))
    story.finish(spark)


@pytest.mark.parametrize("point", ["delivery.produced", "delivery.one"])
def test_tasks_that_are_killed_run_again(story: Story, spark: SparkSession, point: str) -> None:
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
    story.finish(spark)


def test_a_broker_that_is_killed_in_mid_query(story: Story, spark: SparkSession) -> None:
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
    story.finish(spark)


def wait_for_a_commit(folder: Path, process: psutil.Popen) -> None:
    before, done = last_commit(folder), folder / "done"
    wait_until(lambda: last_commit(folder) > before or done.exists(), process, folder / "child.log")


def test_kills_at_random_moments_from_kafka_to_kafka(city: City, tmp_path: Path) -> None:
    """Of the driver, and now and then of the broker: what was read, what was put aside and what was
    written are each there once."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed of the moments is {seed}")
    chance, kills, starts, bad = random.Random(seed), 0, 0, 0
    config = {"folder": str(tmp_path), "queries": [], "servers": city.broker.servers}
    done = tmp_path / "done"
    while True:
        if kills < KILLS:
            city.send(120)
            city.produce("orders", [f"bad {bad + i}" for i in range(7)])
            bad += 7
        starts += 1
        with child(config, CITY_SCRIPT, **small(starts)) as process:
            wait_for(tmp_path / "started", process)
            if kills >= KILLS:
                wait_for(done, process)
                break
            if chance.random() < 2 / 3:  # in the midst of batches, however slow the machine is
                wait_for_a_commit(tmp_path, process)
            time.sleep(chance.random() * MOMENT_S / 4)
            if chance.random() < 1 / 3:
                city.broker.kill()
                city.broker.start()
            assert done.exists() or process.poll() is None, (tmp_path / "child.log").read_text()
            kills += not done.exists()
            kill_tree(process)
        print("killed after batch", last_commit(tmp_path))
    assert city.matches() == city.expected()
    found = pq.ParquetDataset(tmp_path / "letters").read(["value"]).column("value").to_pylist()
    assert sorted(found) == sorted(f"bad {i}".encode() for i in range(bad))
