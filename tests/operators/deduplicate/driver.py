"""Deduplications without Spark, and a plain loop that says what must come of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skewless.arrays.types import KeyColumn, SideSpec
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from tests.queries import OperatorRun, Streams

TIME = pa.timestamp("us", "UTC")

Row = tuple[Any, ...]  # keys, time in microseconds or None
Batch = Sequence[Sequence[Row]]  # by task


@dataclass(frozen=True)
class Spec:
    """Which rows are duplicates. `kinds` are the types of the key columns."""

    kinds: tuple[pa.DataType, ...]
    within_us: int
    late_us: int

    @property
    def schema(self) -> pa.Schema:
        keys = [(f"k{i}", kind) for i, kind in enumerate(self.kinds)]
        return pa.schema([*keys, ("at", TIME), ("id", pa.int64())])

    @property
    def side(self) -> SideSpec:
        keys = tuple(KeyColumn(i, kind) for i, kind in enumerate(self.kinds))
        return SideSpec(self.schema, keys, (), len(keys), self.late_us)


@dataclass(frozen=True)
class Setup:
    instances: int = 2


@dataclass(frozen=True)
class Outcome:
    """The numbers of the rows that a batch gave, and what it dropped."""

    ids: tuple[int, ...]
    late: int
    null_times: int


class DeduplicateDriver(OperatorRun):
    """Rows are numbered as they come: by batch, task and place."""

    setup_type = Setup
    spec: Spec
    count: int = 0

    def operator(self) -> DeduplicateOperator:
        instances = self.setup.instances
        spec = DeduplicateSpec(self.spec.side, self.spec.within_us, drop_null_times=True)
        return DeduplicateOperator(spec, instances)

    def streams(self, batch: Batch) -> Streams:
        tasks = []
        for rows in batch:
            ids = range(self.count, self.count + len(rows))
            self.count += len(rows)
            columns = [*zip(*rows, strict=True), ids] if rows else [[]] * len(self.spec.schema)
            arrays = [
                pa.array(list(c), f.type) for c, f in zip(columns, self.spec.schema, strict=True)
            ]
            tasks.append([pa.RecordBatch.from_arrays(arrays, schema=self.spec.schema)])
        return [tasks]

    def outcome(self, ran: Any) -> Outcome:
        ids = tuple(sorted(ran.results.column("id").to_pylist()))
        return Outcome(ids, ran.report.late, ran.report.null_times)


def answers(spec: Spec, batches: Sequence[Batch]) -> list[Outcome]:
    """What comes of each batch, by a loop over all rows that have come so far."""
    found, given, count = [], set(), 0
    on_time: list[tuple[int, int, Any]] = []  # time, number, key
    latest, watermark = None, None
    for batch in batches:
        late = null_times = 0
        for *key, time in (row for task in batch for row in task):
            if time is None:
                null_times += 1
            elif watermark is not None and time < watermark:
                late += 1
            else:
                on_time.append((time, count, tuple(map(_comparable, key))))
            latest = max((t for t in (latest, time) if t is not None), default=None)
            count += 1
        watermark = None if latest is None else latest - spec.late_us
        now = {n for n in _firsts(spec, sorted(on_time), watermark) if n not in given}
        given |= now
        found.append(Outcome(tuple(sorted(now)), late, null_times))
    return found


def _comparable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _firsts(spec: Spec, rows: Sequence[tuple[int, int, Any]], until: int | None) -> list[int]:
    last: dict[Any, int] = {}
    found = []
    for time, number, key in rows:
        if until is not None and time > until:
            break
        if key not in last or time > last[key] + spec.within_us:
            last[key] = time
            found.append(number)
    return found
