"""The SQL type of a dataclass, from its fields, and values that fit it."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from skewless.placement.figures import Figures

PLAIN = {int: "long", float: "double", str: "string", bool: "boolean"}
UNSIGNED = {"hash": "decimal(20, 0)"}  # Spark has no integer that holds 64 bits without a sign


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The fields with their types, a class's own before those of its bases."""
    hints, own = get_type_hints(kind), vars(kind)["__annotations__"]
    names = [f.name for f in fields(kind)]
    return {n: hints[n] for n in sorted(names, key=lambda n: n not in own)}


def sql_type(kind: Any, more: Mapping[str, str] | None = None) -> str:
    """How Spark writes a type. A dataclass is a struct, with `more` fields behind its own.

    >>> sql_type(dict[str, int]), sql_type(tuple[float, ...]), sql_type(int | None)
    ('map<string, long>', 'array<double>', 'long')
    """
    if kind in PLAIN:
        return PLAIN[kind]
    if kind is Figures:
        return "map<string, array<double>>"
    if is_dataclass(kind):
        assert isinstance(kind, type)
        own = {n: UNSIGNED.get(n) or sql_type(hint) for n, hint in _hints(kind).items()}
        return f"struct<{', '.join(f'{n}: {t}' for n, t in (own | dict(more or {})).items())}>"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return sql_type(_without_none(arguments))
    if origin is tuple:
        return f"array<{sql_type(arguments[0])}>"
    return f"map<{sql_type(arguments[0])}, {sql_type(arguments[1])}>"


def _without_none(arguments: tuple[Any, ...]) -> Any:
    return next(a for a in arguments if a is not type(None))


def sql_value(kind: Any, value: Any, more: Mapping[str, str] | None = None) -> Any:
    """A plain value, as JSON has it, in Python's types for the SQL type: Spark takes no integer for
    a double."""
    if value is None or kind is Figures:
        return value
    if kind is float:
        return float(value)
    if is_dataclass(kind):
        assert isinstance(kind, type)
        own = {
            n: Decimal(value[n]) if n in UNSIGNED else sql_value(hint, value[n])
            for n, hint in _hints(kind).items()
        }
        return own | {n: float(value[n]) if t == "double" else value[n]
                      for n, t in (more or {}).items()}  # fmt: skip
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return sql_value(_without_none(arguments), value)
    if origin is tuple:
        return [sql_value(arguments[0], item) for item in value]
    return value if origin is None else {k: sql_value(arguments[1], v) for k, v in value.items()}
