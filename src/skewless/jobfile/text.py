"""The text of a job file, and what is wrong with it: by line, key, value and choices."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, ParamSpec, TypeVar

from skewless.errors import JobFileError
from skewless.jobfile.lines import Path, line_of

Severity = Literal["error", "warning"]
P = ParamSpec("P")
T = TypeVar("T")


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
    """A value that cannot be understood. It is noted where a table is read, which then goes on.
    `others` is what else is wrong with the value, and `rest` what of it could be understood."""

    def __init__(self, path: Path, message: str, others: Sequence[RefusedError] = ()) -> None:
        self.path, self.message, self.others = path, message, others
        self.rest: Any = None
        super().__init__(message)

    def __iter__(self) -> Iterator[RefusedError]:
        yield self
        for other in self.others:
            yield from other


class Parts:
    """Reads the parts of a value, so that all that is wrong with them is told at once."""

    def __init__(self) -> None:
        self._wrong: list[RefusedError] = []

    def read(self, reader: Callable[P, T], *args: P.args, **more: P.kwargs) -> T | None:
        """A part; None if it is refused."""
        try:
            return reader(*args, **more)
        except RefusedError as error:
            self._wrong += error
            return None

    def note(self, error: RefusedError) -> None:
        self._wrong.append(error)

    def checked(self, rest: Any = None) -> None:
        """Refuses the value if a part of it was. `rest` is what was understood."""
        if self._wrong:
            first, *others = self._wrong
            refusal = RefusedError(first.path, first.message, others)
            refusal.rest = rest
            raise refusal


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

    def take_as(self, written: Path, path: Path) -> None:
        """What stands at one path is told of as if it stood at another."""
        size = len(written)
        below = {p[size:]: line for p, line in self.lines.items() if p[:size] == written}
        for rest, line in below.items():
            self.lines.setdefault((*path, *rest), line)

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


def is_slip(word: str, right: str) -> bool:
    """Whether a word is another with one letter too many, missing or wrong, or two swapped.

    >>> is_slip("jion", "join"), is_slip("lat", "late"), is_slip("left_on", "left_time")
    (True, True, False)
    """
    if len(word) == len(right):
        other = [i for i, (a, b) in enumerate(zip(word, right, strict=True)) if a != b]
        here = slice(other[0], other[-1] + 1) if other else slice(0)
        return len(other) == 1 or (len(other) == 2 and word[here] == right[here][::-1])
    long, short = sorted((word, right), key=len, reverse=True)
    return short in (long[:i] + long[i + 1 :] for i in range(len(long)))


def as_meant(word: str, choices: Collection[str]) -> str:
    """The one choice that a word is a slip of; the word itself if there is none.

    >>> as_meant("jion", ["join", "union"]), as_meant("a1", ["a2", "a3"])
    ('join', 'a1')
    """
    if word in choices:
        return word
    near = [choice for choice in choices if is_slip(word, choice)]
    return near[0] if len(near) == 1 else word


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
