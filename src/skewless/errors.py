"""Every error skewless raises on purpose.

```text
SkewlessError
├── ArgumentError            a call that cannot work: names the argument, the value and the choices
│   └── ColumnError          a column that is missing, ambiguous or of an unfit type
├── JobFileError             a job file that cannot be understood: names the key and the line
├── DataError                rows that the query was told not to accept
├── ConditionError           a condition that fails on a row, as it would in Spark (ANSI mode)
├── DeliveryError            results that a system outside does not take
├── MissingPackageError      something that is installed on request: says how
└── StateError               something about the state folder
    ├── StateAccessError     it cannot be read or written
    ├── StateDamagedError    a commit or segment is missing, truncated or altered
    ├── StateFormatError     written by a version of skewless that this one does not know
    ├── CheckpointMismatchError  it belongs to another query
    └── CheckpointInUseError     another running query holds it
```
"""

from __future__ import annotations


class SkewlessError(Exception):
    """Base of all errors raised by skewless."""


class ArgumentError(SkewlessError, ValueError):
    """An argument that cannot work.

    >>> raise ArgumentError("how", "outer", "one of: 'inner'")
    Traceback (most recent call last):
    ...
    skewless.errors.ArgumentError: `how` must be one of: 'inner'; received 'outer'
    """

    def __init__(self, argument: str, received: object, accepted: str) -> None:
        self.argument = argument
        self.received = received
        self.accepted = accepted
        super().__init__(f"`{argument}` must be {accepted}; received {received!r}")

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:
        return type(self), (self.argument, self.received, self.accepted)


class ColumnError(ArgumentError):
    """A column that is missing, ambiguous or of a type that does not fit its role."""


class JobFileError(SkewlessError, ValueError):
    """A job file that cannot be understood."""


class DataError(SkewlessError):
    """Rows that the query was told not to accept."""


class ConditionError(SkewlessError):
    """A condition that fails on a row, where Spark would stop the query as well."""


class DeliveryError(SkewlessError):
    """Results that the system they are for does not take. They are committed, and wait."""


class MissingPackageError(SkewlessError, ImportError):
    """A package that only some uses need, and that is not installed."""


class StateError(SkewlessError):
    """Base of all errors about the state folder."""


class StateAccessError(StateError):
    """The state folder cannot be read or written."""


class StateDamagedError(StateError):
    """A commit or a segment is missing, truncated or altered."""


class StateFormatError(StateError):
    """The state was written in a format that this version does not know."""


class CheckpointMismatchError(StateError):
    """The checkpoint belongs to another query."""


class CheckpointInUseError(StateError):
    """Another running query holds the checkpoint."""
