"""What the columns of a result are called when several inputs have a name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from skewless.conditions import Band, Equal
from skewless.errors import ArgumentError, ColumnError


class Names(Protocol):
    """An input, as far as it has names of columns."""

    @property
    def names(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Named:
    """A column of the result: the number of the input and of the column it is taken from. Where a
    row may lack this input, `other` is the equal column of the other one, and `type` what both are
    cast to if they are of two types."""

    input: int
    index: int
    name: str
    other: int | None = None
    type: Any = None


def named_columns(
    inputs: Sequence[Names],
    suffixes: object,
    default: tuple[str, ...],
    merged: Collection[tuple[int, str]] = (),
    taken: Collection[str] = (),
) -> tuple[Named, ...]:
    """All columns, input by input. Those that are `merged`, by number of the input and name, equal
    one of an earlier input under the same name, and are left out. Names that are there several
    times get their input's suffix; none may then be there twice, nor be `taken`."""
    if (
        not isinstance(suffixes, tuple | list)
        or len(suffixes) != len(inputs)
        or not all(isinstance(suffix, str) for suffix in suffixes)
    ):
        count = {1: "one string", 2: "two strings", 3: "three strings"}[len(inputs)]
        raise ArgumentError("suffixes", suffixes, f"{count}, such as {_written(default)}")
    kept = [
        Named(x, i, name)
        for x, this in enumerate(inputs)
        for i, name in enumerate(this.names)
        if (x, name.lower()) not in merged
    ]
    lowered = [column.name.lower() for column in kept]
    named = tuple(
        Named(c.input, c.index, c.name + suffixes[c.input])
        if lowered.count(c.name.lower()) > 1
        else c
        for c in kept
    )
    names = [*taken, *(c.name.lower() for c in named)]
    twice = sorted({n for n in [*taken, *(c.name for c in named)] if names.count(n.lower()) > 1})
    if twice:
        accepted = f"such that no output column appears twice: {twice}"
        raise ColumnError("suffixes", tuple(suffixes), accepted)
    return named


def _written(suffixes: tuple[str, ...]) -> str:
    return "(" + ", ".join(f'"{suffix}"' for suffix in suffixes) + ")"


def merged_keys(conditions: Sequence[tuple[int, int, Equal | Band]]) -> set[tuple[int, str]]:
    """Columns that are joined by equality under one name: there is no need for the second."""
    return {
        (b, pair.right.lower())
        for _, b, pair in conditions
        if not isinstance(pair, Band) and pair.left.lower() == pair.right.lower()
    }
