"""What a job file may say, and what it becomes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skewless.errors import ArgumentError, JobFileError
from skewless.jobfile.join_table import JOIN_KEYS, STRATEGY_KEYS, read_join
from skewless.jobfile.lines import Path as KeyPath
from skewless.jobfile.lines import key_lines
from skewless.jobfile.section import JobText, Section
from skewless.state.publish import FILE_FORMATS

JOB_KEYS = ("name", "checkpoint", "left", "right", "join", "sink", "trigger", "spark")
SOURCE_KEYS = ("format", "path", "schema", "options", "select")
SINK_KEYS = ("format", "path", "options", "partition_by")
TRIGGER_KEYS = ("processing_time", "available_now", "once")
SPARK_KEYS = ("master", "conf")
# The engine's names of what it refuses, and where a job file says it.
KEY_OF_ARGUMENT: Mapping[str, KeyPath] = {
    "left": ("left",),
    "right": ("right",),
    "width": ("join", "on"),
    "path": ("sink", "path"),
    "option": ("sink", "options"),
    "skewless.keepCommits": ("sink", "options", "skewless.keepCommits"),
    "skewless.keepHistory": ("sink", "options", "skewless.keepHistory"),
    "skewless.hideKeys": ("sink", "options", "skewless.hideKeys"),
    "skewless.existing": ("sink", "options", "skewless.existing"),
    "partitionBy": ("sink", "partition_by"),
    "checkpointLocation": ("checkpoint",),
    "location": ("checkpoint",),
    "queryName": ("name",),
    "trigger": ("trigger",),
} | {key: ("join", key) for key in JOIN_KEYS}


@dataclass(frozen=True)
class Source:
    """One of the two streams, as `spark.readStream` is told of it."""

    format: str
    path: str | None
    schema: str | None
    options: dict[str, str]
    select: list[str]


@dataclass(frozen=True)
class Sink:
    """Where the matches go, as `writeStream` is told of it."""

    format: str
    path: str | None
    options: dict[str, str]
    partition_by: list[str]


@dataclass(frozen=True)
class Job:
    """A join that is described completely. `join` holds the arguments of `sk.join`."""

    text: JobText
    name: str | None
    checkpoint: str
    left: Source
    right: Source
    join: dict[str, Any]
    sink: Sink
    trigger: dict[str, Any]
    master: str | None
    conf: dict[str, str]

    def blame(self, error: ArgumentError) -> JobFileError:
        """What the engine refused, told by the key and line that it came from."""
        path = KEY_OF_ARGUMENT.get(error.argument)
        if error.argument == "pin":  # whose keys and instances only the engine can judge
            path = ("join", next(key for key in STRATEGY_KEYS if key in self.join), "pin")
        if path is None:
            return JobFileError(f"{self.text.name}: {error}")
        accepted, *plan = error.accepted.splitlines()  # Spark adds a plan that helps nobody here
        return self.text.refusal(path, error.received, f"{accepted} …)" if plan else accepted)


def load_job(file: str | Path) -> Job:
    """Read and check a job file. Relative paths in it stay relative: to the current folder."""
    content = _read(Path(file))
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(file), str(error), content) from error
    text = JobText(str(file), key_lines(content))
    job = Section(text, (), document, JOB_KEYS)
    name = job.string("name", "a name for the query")
    checkpoint = job.needed_string(
        "checkpoint", 'the folder of the query\'s state, such as checkpoint = "out/checkpoint"'
    )
    master, conf = _spark(job.table("spark", SPARK_KEYS))
    return Job(
        text=text,
        name=name,
        checkpoint=checkpoint,
        left=_source(job, "left"),
        right=_source(job, "right"),
        join=read_join(job),
        sink=_sink(job),
        trigger=_trigger(job),
        master=master,
        conf=conf,
    )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise JobFileError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise JobFileError(f"{file}: not a text in UTF-8: {error}") from error


def _syntax_error(file: str, message: str, content: str) -> JobFileError:
    """tomllib ends its messages with the place; ours begin with it, as compilers' do."""
    place = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if place is None:
        return JobFileError(f"{file}: not valid TOML: {message}")
    line, column = place.groups()
    if line is None:
        line, column = str(content.rstrip("\n").count("\n") + 1), "end"
    problem = message[: place.start()]
    return JobFileError(f"{file}:{line}: not valid TOML: {problem} (column {column})")


def _source(job: Section, side: str) -> Source:
    job.need(side, f"a table [{side}] with `format` and what the format needs")
    source = job.table(side, SOURCE_KEYS)
    return Source(
        format=source.needed_string(
            "format", 'a source that Spark can stream from, such as "parquet" or "kafka"'
        ),
        path=source.string("path", "a folder or a URI"),
        schema=source.string("schema", 'columns and types, such as "id BIGINT, at TIMESTAMP"'),
        options=source.settings("options"),
        select=source.strings("select", 'SQL expressions, such as ["cast(key AS STRING) AS k"]'),
    )


def _sink(job: Section) -> Sink:
    job.need("sink", "a table [sink] with `format` and what the format needs")
    sink = job.table("sink", SINK_KEYS)
    kind = sink.needed_string(
        "format", 'a sink that Spark can write to, such as "parquet", "console" or "kafka"'
    )
    if kind == "memory":
        raise sink.refuse("format", "a sink that outlives the command; memory does not")
    path = sink.string("path", "a folder or a URI")
    if kind.lower() in FILE_FORMATS:
        sink.need("path", f"the output folder of the {kind} files")
    columns = sink.strings("partition_by", 'columns of the result, such as ["day"]')
    return Sink(kind, path, sink.settings("options"), columns)


def _trigger(job: Section) -> dict[str, Any]:
    """The keyword argument of `writeStream.trigger`; empty for one batch after another."""
    trigger = job.table("trigger", TRIGGER_KEYS)
    given = [key for key in TRIGGER_KEYS if key in trigger]
    if len(given) > 1:
        raise job.refuse("trigger", f"only one of: {', '.join(TRIGGER_KEYS)}")
    for key, argument in (("available_now", "availableNow"), ("once", "once")):
        if key in trigger:
            if trigger.get(key) is not True:
                raise trigger.refuse(key, "true, or left out")
            return {argument: True}
    if "processing_time" not in trigger:
        return {}
    interval = trigger.get("processing_time")
    path = (*trigger.path, "processing_time")
    trigger.duration_us(path, interval)
    return {"processingTime": interval}


def _spark(spark: Section) -> tuple[str | None, dict[str, str]]:
    def problem(name: str) -> str | None:
        if name == "spark.master":
            return "`spark.master` is given as `master` in [spark]"
        known = name.startswith("spark.")
        return None if known else f"`{name}` is not a Spark setting: they begin with `spark.`"

    master = spark.string("master", 'a master URL, such as "local[*]" or "spark://host:7077"')
    return master, spark.settings("conf", problem)
