"""`skewless validate`: all that is wrong with a job file, at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skewless.conditions import UNBOUNDED
from skewless.durations import parse_duration_us
from skewless.jobfile.checking import check_columns
from skewless.jobfile.job import read_jobs
from skewless.jobfile.model import JobFile, Step
from skewless.jobfile.text import Problem, UnreadableError


def validate(file: str | Path, environment: Mapping[str, str] | None = None) -> list[Problem]:
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


def _is_late_zero(step: Step) -> bool:
    if not step.is_operator:
        return False
    late = step.arguments.get("late", "0 seconds")
    each = late if isinstance(late, tuple) else (late,)
    return all(parse_duration_us(one, "late") == 0 for one in each)
