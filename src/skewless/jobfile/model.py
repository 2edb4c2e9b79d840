"""What a job file describes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skewless.errors import ArgumentError, JobFileError
from skewless.jobfile.lines import Path
from skewless.jobfile.rules import ROLES, STRATEGY_KEYS
from skewless.jobfile.text import JobText, as_meant, meant

SIDES = ("left", "right")
FORMATS = (
    "parquet", "json", "csv", "orc", "text", "xml", "avro", "kafka", "rate", "rate-micro-batch",
    "socket", "console", "noop", "memory", "jdbc", "delta", "iceberg",
)  # fmt: skip
# The writer's names of what it refuses, and where a job says it.
KEY_OF_SINK_ARGUMENT: Mapping[str, Path] = {
    "path": ("sink", "path"),
    "format": ("sink", "format"),
    "option": ("sink", "options"),
    "outputMode": ("sink", "mode"),
    "partitionBy": ("sink", "partition_by"),
    "checkpointLocation": ("checkpoint",),
    "location": ("checkpoint",),
    "queryName": ("name",),
    "trigger": ("trigger",),
    "value": ("sink", "format"),  # what Kafka takes
    "topic": ("sink", "options"),
    "kafka.bootstrap.servers": ("sink", "options"),
} | {
    option: ("sink", "options", option)
    for option in (
        "skewless.keepCommits",
        "skewless.keepHistory",
        "skewless.hideKeys",
        "skewless.existing",
    )
}


def format_meant(written: str | None) -> str:
    """A format as Spark knows it; one of its own if there is a slip in it. Others may be
    installed."""
    return as_meant((written or "").lower(), FORMATS)


@dataclass(frozen=True)
class Source:
    """A stream from outside, as `readStream` is told of it."""

    name: str
    path_in_file: Path
    format: str
    path: str | None = None
    schema: str | None = None
    columns: bool = False
    options: dict[str, str] | None = None
    where: str | None = None
    select: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """What is done to inputs and to other steps' results. `arguments` are those of the operator,
    but for its inputs and `where`."""

    name: str
    path_in_file: Path
    operator: str
    inputs: tuple[str, ...]
    arguments: dict[str, Any]
    where: str | None = None
    select: tuple[str, ...] = ()

    @property
    def is_operator(self) -> bool:
        return self.operator != "from"

    def input_path(self, number: int) -> Path:
        """Where an input is named."""
        if self.path_in_file == ("join",):
            return (SIDES[number],)
        return (*self.path_in_file, self.operator, *([number] if len(self.inputs) > 1 else []))

    def key_of(self, argument: str) -> Path:
        """Where the file says an argument of the operator."""
        for names in (SIDES, ROLES, ("df",)):
            if argument in names and names.index(argument) < len(self.inputs):
                return self.input_path(names.index(argument))
        if argument == "pin":  # whose keys and instances only the engine can judge
            argument = next(key for key in STRATEGY_KEYS if key in self.arguments)
            return (*self.path_in_file, argument, "pin")
        if argument.startswith('aggs["'):
            return (*self.path_in_file, "aggs", argument[6:-2])
        key = {"width": "on", "null_safe": "on", "selectExpr": "select"}.get(argument, argument)
        return (*self.path_in_file, key)


@dataclass(frozen=True)
class Sink:
    """Where a result goes, as `writeStream` is told of it."""

    format: str | None
    path: str | None
    table: str | None
    mode: str | None
    options: dict[str, str]
    partition_by: tuple[str, ...]


@dataclass(frozen=True)
class Job:
    """A query that is described completely: `step` is what it writes, `sources` and `steps` are
    what that is made of, in an order in which they can be built."""

    text: JobText
    path_in_file: Path
    name: str | None
    checkpoint: str
    step: str
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sink: Sink
    trigger: dict[str, Any]

    @property
    def last(self) -> Step:
        return self.steps[-1]

    def blame_sink(self, error: ArgumentError) -> JobFileError:
        """What the writer refused, told by the key and line that it came from."""
        path = KEY_OF_SINK_ARGUMENT.get(error.argument)
        if path is None:
            return JobFileError(f"{self.text.name}: {error}")
        return blamed(self.text, (*self.path_in_file, *path), error)

    def blame(self, step: Step, error: ArgumentError) -> JobFileError:
        """What an operator refused, told in the same way."""
        return blamed(self.text, step.key_of(error.argument), error)


def blamed(text: JobText, path: Path, error: ArgumentError) -> JobFileError:
    accepted, *plan = error.accepted.splitlines()  # Spark adds a plan that helps nobody here
    return text.refusal(path, error.received, f"{accepted} …)" if plan else accepted)


@dataclass(frozen=True)
class JobFile:
    """All of a file: its jobs, its inputs and steps, used or not, and the session for them all."""

    text: JobText
    jobs: tuple[Job, ...]
    sources: dict[str, Source]
    steps: dict[str, Step]
    master: str | None
    conf: dict[str, str]

    def only(self, names: Collection[str]) -> JobFile:
        """The file with some of its jobs, by name."""
        known = [job.name or "" for job in self.jobs]
        for name in names:
            if name not in known:
                told = f"no job `{name}`{meant(name, known)}; there is: {', '.join(known)}"
                raise JobFileError(f"{self.text.name}: {told}")
        return replace(self, jobs=tuple(job for job in self.jobs if job.name in names))
