"""`skewless run`: the jobs of a job file."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from skewless.cli.display import Display, PlainDisplay, make_display
from skewless.cli.failures import OTHER, explain
from skewless.cli.follow import STOPPING, Outcome, Query, run_queries
from skewless.cli.session import LOCAL, spark_session
from skewless.cli.start import start_job, state_folder_of
from skewless.cli.totals import total
from skewless.cli.units import duration
from skewless.cli.view import Labels, print_summary, summary_facts
from skewless.conditions import UNBOUNDED, Band, Equal
from skewless.jobfile import Job, JobFile


def run_jobs(file: JobFile, log: Path | None, console: Console) -> tuple[int, dict[str, Any]]:
    """Run jobs at the same time until all end, or they are stopped; the exit code, and how it went
    as JSON: that of the job, or of several by name."""
    labels = [Labels(key=_key(job)) for job in file.jobs]
    with ExitStack() as session:
        with ExitStack() as screen:
            displays = [screen.enter_context(d) for d in _displays(file, labels, console)]
            for display in displays:
                display.status("Starting Spark")
            name = file.jobs[0].name if len(file.jobs) == 1 else None
            title = name or f"skewless run {file.text.name}"

            def stopping() -> None:
                displays[0].status(STOPPING)

            spark = session.enter_context(
                spark_session(title, file.master or LOCAL, file.conf, log, stopping)
            )
            queries = []
            for job, display in zip(file.jobs, displays, strict=True):
                display.status("Preparing the query")
                queries.append(
                    Query(lambda job=job: start_job(spark, job),  # type: ignore[misc]
                          state_folder_of(spark, job), display)
                )  # fmt: skip
            outcomes = run_queries(queries)
        for job, label, outcome in zip(file.jobs, labels, outcomes, strict=True):
            _summarize(job, label, outcome, console)
    told = {job.name: _told(job, o) for job, o in zip(file.jobs, outcomes, strict=True)}
    code = max(outcome.exit_code for outcome in outcomes)
    if file.jobs[0].path_in_file == ():
        return code, next(iter(told.values()))
    return code, {"jobs": told, "stopped": code != 0}


def _told(job: Job, outcome: Outcome) -> dict[str, Any]:
    output = job.sink.table or job.sink.path
    return outcome.to_json() | {"output": output, "checkpoint": job.checkpoint}


def _displays(file: JobFile, labels: list[Labels], console: Console) -> list[Display]:
    """A live view of one job; of several, lines that begin with their names."""
    if len(file.jobs) == 1:
        return [make_display(console, title_of(file.jobs[0]), labels[0])]
    return [
        PlainDisplay(console, title_of(job), label, f"[{job.name}] ")
        for job, label in zip(file.jobs, labels, strict=True)
    ]


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


def _key(job: Job) -> str:
    """What rows are put together by, in a word."""
    found = job.last.arguments.get("on", job.last.arguments.get("by"))
    names = []
    for condition in found if isinstance(found, list | tuple) else [found]:
        if isinstance(condition, Band):
            names.append(f"{condition.left} ± {condition.width}")
        elif isinstance(condition, Equal):
            names.append(condition.left)
        elif isinstance(condition, tuple | list):
            names.append(str(condition[0]))
        elif condition is not None:
            names.append(str(condition))
    return ", ".join(names) or "key"


def title_of(job: Job) -> str:
    """What a job does, in a line."""
    name, step = job.name or Path(job.text.name).stem, job.last
    if step.operator != "join":
        steps = " → ".join(s.name for s in job.steps)
        return f"{name}: {steps}"
    within = step.arguments["within"]
    ends = within if isinstance(within, tuple) else (within,)
    bounds = " to ".join("unbounded" if end is UNBOUNDED else str(end) for end in ends)
    when = "at any time" if within is UNBOUNDED else f"within {bounds}"
    return f"{name}: {' ⋈ '.join(step.inputs)} on {_key(job)}, {when}"


def done_by(job: Job) -> str:
    """What has become of batches."""
    return "joined" if len(job.steps) == 1 and "join" in job.last.operator else "ran"


def _summarize(job: Job, labels: Labels, outcome: Outcome, console: Console) -> None:
    totals = total(outcome.reports)
    new = totals.batches - outcome.earlier
    verb = "stopped after" if outcome.exit_code else done_by(job)
    batches = f"{new} batch{'' if new == 1 else 'es'}"
    continued = f", continuing after {outcome.earlier}" if outcome.earlier else ""
    whose = f"{job.name}: " if job.path_in_file else ""
    heading = f"{whose}{verb} {batches}{continued} in {duration(outcome.seconds * 1000)}"
    filtered = job.last.where is not None
    facts = summary_facts(totals, labels, filtered=filtered) if totals.batches else []
    if job.sink.table is not None or job.sink.path is not None:
        facts.append(("output", f"{job.sink.table or job.sink.path}  ({job.sink.format})"))
    facts.append(("checkpoint", job.checkpoint))
    facts.append(("look closer", f"skewless inspect {job.checkpoint}"))
    print_summary(console, heading, facts)


@contextlib.contextmanager
def stdout_to_stderr(wanted: bool) -> Iterator[None]:
    """Keeps what a console sink prints out of a JSON answer."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield
