"""`skewless run`: a join from a job file."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from skewless.cli.display import make_display
from skewless.cli.failures import OTHER, explain, first_line, is_sparks
from skewless.cli.follow import STOPPING, Outcome, run_query
from skewless.cli.session import LOCAL, spark_session
from skewless.cli.totals import total
from skewless.cli.units import duration
from skewless.cli.view import Labels, print_summary, summary_facts
from skewless.conditions import UNBOUNDED, Band
from skewless.errors import ArgumentError
from skewless.jobfile import Job, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from skewless.state.files import Folder


def run_job(job: Job, log: Path | None, console: Console) -> tuple[Outcome, dict[str, Any]]:
    """Run a job until it ends or is stopped; returns how it went, and that as JSON."""
    labels = Labels(key=_key(job))
    with ExitStack() as session:
        with make_display(console, _title(job), labels) as display:
            display.status("Starting Spark")
            name, master = job.name or f"skewless run {job.text.name}", job.master or LOCAL
            spark = session.enter_context(
                spark_session(name, master, job.conf, log, lambda: display.status(STOPPING))
            )
            display.status("Preparing the join")
            outcome = run_query(lambda: start_job(spark, job), _state_folder(spark, job), display)
        _summarize(job, labels, outcome, console)
    return outcome, outcome.to_json() | {
        "output": job.sink.path,
        "checkpoint": job.checkpoint,
    }


@contextlib.contextmanager
def spark_log(wanted: str | None) -> Iterator[Path | None]:
    """Where Spark's messages go. A file that nobody asked for stays only if something fails."""
    if wanted is not None:
        yield None if wanted == "-" else Path(wanted)
        return
    handle, name = tempfile.mkstemp(prefix="skewless-", suffix=".log")
    os.close(handle)
    kept = False
    try:
        yield Path(name)
    except Exception as error:
        explained = explain(error)
        # What the user can mend is told in full; for the rest Spark's messages may help.
        kept = explained is None or explained[1] == OTHER or name in explained[0]
        if kept and name not in str(error):
            error.add_note(f"Spark's own messages are in {name}")
        raise
    finally:
        if not kept:
            os.unlink(name)


def start_job(spark: SparkSession, job: Job) -> StreamingQuery:
    """The query that a job describes; what the engine refuses is told by line."""
    import skewless as sk

    left, right = _stream(spark, job, "left"), _stream(spark, job, "right")
    with _blamed(job):
        writer = sk.join(left, right, **job.join).writeStream.format(job.sink.format)
        for key, value in job.sink.options.items():
            writer.option(key, value)
        if job.sink.partition_by:
            writer.partitionBy(*job.sink.partition_by)
        if job.name is not None:
            writer.queryName(job.name)
        if job.trigger:
            writer.trigger(**job.trigger)
        writer.option("checkpointLocation", job.checkpoint)
        return writer.start(job.sink.path)


def _state_folder(spark: SparkSession, job: Job) -> Folder:
    from skewless.spark.stores import Stores

    with _blamed(job):
        return Stores.of(spark, job.sink.options).state_folder(job.checkpoint)


@contextlib.contextmanager
def _blamed(job: Job) -> Iterator[None]:
    try:
        yield
    except ArgumentError as error:
        raise job.blame(error) from error


def _stream(spark: SparkSession, job: Job, side: str) -> DataFrame:
    source: Source = getattr(job, side)
    key = "schema"
    try:
        reader = spark.readStream.format(source.format).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        key = "path" if source.path is not None else "format"
        frame = reader.load(source.path) if source.path is not None else reader.load()
        key = "select"
        return frame.selectExpr(*source.select) if source.select else frame
    except Exception as error:
        if not is_sparks(error):
            raise
        key = "format" if "DATA_SOURCE" in str(error) else key
        raise job.text.error((side, key), f"`{side}.{key}`: {first_line(error)}") from error


def _key(job: Job) -> str:
    """What the join is on, in a word."""
    names = []
    for condition in job.join["on"]:
        if isinstance(condition, Band):
            names.append(f"{condition.left} ± {condition.width}")
        else:
            names.append(condition if isinstance(condition, str) else condition[0])
    return ", ".join(names)


def _title(job: Job) -> str:
    within = job.join["within"]
    ends = within if isinstance(within, tuple) else (within,)
    bounds = " to ".join("unbounded" if end is UNBOUNDED else str(end) for end in ends)
    when = "at any time" if within is UNBOUNDED else f"within {bounds}"
    return f"{job.name or Path(job.text.name).stem}: left ⋈ right on {_key(job)}, {when}"


def _summarize(job: Job, labels: Labels, outcome: Outcome, console: Console) -> None:
    totals = total(outcome.reports)
    new = totals.batches - outcome.earlier
    verb = "stopped after" if outcome.exit_code else "joined"
    batches = f"{new} batch{'' if new == 1 else 'es'}"
    continued = f", continuing after {outcome.earlier}" if outcome.earlier else ""
    heading = f"{verb} {batches}{continued} in {duration(outcome.seconds * 1000)}"
    facts = summary_facts(totals, labels, filtered="where" in job.join) if totals.batches else []
    if job.sink.path is not None:
        facts.append(("output", f"{job.sink.path}  ({job.sink.format})"))
    facts.append(("checkpoint", job.checkpoint))
    facts.append(("look closer", f"skewless inspect {job.checkpoint}"))
    print_summary(console, heading, facts)


@contextlib.contextmanager
def stdout_to_stderr(wanted: bool) -> Iterator[None]:
    """Keeps what a console sink prints out of a JSON answer."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield
