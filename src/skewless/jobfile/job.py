"""From a file to what it describes, or to all that is wrong with it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

from skewless.errors import JobFileError
from skewless.jobfile.assembly import assemble
from skewless.jobfile.environment import filled_in
from skewless.jobfile.lines import key_lines
from skewless.jobfile.model import JobFile
from skewless.jobfile.text import JobText, Problem, UnreadableError


def load_jobs(
    file: str | Path, names: Collection[str] = (), environment: Mapping[str, str] | None = None
) -> JobFile:
    """Read and check a job file; of its jobs, those that are named, or all. Relative paths in it
    stay relative: to the current folder. All that is wrong with it is told at once."""
    found = read_jobs(file, environment)
    errors = found.text.errors
    if errors:
        raise JobFileError("\n".join(map(str, errors)))
    return found.only(names) if names else found


def read_jobs(file: str | Path, environment: Mapping[str, str] | None = None) -> JobFile:
    """A job file as far as it can be understood; its text has all problems of its form. What is no
    TOML at all is raised."""
    content = _read(Path(file))
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(file), str(error), content) from error
    text = JobText(str(file), key_lines(content))
    variables = os.environ if environment is None else environment
    return assemble(text, filled_in(document, variables, text))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise _unreadable(file, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _unreadable(file, f"not a text in UTF-8: {error}") from error


def _unreadable(file: str | Path, message: str, line: int | None = None) -> UnreadableError:
    return UnreadableError(Problem(str(file), line, "", message))


def _syntax_error(file: str, message: str, content: str) -> UnreadableError:
    """tomllib ends its messages with the place; ours begin with it, as compilers' do."""
    place = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if place is None:
        return _unreadable(file, f"not valid TOML: {message}")
    line, column = place.groups()
    if line is None:
        line, column = str(content.rstrip("\n").count("\n") + 1), "end"
    problem = message[: place.start()]
    return _unreadable(file, f"not valid TOML: {problem} (column {column})", int(line))
