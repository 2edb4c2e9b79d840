"""Rows by the folders that they go to: ``day=2024-01-01/country=de``, named as Spark names them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays.columns import put_together
from skewless.expressions.casting import boolean_to_string, date_to_string, timestamp_to_string
from skewless.expressions.zones import UTC, Zone
from skewless.files.partitions import NO_VALUE

DECIMAL_SCALE_MAX = 6  # Java writes smaller fractions with an exponent, or not, as ANSI mode wants
# Put together before they are divided: that costs about as much for many rows as for few.
GATHER_ROWS = 1 << 18
GATHER_BYTES = 32 << 20
_ESCAPED = re.compile("[\x01-\x1f\"#%'*/:=?\\[\\\\\\]^{\x7f]")
_WHOLE = ("byte", "short", "integer", "long")


def unsupported_key(name: str, type: object, zone: Zone | None) -> str | None:
    """Why folders cannot be named by a column of one of Spark's types (as its JSON has it)."""
    if has_plain_text(type, zone):
        return None
    return f"folders named by the column {name!r} of type {type}"


def has_plain_text(type: object, zone: Zone | None) -> bool:
    """Whether values of a type are written as text the same way wherever Spark does so."""
    written = str(type)
    if written in ("string", "boolean", "date", "timestamp_ntz", *_WHOLE):
        return True
    if written == "timestamp":
        return zone is not None
    decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", written)
    return decimal is not None and int(decimal[1]) <= DECIMAL_SCALE_MAX


def escaped(text: str) -> str:
    """A text as part of a path, as Hive writes it.

    >>> escaped("a/b = 50%")
    'a%2Fb %3D 50%25'
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


@dataclass(frozen=True)
class Partitioning:
    """The columns that name folders, outermost first. Timestamps are written in a zone."""

    columns: tuple[str, ...]
    zone: Zone = UTC

    def split_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The same of many batches, a few at a time."""
        for rows in put_together(batches, GATHER_ROWS, GATHER_BYTES):
            yield from self.split(rows)

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each folder in the order in which they came, without the columns that its
        name tells. A folder may come twice: null and "" share one."""
        rest = rows.drop_columns(list(self.columns))
        codes, firsts = _codes([rows.column(name) for name in self.columns])
        folders = self._folders(rows.select(list(self.columns)).take(pa.array(firsts)))
        if len(folders) == 1:
            yield folders[0], rest
            return
        order = pa.array(np.argsort(codes, kind="stable"))
        ends = np.cumsum(np.bincount(codes, minlength=len(folders)))
        begin = 0
        for folder, end in zip(folders, ends.tolist(), strict=True):
            # Rows of their own, and no slice: a small share would hold the memory of all.
            yield folder, rest.take(order.slice(begin, end - begin))
            begin = end

    def _folders(self, distinct: pa.RecordBatch) -> list[str]:
        """A loop over the distinct folders of a batch, not over its rows."""
        levels = [
            [f"{escaped(name)}={escaped(text) if text else NO_VALUE}" for text in texts]
            for name, texts in (
                (name, key_texts(distinct.column(name), self.zone)) for name in self.columns
            )
        ]
        return ["/".join(level) for level in zip(*levels, strict=True)]


def key_texts(values: pa.Array, zone: Zone) -> list[str | None]:
    """Values as Spark casts them to strings."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = boolean_to_string(values)
    elif pa.types.is_date(kind):
        values = date_to_string(values)
    elif pa.types.is_timestamp(kind):
        values = timestamp_to_string(values, zone if kind.tz else UTC)
    found: list[str | None] = pc.cast(values, pa.string()).to_pylist()
    return found


def _codes(keys: list[pa.Array]) -> tuple[Any, Any]:
    """A number for each distinct combination of values, counted from 0 by when it comes first; and
    the rows where they do."""
    codes = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        found = key.dictionary_encode(null_encoding="encode")
        codes = codes * len(found.dictionary) + found.indices.to_numpy()
        # Counted anew after each column: so they never grow beyond the square of the rows.
        codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    firsts = np.zeros(int(codes.max()) + 1, np.int64)
    firsts[codes[::-1]] = np.arange(codes.size)[::-1]
    narrow = np.uint16 if firsts.size <= 1 << 16 else np.int64  # two bytes are sorted by counting
    return codes.astype(narrow), firsts
