"""From an exception to one clear line."""

from __future__ import annotations

import re

from skewless.errors import SkewlessError

OURS = 2  # exit code: something the user can mend, and is told how
OTHER = 1  # exit code: Spark, or the source or sink behind it, failed

# An error that has crossed from Python through the JVM is a text. Ours stands in it as
# `skewless.errors.X: message`, ended by whatever Spark adds.
_OURS_IN_TEXT = re.compile(
    r"skewless\.errors\.\w+: (.*?)"
    r"(?=\n\s*\n|\n\s*at |\n\s*Traceback|\n\s*SQLSTATE|\n===|\n\s*During handling|\Z)",
    re.DOTALL,
)
_RAISED = re.compile(
    r'^(?:: |Caused by: |Exception in thread "\w+" )?'
    r"(?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b: (?P<message>.+)$",
    re.MULTILINE,
)
_WRAPPERS = (
    "An error occurred while calling",
    "An exception was raised by the Python Proxy",
    "[STREAM_FAILED]",
    "[FOREACH_BATCH_USER_FUNCTION_ERROR]",
)


def explain(error: BaseException) -> tuple[str, int] | None:
    """The line to show and the exit code; None for what is nobody's mistake but ours."""
    if isinstance(error, SkewlessError):
        return str(error), OURS
    if is_sparks(error):
        ours = _OURS_IN_TEXT.findall(str(error))
        if ours:
            return str(ours[-1]).strip(), OURS
        return f"Spark failed: {first_line(error)}", OTHER
    if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
        return str(error), OURS
    return None


def is_sparks(error: BaseException) -> bool:
    # By name, so that no command has to import pyspark for the sake of its errors.
    return any(kind.__module__.split(".")[0] in ("pyspark", "py4j") for kind in type(error).__mro__)


def first_line(error: BaseException) -> str:
    """What a long error of Spark says, without its classes, plans and stacks."""
    return root_cause(str(error)) or type(error).__name__


def root_cause(text: str) -> str:
    """The message of the innermost error in a text full of stacks; else its first line."""
    raised = [match["message"].strip() for match in _RAISED.finditer(text)]
    telling = [message for message in raised if not message.startswith(_WRAPPERS)]
    # Spark's own errors begin with their class in brackets and are written for people.
    classed = [message for message in telling if message.startswith("[")]
    if telling:
        return (classed or telling)[-1]
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
