"""Columns and their types as a job file tells them, without Spark: what a schema says, and what
sources have that need none. What is not known for certain is left open, never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from skewless.jobfile.model import Source, format_meant
from skewless.jobfile.text import meant

UTC = pa.timestamp("us", "UTC")
PLAIN: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(),
    "VARCHAR": pa.string(), "CHAR": pa.string(), "BINARY": pa.binary(), "DATE": pa.date32(),
    "TIMESTAMPTZ": UTC, "TIMESTAMPLTZ": UTC, "TIMESTAMPNTZ": pa.timestamp("us"),
}  # fmt: skip
NESTED = ("ARRAY", "STRUCT", "MAP")
# The words that a type of Spark can begin with.
WORDS = (
    "array", "bigint", "binary", "bool", "boolean", "byte", "char", "character", "date", "dec",
    "decimal", "double", "float", "geography", "geometry", "int", "integer", "interval", "long",
    "map", "numeric", "real", "short", "smallint", "string", "struct", "time", "timestamp",
    "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar", "variant", "void",
)  # fmt: skip
KAFKA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, " \
        "timestamp TIMESTAMP, timestampType INT"  # fmt: skip
# What sources have that need no schema.
OWN_COLUMNS = {
    "rate": "timestamp TIMESTAMP, value BIGINT",
    "rate-micro-batch": "timestamp TIMESTAMP, value BIGINT",
    "kafka": KAFKA,
    "text": "value STRING",
}
_COLUMN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+|(?<=`))(\w+)(.*)", re.DOTALL)
_NAME = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)\s*:?\s*")


@dataclass(frozen=True)
class Columns:
    """Names and types of columns; None is a type that is not known. If they are not `whole`, there
    may be others. `argument` names who has them."""

    argument: str
    types: Mapping[str, pa.DataType | None]
    whole: bool = True

    @property
    def names(self) -> list[str]:
        return list(self.types)

    def find(self, name: str) -> str | None:
        """A column's name as it is written, found as Spark finds it: without regard to case."""
        return next((known for known in self.types if known.lower() == name.lower()), None)

    def type_of(self, name: str) -> pa.DataType | None:
        found = self.find(name)
        return None if found is None else self.types[found]

    def lacks(self, name: str) -> str | None:
        """What to say of a column that is certainly not there."""
        if not self.whole or self.find(name) is not None:
            return None
        near = meant(name, self.names)
        return f"no column `{name}` in `{self.argument}`{near}; it has: {', '.join(self.names)}"

    def described(self, name: str) -> str:
        return f"{self.find(name) or name} ({type_name(self.type_of(name))})"


def open_columns(argument: str) -> Columns:
    """Columns of which nothing is known."""
    return Columns(argument, {}, whole=False)


def source_columns(source: Source) -> tuple[Columns, list[str]]:
    """What a source has before its `where` and `select`, and what is wrong with its schema."""
    if source.schema is not None:
        return schema_columns(source.name, source.schema)
    own = OWN_COLUMNS.get(format_meant(source.format))
    extra = {key.lower() for key in source.options or {}}
    if own is None or "includeheaders" in extra:
        return open_columns(source.name), []
    return schema_columns(source.name, own)


def schema_columns(argument: str, schema: str) -> tuple[Columns, list[str]]:
    """The columns of a schema as Spark writes it: "id BIGINT, at TIMESTAMP". One whose type is
    wrong is there all the same."""
    types: dict[str, pa.DataType | None] = {}
    wrong: list[str] = []
    lowered: set[str] = set()
    whole = True
    for part in _parts(schema):
        name, word, rest = _column(part)
        if not word:
            wrong.append(f'`{part.strip()}` is no column and type, such as "id BIGINT"')
        elif word.lower() not in WORDS:
            wrong.append(
                f"`{word}`, of the column `{name}`, is no type{meant(word.lower(), WORDS)}"
            )
        if not name:
            whole = False
            continue
        if name.lower() in lowered:
            wrong.append(f"two columns are called `{name}`")
        lowered.add(name.lower())
        types[name] = parsed_type(f"{word}{rest}")
    return Columns(argument, types, whole), wrong


def _column(part: str) -> tuple[str, str, str]:
    """A column's name, the first word of its type, and the rest of it; what is not there is ''."""
    found = _COLUMN.fullmatch(part)
    if found is None:
        alone = _NAME.fullmatch(part)
        return (_unquoted(alone[1]) if alone else "", "", "")
    return _unquoted(found[1]), found[2], found[3]


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def schema_problems(schema: str) -> list[str]:
    """What is wrong with a schema, if it is one of columns at all: JSON is parsed into other types,
    too."""
    is_columns = all(_COLUMN.fullmatch(part) for part in _parts(schema))
    return schema_columns("", schema)[1] if is_columns else []


def _parts(schema: str) -> Iterator[str]:
    """The columns of a schema: commas within brackets and quotes do not part them."""
    depth, quote, start = 0, "", 0
    for i, letter in enumerate(schema):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "`'\"":
            quote = letter
        elif letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == "," and not depth:
            yield schema[start:i]
            start = i + 1
    yield schema[start:]


def parsed_type(text: str) -> pa.DataType | None:
    """A type of Spark in Arrow, as the engine has it; None if it cannot be told."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    if re.search(r"\bcollate\b", text, re.IGNORECASE):
        return None
    try:
        found: Any = parse_one(f"STRUCT<x: {text}>", into=exp.DataType, dialect="spark")
        return arrow_type(found.expressions[0].args["kind"])
    except (SqlglotError, IndexError, KeyError, AttributeError):
        return None


def arrow_type(kind: Any) -> pa.DataType | None:
    """A type that sqlglot has parsed."""
    name = getattr(kind.this, "name", "")
    if name == "DECIMAL":
        digits = [int(parameter.name) for parameter in kind.expressions] or [10]
        return pa.decimal128(digits[0], digits[1] if len(digits) > 1 else 0)
    return _nested_type(name, kind.expressions) if name in NESTED else PLAIN.get(name)


def _nested_type(name: str, inner: list[Any]) -> pa.DataType | None:
    parts = [arrow_type(part.args.get("kind") or part) for part in inner]
    if None in parts or not parts:
        return None
    if name == "STRUCT":
        return pa.struct([pa.field(p.name, t) for p, t in zip(inner, parts, strict=True)])
    return pa.map_(*parts) if name == "MAP" else pa.list_(parts[0])


@cache
def type_name(kind: pa.DataType | None) -> str:
    """A type as Spark writes it.

    >>> type_name(pa.struct([("at", pa.timestamp("ms", "UTC")), ("v", pa.list_(pa.int64()))]))
    'struct<at: timestamp, v: array<bigint>>'
    """
    if kind is None:
        return "of a type that is not known"
    if pt.is_list(kind) or pt.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pt.is_map(kind):
        return f"map<{type_name(kind.key_type)}, {type_name(kind.item_type)}>"
    if pt.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {type_name(f.type)}' for f in kind)}>"
    if pt.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    plain = {
        "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int",
        "int64": "bigint", "date32[day]": "date", "large_string": "string",
        "large_binary": "binary",
    }  # fmt: skip
    return plain.get(str(kind), str(kind).replace("decimal128", "decimal"))


def group_of(kind: pa.DataType) -> str:
    """What types are alike when they are compared."""
    if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        return "number"
    if pt.is_timestamp(kind) or pt.is_date32(kind):
        return "time"
    for name, check in (
        ("string", pt.is_string), ("array", pt.is_list), ("struct", pt.is_struct),
        ("map", pt.is_map), ("boolean", pt.is_boolean), ("binary", pt.is_binary),
    ):  # fmt: skip
        if check(kind):
            return name
    return "other"


def are_comparable(a: pa.DataType | None, b: pa.DataType | None, *, ansi: bool = True) -> bool:
    """Whether Spark compares two types for equality; True where that is not certain."""
    if a is None or b is None:
        return True
    groups = {group_of(a), group_of(b)}
    if "map" in groups:
        return False
    if len(groups) == 1 or "other" in groups:
        return True  # of arrays and structs, their parts decide
    if groups == {"boolean", "number"}:
        return not ansi
    return "string" in groups and not groups & {"array", "struct"}
