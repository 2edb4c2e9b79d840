"""Rows as JSON objects, letter for letter as Spark's `to_json` and its JSON writer make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from skewless.expressions.tree import Datum, Expression, Rows, as_array
from skewless.expressions.zones import Zone
from skewless.files.written_texts import texts

_LETTERS = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES = {
    "\\": "\\\\",  # before those that bring new ones
    '"': '\\"',
    **{chr(i): _LETTERS.get(chr(i), f"\\u{i:04X}") for i in range(32)},
}
_SPECIAL = '[\\x00-\\x1f"\\\\]'


@dataclass(frozen=True)
class JsonObject(Expression):
    """`to_json` of a struct that is made of these values."""

    names: tuple[str, ...]
    values: tuple[Expression, ...]
    zone: Zone
    keep_nulls: bool

    heavy = True

    def evaluate(self, rows: Rows) -> Datum:
        columns = [as_array(value.evaluate(rows), rows.count) for value in self.values]
        return objects(self.names, columns, self.zone, self.keep_nulls)


def objects(
    names: Sequence[str], columns: Sequence[pa.Array], zone: Zone, keep_nulls: bool, end: str = ""
) -> pa.StringArray:
    """An object a row, columns that are null left out or kept; `end` stands behind each."""
    # Arrow could skip nulls, and the commas with them, but loses rows that have nothing else.
    members, begun = [], pa.repeat(False, len(columns[0]))
    for name, column in zip(names, columns, strict=True):
        value = _value(column, zone)
        value = pc.fill_null(value, "null") if keep_nulls else value
        label = f"{quoted_name(name)}:"
        before = pc.if_else(begun, pa.scalar(f",{label}"), pa.scalar(label))
        members.append(pc.fill_null(pc.binary_join_element_wise(before, value, ""), ""))
        begun = pc.or_(begun, pc.is_valid(value))
    return pc.binary_join_element_wise("{", *members, "}" + end, "")


def _value(column: pa.Array, zone: Zone) -> pa.Array:
    text = texts(column, zone)
    if pa.types.is_string(column.type):
        return _quoted(_escaped(text))
    if pa.types.is_temporal(column.type):
        return _quoted(text)
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), text, _quoted(text))
    return text


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pa.Array) -> pa.Array:
    """Few strings have anything to be escaped: only those are looked at closely."""
    special = pc.fill_null(pc.match_substring_regex(text, _SPECIAL), False)
    if not pc.any(special).as_py():
        return text
    some = text.filter(special)
    for letter, escape in _ESCAPES.items():
        if pc.any(pc.match_substring(some, letter)).as_py():
            some = pc.replace_substring(some, letter, escape)
    return pc.replace_with_mask(text, special, some)


def quoted_name(name: str) -> str:
    """The name of a column as JSON."""
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in name) + '"'
