"""CSV, as Spark reads it: line by line, so that no value holds the end of one.

Values in quotes are read where they are well-formed. Quotes that do not close, or that something
follows, stop the reading: Spark's parser has its own ways with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays.types import frozen
from skewless.errors import ArgumentError, ColumnError
from skewless.expressions.zones import UTC, Zone
from skewless.files import tokens
from skewless.files.converting import HINT, UnfaithfulError, assembled
from skewless.files.lines import blocks
from skewless.files.options import Options
from skewless.files.splits import Split
from skewless.files.texts import (
    CORRUPT,
    MODES,
    TYPES,
    Values,
    Words,
    check_encoding,
    is_number,
)

# Options that are known with one value only.
FIXED = {
    "multiLine": "false",
    "enforceSchema": "true",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


@dataclass(frozen=True)
class Dialect:
    """What the options say."""

    sep: int
    quote: int
    escape: int
    comment: int
    header: bool
    null: str
    mode: str
    words: Words

    @staticmethod
    def of(options: Options, zone: Zone | None = UTC) -> Dialect:
        sep = options.get("sep", options.get("delimiter", ","))
        comment = options.get("comment", "")
        return Dialect(
            sep=_character("sep", "\t" if sep == "\\t" else sep),
            quote=_character("quote", options.get("quote", '"')),
            escape=_character("escape", options.get("escape", "\\")),
            comment=_character("comment", comment) if comment else -1,
            header=options.flag("header"),
            null=options.get("nullValue", ""),
            mode=options.get("mode", MODES[0]).upper(),
            words=Words(
                options.get("nanValue", "NaN"),
                options.get("positiveInf", "Inf"),
                options.get("negativeInf", "-Inf"),
                zone,
                in_any_form=True,
            ),
        )


def _character(name: str, text: str) -> int:
    if len(text) != 1 or not 0 < ord(text) < 128 or text in "\r\n":
        raise ArgumentError(name, text, "one ASCII character")
    return ord(text)


def check(options: Options, schema: pa.Schema) -> None:
    """Refuse what is not read here as Spark reads it."""
    dialect = Dialect.of(options)
    marks = {dialect.sep, dialect.quote, dialect.comment}
    if len(marks) < 3 or dialect.escape in (dialect.sep, dialect.comment):
        raise ArgumentError("sep", chr(dialect.sep), "another one than quote, escape and comment")
    if any(mark in dialect.null for mark in map(chr, {dialect.quote, dialect.escape})):
        raise ArgumentError("nullValue", dialect.null, "without quotes and escapes")
    for name in ("nanValue", "positiveInf", "negativeInf"):
        if is_number(options.get(name, "")):
            raise ArgumentError(name, options.get(name, ""), "another word than a number")
    if dialect.mode not in MODES:
        raise ArgumentError("mode", dialect.mode, f"one of: {', '.join(MODES)}")
    for name, value in FIXED.items():
        if options.get(name, value).lower() != value:
            raise ArgumentError(name, options.get(name, value), f"{value!r}")
    check_encoding(options)
    for field in schema:
        if field.name.lower() == CORRUPT:
            raise ColumnError("column", field.name, "one of the file")
        if field.type not in TYPES and not pa.types.is_decimal128(field.type):
            accepted = "of a number, string, boolean, date or timestamp type"
            raise ColumnError(field.name, str(field.type), accepted)


def read(
    split: Split,
    source: pa.NativeFile,
    fields: Sequence[pa.Field],
    declared: Sequence[pa.Field],
    options: Options,
    zone: Zone | None,
) -> Iterator[pa.RecordBatch]:
    """The lines of a split. `declared` are all columns of the file, in their order. Lines that are
    malformed in any of them are dropped or refused, if that is asked for."""
    dialect = Dialect.of(options, zone)
    looked_at = list(fields) if dialect.mode == MODES[0] else list(declared)
    slots = np.full(len(declared), -1, np.int64)
    for slot, field in enumerate(looked_at):
        slots[next(i for i, other in enumerate(declared) if other.name == field.name)] = slot
    header = dialect.header and split.begin == 0
    for block in blocks(split, source):
        lines = _cut(split, block, dialect, slots, len(looked_at), header=header)
        header = False
        yield _batch(split, lines, looked_at, fields, dialect, len(declared))


@dataclass(frozen=True)
class Lines:
    """Where the values of some lines stand."""

    data: Any
    begins: Any
    ends: Any
    kinds: Any
    counts: Any


def _cut(
    split: Split, block: pa.Buffer, dialect: Dialect, slots: Any, wanted: int, *, header: bool
) -> Lines:
    data = frozen(np.frombuffer(block, np.uint8))
    most = tokens.count_lines(data)
    begins, ends, kinds = tokens.spread(wanted, most)
    counts = np.zeros(most, np.int32)
    marks = (dialect.sep, dialect.quote, dialect.escape, dialect.comment)
    rows, odd = tokens.cut(data, *marks, header, slots, begins, ends, kinds, counts)
    if odd >= 0:
        text = bytes(data[odd : odd + 80]).split(b"\n")[0].decode(errors="replace")
        raise UnfaithfulError(f"{split.path}: quotes are not well-formed in {text!r}. {HINT}")
    return Lines(data, begins[:, :rows], ends[:, :rows], kinds[:, :rows], counts[:rows])


def _batch(
    split: Split,
    lines: Lines,
    looked_at: Sequence[pa.Field],
    fields: Sequence[pa.Field],
    dialect: Dialect,
    width: int,
) -> pa.RecordBatch:
    null = np.frombuffer(dialect.null.encode(), np.uint8)
    malformed = lines.counts != width
    found = {}
    for slot, field in enumerate(looked_at):
        places = (lines.data, lines.begins[slot], lines.ends[slot], lines.kinds[slot])
        tokens.forget(*places, null)
        try:
            values = Values(*places, dialect.quote, dialect.escape)
            found[field.name], bad = values.of_type(field.type, dialect.words)
        except UnfaithfulError as error:
            raise UnfaithfulError(f"{split.path}: column `{field.name}`: {error}") from error
        if bad is not None:
            malformed |= bad
    made = assembled(len(malformed), fields, [found[field.name] for field in fields])
    if dialect.mode == MODES[0] or not malformed.any():
        return made
    if dialect.mode == "FAILFAST":
        count = int(malformed.sum())
        raise UnfaithfulError(f"{split.path}: malformed lines: {count}; the mode is FAILFAST")
    return made.filter(pa.array(~malformed))
