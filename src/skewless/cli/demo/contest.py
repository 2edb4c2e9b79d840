"""The contest: every batch is done by one join after the other, so that each has the whole machine
and all get the same rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skewless.cli.demo.folder import DemoFolder, Plan
from skewless.cli.demo.gate import Gate
from skewless.cli.demo.joins import Join
from skewless.cli.demo.screen import Screen
from skewless.cli.demo.turns import Turns
from skewless.cli.interrupt import StopRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Contest:
    """Joins that do the batches of a plan, as far as they have not done them before."""

    spark: SparkSession
    plan: Plan
    folder: DemoFolder
    joins: Sequence[Join]
    gate: Gate
    turns: Turns
    screen: Screen
    request: StopRequest
    _running: dict[str, StreamingQuery] = field(default_factory=dict)

    def run(self) -> None:
        """Until all is done, or one is to stop. The failure of a query is raised."""
        try:
            for batch in range(self.plan.batches):
                for join in in_turn(self.joins, batch):
                    if self.turns.done(join.name) <= batch:
                        self._take(join, batch)
                    if self.request.signal is not None:
                        return
            for name, query in self._running.items():
                self.gate.let_go(name)
                query.awaitTermination()
        finally:
            for name, query in self._running.items():
                self.gate.let_go(name)  # Spark waits for a query's thread to end
                query.stop()

    def _take(self, join: Join, batch: int) -> None:
        self.screen.working(join.name, batch)
        begun, cold = time.monotonic(), join.name not in self._running
        self.gate.want(join.name, batch)
        if cold:
            self._running[join.name] = join.start(self.spark, self.plan, self.folder)
        query = self._running[join.name]
        arrival = self.gate.wait(
            join.name, batch, lambda: query.isActive and self.request.signal is None
        )
        if arrival is not None:
            self.turns.add(join.turn(arrival, arrival.at - begun, cold=cold))
            self.screen.turn(self.turns.of(join.name)[-1])
        elif self.request.signal is None:
            query.awaitTermination()  # raises its failure; without one, it was done before


def in_turn(joins: Sequence[Join], batch: int) -> list[Join]:
    """Another one begins each time: nobody always comes after the same."""
    first = batch % len(joins)
    return [*joins[first:], *joins[:first]]
