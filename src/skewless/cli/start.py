"""From a job file's jobs to running queries. What is refused is told by line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skewless.cli.failures import first_line, is_sparks
from skewless.errors import ArgumentError
from skewless.jobfile import Job, Source, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from skewless.spark.result import Result
    from skewless.state.files import Folder


def start_job(spark: SparkSession, job: Job) -> StreamingQuery:
    """The query that a job describes, started."""
    result = result_of(spark, job)
    sink = job.sink
    with _blamed(job):
        writer = result.writeStream
        if sink.format is not None:
            writer.format(sink.format)
        for key, value in sink.options.items():
            writer.option(key, value)
        if sink.partition_by:
            writer.partitionBy(*sink.partition_by)
        if sink.mode is not None:
            writer.outputMode(sink.mode)
        if job.name is not None:
            writer.queryName(job.name)
        if job.trigger:
            writer.trigger(**job.trigger)
        writer.option("checkpointLocation", job.checkpoint)
        return writer.start(sink.path) if sink.table is None else writer.toTable(sink.table)


def result_of(spark: SparkSession, job: Job) -> Result:
    """What a job writes."""
    from skewless.spark.result import Result

    made: dict[str, DataFrame | Result] = {s.name: _stream(spark, job, s) for s in job.sources}
    for step in job.steps:
        made[step.name] = _made(job, step, [made[name] for name in step.inputs])
    result = made[job.step]
    assert isinstance(result, Result), "a file whose job has no operator is refused"
    return result


def _made(job: Job, step: Step, inputs: list[Any]) -> Any:
    import skewless as sk

    operators: dict[str, Callable[..., Any]] = {
        "join": sk.join,
        "asof_join": sk.asof_join,
        "join3": sk.join3,
        "similarity_join": sk.similarity_join,
        "aggregate": sk.aggregate,
        "deduplicate": sk.deduplicate,
        "from": lambda frame: frame,
    }
    key = step.operator
    try:
        made = operators[step.operator](*inputs, **step.arguments)
        key = "where"
        made = made if step.where is None else made.where(step.where)
        key = "select"
        return made.selectExpr(*step.select) if step.select else made
    except ArgumentError as error:
        raise job.blame(step, error) from error
    except Exception as error:
        if not is_sparks(error):
            raise
        path = (*step.path_in_file, key)
        raise job.text.error(path, f"`{step.name}`, `{key}`: {first_line(error)}") from error


def state_folder_of(spark: SparkSession, job: Job) -> Folder:
    from skewless.spark.stores import Stores

    with _blamed(job):
        return Stores.of(spark, job.sink.options).state_folder(job.checkpoint)


@contextlib.contextmanager
def _blamed(job: Job) -> Iterator[None]:
    try:
        yield
    except ArgumentError as error:
        raise job.blame_sink(error) from error


def _stream(spark: SparkSession, job: Job, source: Source) -> DataFrame:
    key = "schema"
    try:
        reader = _reader(spark, source).format(source.format).options(**(source.options or {}))
        if source.schema is not None:
            reader = reader.schema(source.schema)
        key = "path" if source.path is not None else "format"
        frame: DataFrame = reader.load(source.path) if source.path is not None else reader.load()
        key = "where"
        frame = frame if source.where is None else frame.where(source.where)
        key = "select"
        return frame.selectExpr(*source.select) if source.select else frame
    except ArgumentError as error:
        path = (*source.path_in_file, error.argument)
        raise job.text.refusal(path, error.received, error.accepted) from error
    except Exception as error:
        if not is_sparks(error):
            raise
        key = "format" if "DATA_SOURCE" in str(error) else key
        key = "schema" if "Schema must be specified" in str(error) else key
        path = (*source.path_in_file, key)
        raise job.text.error(path, f"`{source.name}.{key}`: {first_line(error)}") from error


def _reader(spark: SparkSession, source: Source) -> Any:
    import skewless as sk

    return sk.readStream(spark) if source.columns else spark.readStream
