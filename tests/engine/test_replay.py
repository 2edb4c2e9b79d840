"""A batch that is committed, and comes again: its streams are read to the end, for the sake of whom
they come from, and nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from skewless.engine.batch import run_batch
from skewless.engine.executor import Collecting, InProcessExecutor
from tests.crashes import CrashError, assert_nothing_is_left_over, crash_at
from tests.frame.kits import KITS
from tests.frame.streams import busy
from tests.queries import PipelineRun


class Counted:
    """A task of a stream that counts how often it is read, and to the end."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows, self.ended = rows, 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield self._rows
        self.ended += 1


@pytest.mark.parametrize("point", ["commit.written", "publish.done", "cleanup.done"])
@pytest.mark.parametrize("name", ["join", "aggregate", "deduplicate", "join → aggregate"])
def test_a_batch_that_is_done_reads_its_streams_once(name: str, point: str, tmp_path: Path) -> None:
    kit = KITS[name]
    run = PipelineRun(tmp_path / "state", kit.pipeline(kit.setups[0]), tmp_path / "out")
    tasks = [[Counted(s.batch(0, 9)), Counted(s.batch(9, 20))] for s in busy(*kit.streams)]
    every = [task for stream in tasks for task in stream]
    with pytest.raises(CrashError), crash_at(point):
        run.run_streams(0, tasks)  # type: ignore[arg-type]
    assert [task.ended for task in every] == [1] * len(every)
    run.start(kit.pipeline(kit.setups[1]))
    before = run.query.last, run.published_table()
    sink = Collecting()
    executor = InProcessExecutor(run.pipeline, run.root, tasks)  # type: ignore[arg-type]
    assert run_batch(run.query, executor, sink, 0) is None
    assert [task.ended for task in every] == [2] * len(every)
    assert sink.batches == {} and executor.ran == []
    assert (run.query.last, run.published_table()) == before
    assert_nothing_is_left_over(run)
