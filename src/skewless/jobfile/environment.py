"""Environment variables in the texts of a job file: `${NAME}` and `${NAME:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skewless.jobfile.lines import Path
from skewless.jobfile.text import JobText

# Others stay as they are: `${env:HOME}` and `${spark.x}` are for Spark and Hadoop to fill in.
_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
ONE_VARIABLE = r"^\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}$"


class FromEnvironment(str):
    """A text that was filled in. It may stand for a number, true or false where one is wanted: in
    TOML a variable can only be part of a text."""

    __slots__ = ()


class NotSet(str):
    """A text with a variable that is not there: one mistake, not two."""

    __slots__ = ()


def is_not_set(value: Any) -> bool:
    """Whether a value holds a text with a variable that is not there."""
    if isinstance(value, dict):
        return any(map(is_not_set, value.values()))
    return any(map(is_not_set, value)) if isinstance(value, list) else isinstance(value, NotSet)


def filled_in(value: Any, environment: Mapping[str, str], text: JobText, path: Path = ()) -> Any:
    """A value of the file with all variables replaced. Those that are not there are noted."""
    if isinstance(value, dict):
        return {k: filled_in(v, environment, text, (*path, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [filled_in(v, environment, text, (*path, i)) for i, v in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    missing = []

    def replaced(found: re.Match[str]) -> str:
        escaped, name, default = found.groups()
        if escaped:
            return found.group()[1:]
        if name in environment:
            return environment[name]
        if default is None:
            known = f"set it, or write ${{{name}:-a default}}"
            text.note(path, f"the environment variable {name} is not set: {known}")
            missing.append(name)
        return default or ""

    replacement = _VARIABLE.sub(replaced, value)
    return NotSet(value) if missing else FromEnvironment(replacement)
