"""The text of a job file, and what is wrong with it: by line, key, value and choices."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from skewless.errors import JobFileError
from skewless.jobfile.lines import Path, line_of

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a file, or that deserves a second look."""

    file: str
    line: int | None
    key: str
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        kind = "warning: " if self.severity == "warning" else ""
        return f"{place}: {kind}{self.message}"


class UnreadableError(JobFileError):
    """A file that is no job file at all: not there, or no TOML."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class RefusedError(Exception):
    """A value that cannot be understood. It is noted where a table is read, which then goes on."""

    def __init__(self, path: Path, message: str) -> None:
        self.path, self.message = path, message
        super().__init__(message)


@dataclass
class JobText:
    """The file that everything was read from: its name as the user gave it, its lines, and the
    problems that were found so far."""

    name: str
    lines: dict[Path, int]
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: Path, message: str, severity: Severity = "error") -> Problem:
        return Problem(self.name, line_of(self.lines, path), dotted(path), message, severity)

    def note(self, path: Path, message: str, severity: Severity = "error") -> None:
        found = self.problem(path, message, severity)
        if found not in self.problems:
            self.problems.append(found)

    def refuse(self, path: Path, received: object, accepted: str) -> None:
        self.note(path, refused(path, received, accepted).message)

    def error(self, path: Path, message: str) -> JobFileError:
        return JobFileError(str(self.problem(path, message)))

    def refusal(self, path: Path, received: object, accepted: str) -> JobFileError:
        return self.error(path, refused(path, received, accepted).message)

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self.sorted() if problem.severity == "error"]

    def sorted(self) -> list[Problem]:
        """The problems in the order of the file."""
        return sorted(self.problems, key=lambda problem: problem.line or 0)


def refused(path: Path, received: object, accepted: str) -> RefusedError:
    message = f"`{dotted(path)}` must be {accepted}; received {as_written(received)}"
    return RefusedError(path, message)


def meant(word: str, choices: Collection[str], quote: str = "`") -> str:
    """A question after what is near to a word, if something is.

    >>> meant("lfet", ["left", "right"])
    ' (did you mean `left`?)'
    """
    near = get_close_matches(word, choices, n=1)
    return f" (did you mean {quote}{near[0]}{quote}?)" if near else ""


def dotted(path: Path) -> str:
    """A path as people write it.

    >>> dotted(("join", "on", 0, "width"))
    'join.on[0].width'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def as_written(value: object) -> str:
    """A value much as it stands in the file; Python's True would only confuse."""
    return json.dumps(value, ensure_ascii=False, default=str)
