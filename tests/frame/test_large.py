"""More text than an Arrow array can hold: columns of 4 GiB, rows of 64 MiB. One such test needs up
to 4 GB of memory and 10 GB of disk. Results are counted and let go, as a sink would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skewless.arrays.columns import BATCH_BYTES
from skewless.engine.batch import run_batch
from skewless.engine.executor import Collecting, InProcessExecutor
from skewless.engine.instance import StepTask
from skewless.engine.lifecycle import Query
from skewless.engine.pipeline import Node, Pipeline
from skewless.operators.aggregate.accumulators.named import NAMED
from skewless.operators.aggregate.operator import AggregateOperator
from skewless.operators.aggregate.spec import Aggregate, AggregateSpec
from skewless.operators.aggregate.windows import Window
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from skewless.placement.grouping import BatchAware
from skewless.state import compaction
from skewless.state.cache import SegmentCache
from tests.frame import kits, streams
from tests.frame.kits import KITS
from tests.frame.specs import side_spec
from tests.frame.streams import FAR_S, SECOND_US

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PLAIN = streams.schema_of
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def with_text(name: str) -> pa.Schema:
    return PLAIN(name).append(pa.field(f"{name}_s", pa.string()))


@dataclass(frozen=True)
class Texts:
    """Rows of one key and time, made when they are read: texts of so many bytes, which begin with
    the numbers of their rows. Few of them are in memory at once."""

    name: str
    rows: range
    size: int
    second: int = 20
    key: int | None = 1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        most = max(1, 32 * MIB // self.size)
        for begin in range(self.rows.start, self.rows.stop, most):
            yield self._batch(range(begin, min(begin + most, self.rows.stop)))

    def _batch(self, rows: range) -> pa.RecordBatch:
        texts = np.full((len(rows), self.size), ord("x"), np.uint8)
        numbers = np.array([f"{n:08d}".encode() for n in rows], "S8")
        texts[:, :8] = numbers.view(np.uint8).reshape(-1, 8)
        offsets = np.arange(len(rows) + 1, dtype=np.int32) * self.size
        text = pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(texts))
        count = len(rows)
        value = None if self.key is None else 0.0
        values = [[self.key] * count, [self.second * SECOND_US] * count, [value] * count, rows]
        arrays = [pa.array(v, f.type) for v, f in zip(values, PLAIN(self.name), strict=True)]
        return pa.RecordBatch.from_arrays([*arrays, text], schema=with_text(self.name))


def small(name: str, rows: int, **more: Any) -> Texts:
    return Texts(name, range(rows), 8, **more)


def ending(name: str) -> Texts:
    """A row that nothing matches, which says that time has passed."""
    return Texts(name, range(1), 8, second=FAR_S, key=None)


@dataclass
class Counting(InProcessExecutor):
    """Looks at results and lets them go. `numbers` are those of the rows whose texts came."""

    texts: Sequence[str] = ()
    emitted: int = 0
    numbers: dict[str, list[int]] = field(default_factory=dict)

    def rows(self, task: StepTask, node: Node) -> list[list[pa.RecordBatch]]:
        for number in range(task.step.instances):
            for batch in task.rows_of(number):
                assert batch.num_rows == 1 or batch.nbytes <= 1.01 * BATCH_BYTES
                self.emitted += batch.num_rows
                for name in self.texts:
                    found = pc.utf8_slice_codeunits(batch[name], 0, 8).cast(pa.int64())
                    self.numbers.setdefault(name, []).extend(found.to_pylist())
        return []


@dataclass
class Run:
    """A pipeline at work; `texts` are columns of its results that are looked at."""

    root: Path
    pipeline: Pipeline
    texts: Sequence[str] = ()
    batches: int = 0

    def __post_init__(self) -> None:
        self.query = Query(str(self.root), self.pipeline)
        self.query.open()

    def batch(self, *streams: Sequence[Texts]) -> Counting:
        """One batch: the tasks of every stream."""
        executor = Counting(self.pipeline, str(self.root), streams, texts=self.texts)  # type: ignore[arg-type]
        run_batch(self.query, executor, Collecting(), self.batches)
        self.batches += 1
        return executor

    def segments(self) -> list[int]:
        return [file.stat().st_size for file in (self.root / "segments").iterdir()]


@pytest.fixture(autouse=True)
def _streams_have_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kits, "schema_of", with_text)
    # Of one test only: files that are mapped stay on the disk.
    monkeypatch.setattr("skewless.engine.instance.CACHE", SegmentCache())


def test_columns_of_4_gib(tmp_path: Path) -> None:
    """Ingest, a merge of new runs, many pairs of one row, and a compaction, of 2 GiB and of 4."""
    size, each = 64 * KIB, 8 * KIB
    run = Run(tmp_path, KITS["join"].pipeline(kits.PLACED[0]), ["a_s"])
    tasks = [Texts("a", range(n * each, (n + 1) * each), size) for n in range(8)]
    early, late = tasks[:4], tasks[4:]
    once, twice = [1] * (4 * each), [2] * (4 * each)  # new rows meet old ones of b, too
    with mock.patch.object(compaction, "FAN_IN", 2):
        assert run.batch(early, []).emitted == 0
        assert max(run.segments()) < 300 * MIB
        for new, expected in (([], once), (late, once + twice), ([], once + once)):
            found = run.batch(new, [small("b", 1)])
            assert found.emitted == sum(expected)
            assert np.bincount(found.numbers["a_s"]).tolist() == expected
    assert sum(run.segments()) > 4 * GIB
    assert max(run.segments()) < 300 * MIB


MANY = 66  # times 64 MiB: more than 4 GiB
MEETING = ("join3", "similarity_join by", "join", "left join", "full join", "asof_join")
WITH_LARGE_ROWS = [name for name in KITS if name.startswith(MEETING) and "→" not in name]


@pytest.mark.parametrize("name", WITH_LARGE_ROWS)
def test_many_rows_meet_one_of_64_mib(name: str, tmp_path: Path) -> None:
    kit = KITS[name]
    last = kit.streams[-1]
    run = Run(tmp_path, kit.pipeline(kit.setups[0]), [f"{last}_s", f"{kit.streams[0]}_s"])
    *few, large = kit.streams
    first = [[small(few[0], MANY)], *([small(name, 1)] for name in few[1:])]
    found = [run.batch(*first, [Texts(large, range(1), 64 * MIB)])]
    found.append(run.batch(*([ending(name)] for name in kit.streams)))
    assert sum(f.emitted for f in found) == MANY
    numbers = [n for f in found for n in f.numbers.get(f"{last}_s", [])]
    assert numbers == [0] * MANY
    assert sorted(n for f in found for n in f.numbers.get(f"{few[0]}_s", [])) == list(range(MANY))


def largest_text(key: str) -> AggregateOperator:
    largest = NAMED["max"]([pa.string()])
    spec = AggregateSpec(
        side_spec(with_text("a"), [key], "a_t"),
        (Aggregate("n", NAMED["count"]([]), ()), Aggregate("largest", largest, (4,))),
        Window(4 * SECOND_US, 2 * SECOND_US),
    )
    return AggregateOperator(spec, BatchAware(), 2, "append")


def first_of(key: str) -> DeduplicateOperator:
    side = side_spec(with_text("a"), [key], "a_t")
    return DeduplicateOperator(DeduplicateSpec(side, 10 * SECOND_US), 2)


OF_ONE_STREAM: dict[str, tuple[Callable[[], Any], str, int]] = {
    "aggregate by a number": (partial(largest_text, "a_k"), "largest", 2),
    "aggregate by the text": (partial(largest_text, "a_s"), "largest", 2 * MANY),
    "deduplicate by a number": (partial(first_of, "a_k"), "a_s", 1),
    "deduplicate by the text": (partial(first_of, "a_s"), "a_s", MANY),
}


@pytest.mark.parametrize("name", OF_ONE_STREAM)
def test_many_rows_of_64_mib(name: str, tmp_path: Path) -> None:
    """Each comes in two batches, so that what is stored of them is compacted, too."""
    made, text, expected = OF_ONE_STREAM[name]
    run = Run(tmp_path, Pipeline.of(made()), [text])
    halves = [range(MANY // 2), range(MANY // 2, MANY)]
    with mock.patch.object(compaction, "FAN_IN", 2):
        found = [run.batch([Texts("a", half, 64 * MIB) for half in halves]) for _ in range(2)]
        found.append(run.batch([ending("a")]))
    assert sum(f.emitted for f in found) == expected
    numbers = sorted({n for f in found for n in f.numbers[text]}) if expected else []
    assert numbers == {1: [0], 2: [MANY - 1]}.get(expected, list(range(MANY)))
