"""Names and types in SQL expressions, by a parser that knows Spark's dialect. It is not Spark: what
it cannot parse, and what it does not know, is left for `run` to judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from skewless.jobfile.columns import Columns, arrow_type, schema_columns, schema_problems
from skewless.jobfile.text import meant

# Words that Spark understands without brackets, and the column that all files have.
NOT_COLUMNS = frozenset({"user", "current_time", "localtimestamp", "_metadata"})


def parsed(text: str) -> Any:
    """An expression, or None if it cannot be parsed here."""
    try:
        return parse_one(text, dialect="spark")
    except (SqlglotError, RecursionError):
        return None


def missing_names(text: str, columns: Columns, also: Sequence[str] = ()) -> list[str]:
    """What is to be said of names in an expression that are certainly no columns. `also` are names
    that it may use beside them."""
    tree = parsed(text)
    if tree is None:
        return []
    found = [_lacks(columns, name, field) for name, field in _names(tree, also)]
    found += [message for schema in _json_schemas(tree) for message in schema_problems(schema)]
    return list(dict.fromkeys(message for message in found if message is not None))


def _lacks(columns: Columns, name: str, field: str | None) -> str | None:
    """What to say of a column, or of a field of it, that is certainly not there."""
    kind = columns.type_of(name)
    if field is None or kind is None or not pt.is_struct(kind):
        return columns.lacks(name)
    fields = [inner.name for inner in kind]
    if field.lower() in (known.lower() for known in fields):
        return None
    return f"`{name}` has no field `{field}`{meant(field, fields)}; it has: {', '.join(fields)}"


def _names(tree: Any, also: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The columns that are named, and which field is taken of each."""
    known = {name.lower() for name in also} | NOT_COLUMNS | set(_lambda_names(tree))
    for column in tree.find_all(exp.Column):
        first, *fields = column.parts
        if isinstance(first, exp.Star):
            continue
        if first.name.lower() not in known:
            is_field = fields and not isinstance(fields[0], exp.Star)
            yield first.name, fields[0].name if is_field else None


def _json_schemas(tree: Any) -> Iterator[str]:
    """The columns that JSON is parsed into, where they are written out."""
    for call in tree.walk():
        if type(call).__name__ == "FromJson" and isinstance(call.expression, exp.Literal):
            yield call.expression.name


def _lambda_names(tree: Any) -> Iterator[str]:
    for function in tree.find_all(exp.Lambda):
        for parameter in function.expressions:
            yield parameter.name.lower()


def selected(expressions: Sequence[str], columns: Columns) -> tuple[Columns, list[tuple[int, str]]]:
    """The columns that a `select` gives, and what is wrong with which of its expressions. As in
    Spark, an expression sees the names that those before it gave."""
    types: dict[str, pa.DataType | None] = {}
    whole, wrong = True, []
    for number, text in enumerate(expressions):
        wrong += [(number, message) for message in missing_names(text, columns, tuple(types))]
        seen = Columns(columns.argument, {**types, **columns.types}, columns.whole)
        given = _given(text, columns, seen)
        whole = whole and given is not None
        lowered = {name.lower() for name in types}
        twice = [name for name in given or {} if name.lower() in lowered]
        wrong += [(number, f"two columns are called `{name}`") for name in twice]
        types |= given or {}
    return Columns(columns.argument, types, whole), wrong


Types = dict[str, pa.DataType | None]


def _given(text: str, columns: Columns, seen: Columns) -> Types | None:
    """Names and types that an expression gives; None if they are not known. It sees more columns
    than `*` stands for: those that were named before it."""
    tree = parsed(text)
    if isinstance(tree, exp.Aliases):
        return {alias.name: None for alias in tree.expressions}
    if isinstance(tree, exp.Alias):
        return {tree.alias: type_of(tree.this, seen)}
    if isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and tree.is_star):
        return _starred(tree, columns)
    if isinstance(tree, exp.Column):
        return {tree.name: type_of(tree, seen)}
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Column) and not tree.this.table:
        return {tree.this.name: arrow_type(tree.to)}
    return None


def _starred(tree: Any, columns: Columns) -> Types | None:
    """What `*`, `* EXCEPT (a)` or `v.*` stands for."""
    if isinstance(tree, exp.Column):
        kind = columns.type_of(tree.parts[0].name) if len(tree.parts) == 2 else None
        if kind is None or not pt.is_struct(kind):
            return None
        return {field.name: field.type for field in kind}
    if not columns.whole or tree.args.get("replace") or tree.args.get("rename"):
        return None
    left_out = {column.name.lower() for column in tree.args.get("except_") or ()}
    return {n: t for n, t in columns.types.items() if n.lower() not in left_out}


def type_of(tree: Any, columns: Columns) -> pa.DataType | None:
    """The type of an expression, where it is plain to see."""
    if isinstance(tree, exp.Paren):
        return type_of(tree.this, columns)
    if isinstance(tree, exp.Cast):
        return arrow_type(tree.to)
    if isinstance(tree, exp.Column) and not isinstance(tree.this, exp.Star):
        names = [part.name for part in tree.parts]
        kind = columns.type_of(names[0])
        for name in names[1:]:
            kind = _field(kind, name)
        return kind
    if type(tree).__name__ == "FromJson" and isinstance(tree.expression, exp.Literal):
        inner, wrong = schema_columns("", tree.expression.name)
        if not wrong and None not in inner.types.values():
            return pa.struct([pa.field(n, t) for n, t in inner.types.items()])
    return None


def _field(kind: pa.DataType | None, name: str) -> pa.DataType | None:
    if kind is None or not pt.is_struct(kind):
        return None
    return next((field.type for field in kind if field.name.lower() == name.lower()), None)
