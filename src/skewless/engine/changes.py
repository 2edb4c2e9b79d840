"""What may change about a query on its checkpoint.

A query is described by facts (`fingerprint`), and every commit has those of the query that wrote
it. A query that takes over with other facts is asked, operator by operator, how it goes on from
that state: a fact that no operator takes over is fixed, and the query is refused. Nothing is
written before its first commit, so that until then the former query can come back, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skewless.state.commits import OperatorState

Facts = Mapping[str, str]
BRACKETS = (("<", ">"), ("(", ")"), ("[", "]"))


@dataclass(frozen=True)
class Adopted:
    """How an operator goes on from the state of one with other facts: with that `state`, changed if
    need be. `accepted` are the facts whose change is right; of others, `refused` may say why theirs
    is not. `notes` tell users what a change means."""

    state: OperatorState | None
    accepted: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def plus(self, other: Adopted) -> Adopted:
        """The same with another fact judged, on top of the state of this one."""
        return Adopted(
            other.state,
            self.accepted | other.accepted,
            {**self.refused, **other.refused},
            self.notes + other.notes,
        )


def differing(before: Facts, after: Facts) -> list[str]:
    """The facts that are not the same, in the order in which they are told."""
    return [fact for fact in {**before, **after} if before.get(fact) != after.get(fact)]


def not_stored(fact: str) -> str:
    """The fact beside that of an input's columns which lists those that it has and that are not
    stored, as nobody asks for them."""
    return f"{fact} not stored"


def columns_facts(fact: str, schema: pa.Schema, left_out: Sequence[str]) -> dict[str, str]:
    """What a fingerprint says of an input's columns."""
    facts = {fact: ", ".join(f"{f.name} {f.type}" for f in schema)}
    return facts | ({not_stored(fact): ", ".join(left_out)} if left_out else {})


def adopt_columns(
    inputs: Mapping[str, str], state: OperatorState | None, before: Facts, after: Facts
) -> Adopted:
    """How stored rows go on if their inputs have other columns: they are looked up by name, and
    those that are new are null in older rows. `inputs` are their facts and how they are called."""
    accepted, refused, notes = set[str](), dict[str, str](), list[str]()
    for fact, name in inputs.items():
        aside = not_stored(fact)
        why = refusal_of_columns(before, after, fact, aside)
        if why:
            refused[fact] = why
            continue
        accepted |= {fact, aside}
        new = [c for c in columns_in(after.get(fact, "")) if c not in columns_in(before[fact])]
        if new:
            notes.append(f"{name} has new columns, null in rows from before: {', '.join(new)}")
    return Adopted(state, frozenset(accepted), refused, tuple(notes))


def refusal_of_columns(before: Facts, after: Facts, fact: str, aside: str) -> str | None:
    """Why stored rows cannot go on with other columns; None if they can."""
    old, new = columns_in(before.get(fact, "")), columns_in(after.get(fact, ""))
    if not old or not new:
        return "such names cannot be told apart"
    left_out = [set(filter(None, facts.get(aside, "").split(", "))) for facts in (before, after)]
    for column, kind in old.items():
        if column not in new and column not in left_out[1]:
            return f"{column!r} is gone: drop it behind the join, with `select`"
        if new.get(column, kind) != kind:
            return f"{column!r} was {kind}: cast it back"
    for column in new:
        if column not in old and column in left_out[0]:
            return f"{column!r} was there, but nobody asked for it, and stored rows do not have it"
    return None


def columns_in(text: str) -> dict[str, str]:
    """Columns and their types, from how a fact lists them; nothing if that cannot be told.

    >>> columns_in("k int64, a b decimal128(10, 2)")
    {'k': 'int64', 'a b': 'decimal128(10, 2)'}
    """
    found: dict[str, str] = {}
    if any(text.count(opened) != text.count(closed) for opened, closed in BRACKETS):
        return {}
    for part in _outside_brackets(text, ", "):
        *name, kind = _outside_brackets(part, " ")
        if not name:
            return {}
        found[" ".join(name)] = kind
    return found


def _outside_brackets(text: str, separator: str) -> Iterator[str]:
    """The parts of a text, divided where no bracket is open."""
    begin = depth = 0
    for at, letter in enumerate(text):
        depth += (letter in "<([") - (letter in ">)]")
        if depth == 0 and text.startswith(separator, at):
            yield text[begin:at]
            begin = at + len(separator)
    yield text[begin:]
