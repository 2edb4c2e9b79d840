"""A query as a tree of operators: whose results go where. One operator alone is a pipeline, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays.casting import cast
from skewless.arrays.columns import Columns, pieces_of_batch
from skewless.arrays.hashing import HASH_FUNCTION
from skewless.arrays.keys import HIDDEN_BY
from skewless.engine.ahead import AHEAD, NotAhead
from skewless.engine.clock import NO_RULES, ClockRules, noted_moment
from skewless.engine.exchange import Homes, MergeTask, Outbox, Packet
from skewless.engine.hosts import claim
from skewless.engine.operator import Arrival, Coordinator, IngestContext, Input, Operator
from skewless.expressions import Shape
from skewless.state.epochs import with_newest_epoch
from skewless.state.files import Folder
from skewless.state.hiding import salt_of
from skewless.state.parts import is_far


@dataclass(frozen=True)
class Feed:
    """Where the rows of one input of an operator come from: a stream, by its number, or another
    operator, by name. `columns` are those that are taken. A stream's watermark moves in steps of
    `tick_us`; `rules` are what is asked of it by the clock. Rows of a `source` operator lie at most
    `lag_us` behind its watermark. `shape` is what is done to rows in between, for an
    executor; `shapes` are the same on Arrow, where that can be."""

    columns: tuple[int, ...]
    stream: int | None = None
    tick_us: int = 1
    source: str | None = None
    lag_us: int = 0
    shape: Any = ()
    shapes: tuple[Shape, ...] | None = None
    rules: ClockRules = NO_RULES


@dataclass(frozen=True)
class Node:
    """An operator in its place; one feed per input."""

    name: str
    operator: Operator
    feeds: tuple[Feed, ...]

    def fed(self) -> Iterator[tuple[Input, Feed]]:
        return zip(self.operator.inputs, self.feeds, strict=True)

    def ingest(self, name: str, folder: Folder, *, hides_keys: bool = False) -> IngestTask:
        """The task that takes the rows of an input in."""
        [feed] = [feed for i, feed in self.fed() if i.name == name]
        exchanges = bool(self.operator.exchanged()) and is_far(folder)
        buckets = self.operator.buckets if exchanges else 0
        ahead_us = feed.rules.max_ahead_us
        return IngestTask(self.operator, self.name, name, folder, ahead_us, buckets, hides_keys)


@dataclass(frozen=True)
class IngestTask:
    """What a task does that takes rows of an input in. It is sent along with the operator, but not
    with its feeds: what shapes rows before may be known to the driver only. Rows that are more than
    `max_ahead_us` ahead of the batch's moment are put aside. With `buckets`, rows are sent on as
    packets of so many ranges. Who plans before the state is opened knows no epoch; then the
    newest is taken, whose files stay longest."""

    operator: Operator
    operator_name: str
    name: str
    folder: Folder
    max_ahead_us: int | None = None
    buckets: int = 0
    hides_keys: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[Arrival | Packet]:
        folder = self.folder_now()
        HIDDEN_BY.set(salt_of(folder) if self.hides_keys else None)
        schema = self.operator.input(self.name).schema
        outbox = Outbox(self.operator_name, self.name, self.buckets) if self.buckets else None
        context = IngestContext(folder, self.operator_name, task, outbox)
        pieces = (piece for batch in batches for piece in pieces_of_batch(batch))
        rows = (as_schema(piece, schema) for piece in pieces)
        passing = self._not_ahead(context)
        kept = rows if passing is None else passing.rows(rows)
        claim()  # whatever it is, it is not of this task
        for arrival in self.operator.ingest(self.name, kept, context):
            yield replace(arrival, operator=self.operator_name, traffic=claim())
            yield from () if outbox is None else outbox.taken()
        if passing is not None and passing.put_aside:
            aside = passing.put_aside
            yield Arrival(self.name, aside, dropped={AHEAD: aside}, operator=self.operator_name)

    def folder_now(self) -> Folder:
        return self.folder if self.folder.epoch else with_newest_epoch(self.folder)

    def _not_ahead(self, context: IngestContext) -> NotAhead | None:
        """What rows have to pass. The moment is there in every batch that counts; one that was
        committed before is only read once more."""
        time = self.operator.input(self.name).time
        moment = None if self.max_ahead_us is None else noted_moment(context.folder)
        if time is None or moment is None or self.max_ahead_us is None:
            return None
        return NotAhead(time, moment.us + self.max_ahead_us)


def as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in the types that segments are written in: a session decides on the time zone
    and on large strings, the state must not depend on it."""
    if batch.schema.types == schema.types:
        return batch.rename_columns(schema.names) if batch.schema.names != schema.names else batch
    # Arrow casts no large strings that begin beyond 2 GiB, however small: a piece is copied first.
    sliced = any(c.offset for c in batch.columns)
    given = Columns(batch.columns).take(np.arange(batch.num_rows)) if sliced else batch.columns
    columns = [cast(c, f.type) for c, f in zip(given, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class Pipeline:
    """Operators in the order in which they work: those below first, the last one gives the
    result."""

    nodes: tuple[Node, ...]

    @staticmethod
    def of(operator: Operator) -> Pipeline:
        """One operator, whose inputs are streams."""
        feeds = tuple(
            Feed(tuple(range(len(i.schema))), stream=number)
            for number, i in enumerate(operator.inputs)
        )
        return Pipeline((Node(operator.kind, operator, feeds),))

    @property
    def root(self) -> Node:
        return self.nodes[-1]

    def above(self, node: Node) -> tuple[Node, Input, Feed]:
        """Which input takes the results of an operator that is not the last."""
        return next(
            (upper, i, feed)
            for upper in self.nodes
            for i, feed in upper.fed()
            if feed.source == node.name
        )

    def streams(self) -> list[tuple[Node, Input, Feed]]:
        """The inputs that are streams, by their numbers."""
        found = [
            (node, i, feed)
            for node in self.nodes
            for i, feed in node.fed()
            if feed.stream is not None
        ]
        return sorted(found, key=lambda item: item[2].stream or 0)

    @property
    def goes_by_clock(self) -> bool:
        """Whether anything is asked of a stream by the clock."""
        return any(feed.rules for _, _, feed in self.streams())

    def homes(
        self, folder: Folder, coordinators: Mapping[str, Coordinator], instances: Mapping[str, int]
    ) -> Homes:
        """Where the rows of the next batch are to go, if they are exchanged; so many instances had
        the last."""
        if not is_far(folder):
            return Homes()
        those = [(n.name, n.operator.buckets) for n in self.nodes if n.operator.exchanged()]
        return Homes(
            {n: (coordinators[n].homes(b, instances[n]), instances[n]) for n, b in those},
            {n: coordinators[n].homes_apart(instances[n]) for n, _ in those},
        )

    def merging(self, folder: Folder) -> MergeTask:
        """The task that puts packets together."""
        return MergeTask({node.name: node.operator for node in self.nodes}, folder)

    def fingerprint(self) -> dict[str, str]:
        """What a checkpoint is tied to."""
        facts = {"hash function": HASH_FUNCTION}
        if len(self.nodes) == 1:
            return self.root.operator.fingerprint() | facts
        kinds = " → ".join(node.name for node in self.nodes)
        for node in self.nodes:
            of_node = node.operator.fingerprint() | _sources(node)
            facts |= {f"{self.prefix_of(node)}{fact}": value for fact, value in of_node.items()}
        return {"kind": kinds} | facts

    def prefix_of(self, node: Node) -> str:
        """What the facts of an operator begin with among those of the query."""
        return "" if len(self.nodes) == 1 else f"{node.name}: "

    def facts_of(self, node: Node, facts: Mapping[str, str]) -> dict[str, str]:
        """The facts of one operator, among those of a query."""
        prefix = self.prefix_of(node)
        return {k.removeprefix(prefix): v for k, v in facts.items() if k.startswith(prefix)}


def _sources(node: Node) -> dict[str, str]:
    return {f"{i.name} is": feed.source for i, feed in node.fed() if feed.source is not None}
