"""`skewless validate`: all that is wrong with a job file, at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from skewless.conditions import UNBOUNDED
from skewless.durations import parse_duration_us
from skewless.jobfile.checking import check_columns
from skewless.jobfile.job import read_jobs
from skewless.jobfile.lines import Path
from skewless.jobfile.model import JobFile, Source, Step
from skewless.jobfile.sql import parsed
from skewless.jobfile.text import Problem, UnreadableError


def validate(file: str | FilePath, environment: Mapping[str, str] | None = None) -> list[Problem]:
    """Errors and warnings in the order of the file."""
    try:
        found = read_jobs(file, environment)
    except UnreadableError as error:
        return [error.problem]
    check_columns(found)
    if not found.text.errors:
        _warn(found)
    return found.text.sorted()


def _warn(file: JobFile) -> None:
    """What works, and is seldom meant."""
    used = {step.name: step for job in file.jobs for step in job.steps}
    for job in file.jobs:
        output = None if job.sink.path is None else job.sink.path.rstrip("/")
        read = [s.name for s in job.sources if s.path is not None and s.path.rstrip("/") == output]
        for name in read:
            message = f"it reads what it writes: the input `{name}` has the same folder"
            file.text.note((*job.path_in_file, "sink", "path"), message, "warning")
    _warn_of_unread(file, [source for job in file.jobs for source in job.sources])
    _warn_of_unread(file, list(used.values()))
    for step in used.values():
        arguments, path = step.arguments, step.path_in_file
        within = arguments.get("within")
        ends = within if isinstance(within, tuple) else (within,)
        if UNBOUNDED in ends:
            message = "its state grows for ever, as `within` is unbounded"
            file.text.note((*path, "within"), message, "warning")
        elif step.operator == "aggregate" and "window" not in arguments:
            message = "its state grows with the keys, as there is no `window`"
            file.text.note(path, message, "warning")
        elif _is_late_zero(step) and any(name in file.sources for name in step.inputs):
            message = "rows that come out of order are dropped, as `late` is 0 or not given"
            file.text.note(path, message, "warning")


def _warn_of_unread(file: JobFile, items: Sequence[Source | Step]) -> None:
    """Expressions that could not be parsed, so that nothing in them was checked."""
    for item in items:
        written: list[tuple[Path, str | None]] = [(("where",), item.where)]
        written += [(("select", number), text) for number, text in enumerate(item.select)]
        for key, text in written:
            if text is not None and parsed(text) is None:
                message = f"`{text}` could not be parsed, and was not checked: Spark may know it"
                file.text.note((*item.path_in_file, *key), message, "warning")


def _is_late_zero(step: Step) -> bool:
    if not step.is_operator:
        return False
    late = step.arguments.get("late", "0 seconds")
    each = late if isinstance(late, tuple) else (late,)
    return all(parse_duration_us(one, "late") == 0 for one in each)
