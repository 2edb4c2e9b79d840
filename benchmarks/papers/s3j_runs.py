"""What the S3J paper joins, on the core without Spark: two streams of 2-D values, by the angle."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.similarity_core import (
    CENTERS,
    FIRST_S,
    NEVER,
    STRATEGIES,
    WINDOW_S,
    Counting,
    counted,
)
from skewless.engine.batch import run_batch
from skewless.engine.executor import InProcessExecutor
from skewless.engine.instance import StepTask
from skewless.engine.lifecycle import Query
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import BatchReport, InstanceReport
from skewless.operators.pair import OutputColumn
from skewless.operators.similarity.metrics import METRICS
from skewless.operators.similarity.operator import SimilarityOperator
from skewless.operators.similarity.spec import SimilaritySpec, VectorSide
from skewless.operators.similarity.strategies import S3J, SimilarityStrategy
from skewless.workloads.zipf import EPOCH

Floats = npt.NDArray[np.float64]
EACH = "S3J, a partition per worker"  # as in the paper; S3J() may divide the space further
SAMPLED = 20_000  # rows of either stream, which tell the threshold
SCHEMA = pa.schema(
    [("id", pa.int64()), ("vector", pa.list_(pa.float64())), ("at", pa.timestamp("us", tz="UTC"))]
)


@dataclass(frozen=True)
class Streams:
    """Two streams, of which `selectivity` of all pairs in a window of a minute are alike. Values
    are uniform over the unit square or, `whole`, over the square from -1 to 1, which has all
    directions. `rate` is rows a second of either stream."""

    selectivity: float
    rate: int
    instances: int = 5
    seed: int = 1
    whole: bool = False

    @cached_property
    def threshold(self) -> float:
        """The angle, over pi, that this share of the pairs of a sample is within."""
        directions = []
        for stream in (0, 1):
            values = self._values(np.random.default_rng([self.seed, stream]), SAMPLED)
            directions.append(np.sort(np.arctan2(values[:, 1], values[:, 0]) / np.pi))
        left, right = directions
        right = np.concatenate([right - 2, right, right + 2])  # a turn is 2
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            first = np.searchsorted(right, left - middle, "left")
            alike = int((np.searchsorted(right, left + middle, "right") - first).sum())
            low, high = (middle, high) if alike < self.selectivity * SAMPLED**2 else (low, middle)
        return high

    def spec(self) -> SimilaritySpec:
        window_us = WINDOW_S * 1_000_000
        side = VectorSide(SCHEMA, vector=(1,), time=2, late_us=0)
        output = (OutputColumn("left", 0, "left_id"), OutputColumn("right", 0, "right_id"))
        return SimilaritySpec(side, side, METRICS["angular"], self.threshold, -window_us,
                              window_us, window_us, output)  # fmt: skip

    def batches(self, windows: int, seconds: int) -> Iterator[list[pa.Table]]:
        """The tables of both streams, so many seconds at a time."""
        for number in range(windows * WINDOW_S // seconds):
            yield [self._table(stream, number, seconds) for stream in (0, 1)]

    def _table(self, stream: int, number: int, seconds: int) -> pa.Table:
        rows = self.rate * seconds
        rng = np.random.default_rng([self.seed, 2 + stream, number])
        times = np.sort(rng.integers(seconds * 1_000_000, size=rows))
        begin_us = round((EPOCH.timestamp() + FIRST_S + number * seconds) * 1_000_000)
        ends = np.arange(rows + 1, dtype=np.int32) * 2
        vectors = pa.ListArray.from_arrays(ends, self._values(rng, rows).ravel())
        columns = [pa.array(number * rows + np.arange(rows)), vectors, pa.array(begin_us + times)]
        return pa.table([c.cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)

    def _values(self, rng: np.random.Generator, rows: int) -> Floats:
        return rng.uniform(-1.0 if self.whole else 0.0, 1.0, (rows, 2))


@dataclass(frozen=True)
class Ran:
    """What a strategy did. For every batch and worker: `load`, the paper's (definition 5), is how
    many distances it computed to decide, those from centers included; `met` are the pairs that met
    there, `found` those that were alike."""

    rows: int
    pairs: int
    counted: dict[str, int]
    load: Floats
    met: Floats
    found: Floats
    cpu_s: float
    batch_s: int
    moves: int

    @property
    def duplication(self) -> float:
        """Sets that a row is in."""
        return self.counted.get("memberships", self.rows) / self.rows

    @property
    def looks(self) -> float:
        """Sets that a row looks into."""
        return self.counted["probes"] / self.rows

    @property
    def compared(self) -> float:
        """Pairs whose distance had to decide, for a pair found."""
        return self.counted["compared"] / max(self.pairs, 1)

    @property
    def inner(self) -> float:
        """Pairs that are alike without a comparison, for a pair found: their distance is computed
        here, because it is a column of the result."""
        return self.counted["inner"] / max(self.pairs, 1)

    @property
    def centers(self) -> float:
        """Distances from centers, for a pair found."""
        return sum(self.counted.get(name, 0) for name in CENTERS) / max(self.pairs, 1)

    @property
    def comparisons(self) -> float:
        """As the paper counts: distances from centers, too, but no pairs of one inner set."""
        return self.compared + self.centers

    @property
    def computed(self) -> float:
        """All distances that were computed, for a pair found."""
        return self.compared + self.inner + self.centers

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.cpu_s


class Watching(InProcessExecutor):
    """Keeps what the steps tell that emit nothing: distances from centers, by instance."""

    def reports(self, task: StepTask) -> list[InstanceReport]:
        found = super().reports(task)
        self.told = [*getattr(self, "told", []), *found]
        return found


def named(name: str, workers: int) -> SimilarityStrategy:
    """The strategy of that name, for so many workers."""
    return S3J(partitions=workers, tolerance=NEVER) if name == EACH else STRATEGIES[name]


def run(
    streams: Streams,
    strategy: SimilarityStrategy,
    windows: int = 1,
    batch_s: int = 1,
    strategy_of: Callable[[int], SimilarityStrategy] | None = None,
) -> Ran:
    """Join some windows, a batch every `batch_s` seconds. `strategy_of` gives another strategy for
    some batches, by number."""
    spec, sink = streams.spec(), Counting()
    reports, loads, cpu_s = [], [], 0.0
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as root:
        query, current = None, None
        for number, tables in enumerate(streams.batches(windows, batch_s)):
            now = strategy if strategy_of is None else strategy_of(number)
            begun_s = time.process_time()
            if query is None or now != current:
                operator = SimilarityOperator(spec, now, streams.instances)
                query, current = Query(root, Pipeline.of(operator), keep_history=1), now
                query.open()
            executor = Watching(query.pipeline, query.root, [[t.to_batches()] for t in tables])
            report = run_batch(query, executor, sink, number)
            cpu_s += time.process_time() - begun_s
            assert report is not None
            reports.append(report)
            loads.append(_load(report, executor, streams.instances))
    return Ran(
        rows=sum(r.rows_left + r.rows_right for r in reports),
        pairs=sum(r.matches for r in reports),
        counted=counted(reports),
        load=np.array(loads),
        met=_by_worker(reports, "pairs"),
        found=_by_worker(reports, "matches"),
        cpu_s=cpu_s,
        batch_s=batch_s,
        moves=sum(len(r.decisions) for r in reports),
    )


def _by_worker(reports: Sequence[BatchReport], figure: str) -> Floats:
    return np.array([[getattr(load, figure) for load in r.instances] for r in reports], np.float64)


def _load(report: BatchReport, executor: Watching, instances: int) -> Floats:
    """What each instance computed to decide: distances from the centers of its worksets, and pairs.
    Who takes rows in computes the distances from centroids: that is shared by all, as rows are."""
    mine = np.zeros(instances)
    for told in getattr(executor, "told", []):
        mine[told.load.instance] += told.detail.get("workset_distances", 0)
    shared = sum(report.counters.get(name, 0) for name in CENTERS) - mine.sum()
    pairs = np.array([load.pairs for load in report.instances], np.float64)
    compared, inner = report.counters["compared"], report.counters["inner"]
    return np.asarray(mine + shared / instances + pairs * compared / max(compared + inner, 1))
