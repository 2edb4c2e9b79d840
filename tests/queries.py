"""A query without Spark, from its first start on: the one loop, in this process.

What Spark would carry between processes is carried through JSON and pickle here, too. With an
output folder, results are staged as files and published by the commit, so that what a reader of
that folder sees can be compared to the last row.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from skewless.engine.batch import run_batch
from skewless.engine.clock import BatchClock, Clock, wall_clock_us
from skewless.engine.executor import InProcessExecutor, Sink
from skewless.engine.lifecycle import Query
from skewless.engine.operator import Operator
from skewless.engine.output import FileTarget
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import BatchReport
from skewless.files.writing import FileWriting, unsupported
from skewless.state.files import Folder
from skewless.state.publish import Moves, staging_folder

Task = Sequence[pa.RecordBatch]
Streams = Sequence[Sequence[Task]]  # of every stream, the rows of every task


@dataclass
class FileSink(Sink[list[list[pa.RecordBatch]]]):
    """One file per instance, staged; the commit shows them. It keeps what it wrote last."""

    query: Query
    schema: pa.Schema
    output: Path | Folder | None
    result: list[list[pa.RecordBatch]] = field(default_factory=list)
    may_skip: bool = False

    def write(self, result: list[list[pa.RecordBatch]], batch_id: int) -> Moves:
        self.result = result
        if self.output is None:
            return []
        folder = self.query.folder
        staging = staging_folder(folder, batch_id)
        folder.make(staging)
        for number, part in enumerate(result or [[]]):
            # Spark's names are unique, too; and what there is in the end is what is shown.
            staged = f"{staging}/{number}-{uuid.uuid4().hex}.arrow"
            content = pa.BufferOutputStream()
            with pa.ipc.new_file(content, self.schema) as out:
                for batch in part:
                    out.write_batch(batch)
            _write_as_spark_does(folder, staged, content.getvalue())
        return [
            (f"{staging}/{name}", _folder(self.output).path(f"{batch_id}-{name}"))
            for name in folder.list(staging)
        ]


@dataclass(frozen=True)
class Ran:
    """What came of one batch: its results, and its report (none if it was committed before)."""

    results: pa.Table
    report: BatchReport | None


class PipelineRun:
    """A pipeline over a state folder that can be run, crashed and opened again."""

    def __init__(
        self,
        root: Path | str | Folder,
        pipeline: Pipeline,
        output: Path | Folder | None = None,
        *,
        clock: Clock = wall_clock_us,
        **options: int,
    ) -> None:
        self.root: Any = root if isinstance(root, Folder) else str(root)
        self._output, self._options, self._clock = output, options, clock
        self.start(pipeline)

    def start(self, pipeline: Pipeline) -> None:
        """Start, or start again from what is on disk; all else is forgotten."""
        self.pipeline = pipeline
        self.query = Query(self.root, pipeline, **self._options)
        self.query.clock = BatchClock(self.query.folder, self._clock)
        self.query.open()

    @property
    def schema(self) -> pa.Schema:
        return self.pipeline.root.operator.output_schema()

    def run_streams(
        self,
        batch_id: int,
        streams: Streams,
        *,
        twice: bool = False,
        cores: int | None = None,
        columns: bool = False,
    ) -> Ran:
        """One batch from beginning to end, or nothing if it was committed before; `twice` as when
        tasks are repeated, and the results of their first attempts get lost. With `columns`, the
        instances write the results themselves."""
        executor = InProcessExecutor(
            self.pipeline,
            self.query.folder,
            streams,
            faithful=True,
            attempts=2 if twice else 1,
            tasks_at_once=cores,
        )
        sink = FileSink(self.query, self.schema, self._output)
        files = self._target(batch_id) if columns else None
        report = run_batch(self.query, executor, sink, batch_id, files)
        if report is not None:
            assert sum(report.lateness.values()) == report.late, "what is late is measured"
        rows = [batch for part in sink.result for batch in part]
        return Ran(pa.Table.from_batches(rows, self.schema), report)

    def _target(self, batch_id: int) -> FileTarget:
        assert self._output is not None
        writing = FileWriting(
            "orc" if batch_id % 4 == 1 else "parquet",
            self.schema,
            from_arrow_schema(self.schema).json(),
            "4.0.0",
            settings=(("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"),),
            jvm_time_zone="UTC",
        )
        assert unsupported(writing) is None
        return FileTarget(_folder(self._output).root, writing)

    def published_table(self) -> pa.Table:
        """What a reader of the output folder sees."""
        assert self._output is not None
        folder = _folder(self._output)
        tables = [_table(folder, name) for name in folder.list() if _shown(name)]
        return pa.concat_tables([self.schema.empty_table(), *(t.cast(self.schema) for t in tables)])


def _write_as_spark_does(folder: Folder, name: str, data: pa.Buffer) -> None:
    """Spark does not see to it that a file survives a loss of power."""
    if folder.is_local:
        Path(folder.path(name)).write_bytes(data)
    else:
        folder.write(name, data)


def _folder(at: Path | str | Folder) -> Folder:
    return at if isinstance(at, Folder) else Folder(str(at))


def _shown(name: str) -> bool:
    return name.endswith((".arrow", ".parquet", ".orc")) and "/" not in name


def _table(folder: Folder, name: str) -> pa.Table:
    content = pa.BufferReader(folder.read(name))
    if name.endswith(".parquet"):
        return pq.read_table(content)
    if name.endswith(".orc"):
        return po.read_table(content)
    return pa.ipc.open_file(content).read_all()


class OperatorRun(PipelineRun):
    """A query of one operator. A subclass says how a spec and a setup, which may change at a
    restart, make an operator, and how its batches are streams."""

    setup_type: type

    def __init__(
        self,
        root: Path | str | Folder,
        spec: Any,
        setup: Any = None,
        output: Path | Folder | None = None,
        **options: int,
    ) -> None:
        self.spec, self.setup = spec, setup or self.setup_type()
        super().__init__(root, Pipeline.of(self.operator()), output, **options)

    def operator(self) -> Operator:
        raise NotImplementedError

    def streams(self, batch: Any) -> Streams:
        raise NotImplementedError

    def outcome(self, ran: Ran) -> Any:
        return ran

    def reopen(self, setup: Any = None, spec: Any = None) -> None:
        """Start again from what is on disk; all else is forgotten."""
        self.setup, self.spec = setup or self.setup, spec or self.spec
        self.start(Pipeline.of(self.operator()))

    @property
    def coordinator(self) -> Any:
        return self.query.coordinators[self.pipeline.root.name]

    @property
    def state(self) -> Any:
        """What the last commit says of the operator."""
        assert self.query.last is not None
        return self.query.last.operators[self.pipeline.root.name]

    def run(self, batch_id: int, batch: Any, *, twice: bool = False) -> Any:
        return self.outcome(self.run_streams(batch_id, self.streams(batch), twice=twice))

    def run_all(self, batches: Sequence[Any], **options: Any) -> list[Any]:
        return [self.run(number, batch, **options) for number, batch in enumerate(batches)]

    def published(self) -> Any:
        return self.published_table()
