"""SIGKILL for drivers, executors and the store, at random moments, over all operators.

How many, and how to replay them: `tests/kills.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.cluster.machines import Cluster
from tests.cluster.stories import Run, Story, running, stories_of
from tests.kills import SEED, kills_each, replay
from tests.spark.query_kits import COMPOSED, SINGLE, QueryKit, add_batches, close

VICTIMS = ("driver", "executor", "store")
MOMENT_S, OUTAGE_S = 10.0, 3.0
SHARING = 6  # as many queries share a driver as its memory can hold

KITS = (*SINGLE, *COMPOSED)
GROUPS = [KITS[at : at + SHARING] for at in range(0, len(KITS), SHARING)]
KILLS = kills_each(len(GROUPS), otherwise=20)


@dataclass(frozen=True)
class Kill:
    """Who is killed, how long after its new batches have come, and for how long the store is away
    or which of the workers loses its executor."""

    victim: str
    moment_s: float
    outage_s: float
    worker: int

    @staticmethod
    def plan(seed: int, count: int) -> list[Kill]:
        chance = random.Random(seed)
        return [
            Kill(
                chance.choice(VICTIMS),
                round(chance.uniform(0, MOMENT_S), 3),
                round(chance.uniform(0, OUTAGE_S), 3),
                chance.randrange(100),
            )
            for _ in range(count)
        ]


@dataclass
class Mortal:
    """Stories whose driver is started again whenever it is dead."""

    cluster: Cluster
    stories: Sequence[Story]
    stack: ExitStack = field(default_factory=ExitStack)
    run: Run | None = None
    starts: int = 0
    errors: list[str] = field(default_factory=list)

    def alive(self) -> Run:
        """The driver, which has begun. A query that has failed is started again with all others,
        as its owner would do."""
        if self.run is not None and (failed := self.run.failures()):
            self.errors += failed.values()
            self.end()
        if self.run is None:
            context = running(self.cluster, self.stories, number=self.starts, forever=True)
            self.run = self.stack.enter_context(context)
            self.starts += 1
            self.run.wait_for_start()
        return self.run

    def end(self) -> None:
        self.stack.close()
        self.run = None

    def die(self, kill: Kill) -> None:
        self.alive()
        time.sleep(kill.moment_s)
        if kill.victim == "driver":
            self.end()
        elif kill.victim == "store":
            self.cluster.kill_store()
            time.sleep(kill.outage_s)
            self.cluster.start_store()
        else:
            workers = self.cluster.workers
            self.cluster.kill_executor(workers[kill.worker % len(workers)])

    def finish(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while any(story.pending for story in self.stories):
            run = self.alive()
            assert time.monotonic() < deadline, run.driver.last_words()
            time.sleep(0.5)
        self.end()


@pytest.fixture
def mortal(cluster: Cluster, kits: Sequence[QueryKit]) -> Iterator[Mortal]:
    stories = stories_of(cluster, kits, f"mortal-{KITS.index(kits[0])}", batches=3, closed=False)
    mortal = Mortal(cluster, stories)
    yield mortal
    mortal.end()


@pytest.mark.timeout(3600 + 60 * KILLS)
@pytest.mark.parametrize("kits", GROUPS, ids=lambda kits: ", ".join(kit.name for kit in kits))
def test_random_kills(mortal: Mortal, kits: Sequence[QueryKit]) -> None:
    seed = SEED + KITS.index(kits[0])
    plan = Kill.plan(seed, KILLS)
    print(replay(), *plan, sep="\n")
    in_mid_batch = 0
    for kill in plan:
        for story in mortal.stories:
            add_batches(story.streams, 2)
        mortal.die(kill)
        in_mid_batch += any(story.pending for story in mortal.stories)
    for story in mortal.stories:
        close(story.streams)
    mortal.finish(patience_s=600)
    print(f"{len(plan)} kills, {in_mid_batch} in mid-batch, {mortal.starts} drivers; failed on the "
          f"way: {mortal.errors}")  # fmt: skip
    for story in mortal.stories:
        story.check()
    assert in_mid_batch >= len(plan) / 2
