"""A query of a kit with its checkpoint and output on the cluster's store, and what must come of it.

Inputs are files that all hosts see. Results are read from the store's disk: what skewless and Spark
say of the store is under test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.machines import Cluster, Driver, wait_until
from tests.spark.killed import files_read
from tests.spark.query_kits import QueryKit, add_batches, close
from tests.spark.support import FileStream, assert_same, read_parquet

PROGRAM = Path(__file__).parent / "queries.py"
PATIENCE_S = 1200.0  # two busy cores may be all there is


@dataclass
class Story:
    """One query; its name is that of its folders."""

    cluster: Cluster
    kit: QueryKit
    name: str
    streams: list[FileStream] = field(init=False)

    def __post_init__(self) -> None:
        self.streams = self.kit.sources(self.inputs)

    @property
    def inputs(self) -> Path:
        return self.cluster.folder / "inputs" / self.name

    @property
    def stored(self) -> Path:
        return self.cluster.bucket / self.name

    def way(self, number: int = 0) -> str:
        ways = list(self.kit.ways)
        return ways[number % len(ways)]

    def told(self, number: int = 0) -> dict[str, str]:
        """What the program is told of it."""
        return {
            "name": self.name,
            "kit": self.kit.name,
            "way": self.way(number),
            "inputs": str(self.inputs),
            "checkpoint": self.cluster.uri(f"{self.name}/checkpoint"),
            "out": self.cluster.uri(f"{self.name}/out"),
        }

    def committed(self) -> int:
        """The last batch that Spark has committed, -1 before the first."""
        names = (file.name for file in (self.stored / "checkpoint" / "commits").glob("*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    @property
    def pending(self) -> int:
        """Files of each stream that wait or are at work."""
        batch = self.committed()
        read = -1 if batch < 0 else files_read(self.stored / "checkpoint", batch)
        return len(self.streams[0].tables) - 1 - read

    def check(self) -> None:
        expected = self.kit.expected(self.streams)
        assert expected.total() > self.kit.more_than // 2  # as kits say of more batches
        assert_same(read_parquet(self.stored / "out"), expected)


@dataclass(frozen=True)
class Run:
    """A driver at work on some stories."""

    cluster: Cluster
    driver: Driver
    stories: Sequence[Story]
    signs: Path

    @property
    def has_started(self) -> bool:
        return (self.signs / "started").exists()

    def failures(self) -> dict[str, str]:
        return {file.stem: file.read_text() for file in self.signs.glob("*.failed")}

    def wait_for_start(self) -> None:
        self._wait(lambda: self.has_started, "a session")

    def wait_for_commit(self, batch: int) -> None:
        """Of every query."""
        self._wait(lambda: all(s.committed() >= batch for s in self.stories), f"batch {batch}")

    def wait(self) -> dict[str, str]:
        """Until all queries have ended; the errors of those that failed."""
        self._wait(lambda: not self.driver.is_alive, "the end", died=False)
        ended = {file.stem for file in self.signs.glob("*.done")} | set(self.failures())
        assert ended == {story.name for story in self.stories}, self.driver.last_words()
        return self.failures()

    def finish(self) -> None:
        """All queries end well, and their results are right."""
        assert self.wait() == {}
        for story in self.stories:
            story.check()

    def _wait(self, condition: Any, what: str, died: bool = True) -> None:
        def done() -> bool:
            if condition():
                return True
            assert not (died and not self.driver.is_alive), self.driver.last_words()
            assert not (died and self.failures()), self.failures()
            return False

        wait_until(done, what, self.cluster, PATIENCE_S)


@contextmanager
def running(
    cluster: Cluster, stories: Sequence[Story], host: str = "driver", number: int = 0, **more: Any
) -> Iterator[Run]:
    """A driver on these stories. Whatever is left of it at the end is killed."""
    signs = cluster.folder / f"signs-{host}"
    signs.mkdir(exist_ok=True)
    for sign in signs.iterdir():
        sign.unlink()
    queries = [story.told(number) for story in stories]
    config = {"signs": str(signs), "queries": queries, **more}
    with cluster.driver(PROGRAM, config, host) as driver:
        yield Run(cluster, driver, stories, signs)


def stories_of(
    cluster: Cluster, kits: Sequence[QueryKit], name: str, batches: int, closed: bool = True
) -> list[Story]:
    """Queries of a test, with so many batches."""
    stories = [Story(cluster, kit, f"{name}-{number}") for number, kit in enumerate(kits)]
    for story in stories:
        add_batches(story.streams, batches)
        if closed:
            close(story.streams)
    return stories
