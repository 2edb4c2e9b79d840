"""Which rows belong together: equal keys in one window. Unlike in a join, nulls are a key here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays.columns import Columns
from skewless.arrays.hashing import mix_words
from skewless.arrays.keys import hash_keys, is_exact
from skewless.arrays.sorting import sort_order
from skewless.arrays.types import Ints, KeyColumn, SideSpec, UInts, frozen
from skewless.arrays.values import is_bytes, some_value, words
from skewless.state.segments import Rows


@dataclass(frozen=True)
class Grouped:
    """Rows put together: `order` sorts them by (hash, window), `groups` numbers the groups of the
    sorted rows from 0, and `firsts` has the first of each group among them."""

    order: Ints
    groups: Ints
    firsts: Ints


def hash_groups(columns: Sequence[pa.Array], side: SideSpec, rows: int) -> UInts:
    """The hash of each row's key; all rows share one where there is no key."""
    if not columns:
        return np.zeros(rows, np.uint64)
    filled = [c.fill_null(some_value(c.type)) if c.null_count else c for c in columns]
    hashes = hash_keys(filled, side, None)
    nulls = np.zeros(rows, np.uint64)
    for bit, column in enumerate(columns):
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            nulls |= missing.astype(np.uint64) << np.uint64(bit % 64)
    some = np.flatnonzero(nulls)
    if len(some):
        mixed = hashes[some]
        mix_words(mixed, frozen(nulls[some]))
        hashes[some] = mixed
    return hashes


def group_rows(
    hashes: UInts, windows: Ints, columns: Sequence[pa.Array], side: SideSpec
) -> Grouped:
    """Put rows of equal key and window together."""
    order = sort_order(frozen(hashes), frozen(windows))
    grouped = by_changes(order, [hashes, windows])
    certain = not columns or (is_exact(side) and not columns[0].null_count)
    if certain or _all_alike(grouped, columns, side.keys):
        return grouped
    # Two keys share a hash: tell them apart by their values.
    codes = [code for c, key in zip(columns, side.keys, strict=True) for code in _codes(c, key)]
    order = np.lexsort([*codes, windows, hashes])
    return by_changes(order, [hashes, windows, *codes])


def by_changes(order: Ints, columns: Sequence[npt.NDArray[np.generic]]) -> Grouped:
    """Groups of sorted rows that agree in all columns."""
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return Grouped(order, np.cumsum(new) - 1, np.flatnonzero(new))


def _all_alike(grouped: Grouped, columns: Sequence[pa.Array], keys: Sequence[KeyColumn]) -> bool:
    """Whether every row has the key of its group's first."""
    first = grouped.order[grouped.firsts][grouped.groups]
    for column, key in zip(columns, keys, strict=True):
        for code in _codes(column, key):
            if not np.array_equal(code[grouped.order], code[first]):
                return False
    return True


def _codes(column: pa.Array, key: KeyColumn) -> list[npt.NDArray[np.generic]]:
    """Numbers that are equal where values are."""
    kind = key.type
    if is_bytes(kind):
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        return [encoded.indices.to_numpy(zero_copy_only=False)]
    if not column.null_count:
        return list(words(column, kind))
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return [missing, *words(column.fill_null(some_value(kind)), kind)]


def number_keys(hashes: UInts, columns: Sequence[pa.Array], side: SideSpec) -> UInts:
    """A number per row, equal where the values of keys are; higher where hashes are."""
    grouped = group_rows(hashes, np.zeros(len(hashes), np.int64), columns, side)
    numbers = np.empty(len(hashes), np.uint64)
    numbers[grouped.order] = grouped.groups
    return numbers


def number_parts(parts: Sequence[Rows], side: SideSpec) -> list[UInts]:
    """The same for rows, of which there are only the keys, in several parts."""
    if not parts:
        return []
    hashes = np.concatenate([rows.hashes for rows in parts])
    numbers = number_keys(hashes, Columns.concat([rows.columns for rows in parts]), side)
    return np.split(numbers, np.cumsum([len(rows) for rows in parts])[:-1])


def share_hashes_across(parts: Sequence[Rows], side: SideSpec) -> bool:
    """Whether several keys share a hash, by one row per hash and part."""
    distinct = [
        len(np.unique(np.concatenate(of))) if of else 0
        for of in ([rows.hashes for rows in parts], number_parts(parts, side))
    ]
    return distinct[0] != distinct[1]


def share_hashes(rows: Rows, side: SideSpec) -> bool:
    """Whether neighbours among sorted rows have equal hashes, but not equal keys."""
    same = rows.hashes[1:] == rows.hashes[:-1]
    for column in (rows.columns[key.index] for key in side.keys):
        above, below = column.slice(0, max(len(column) - 1, 0)), column.slice(1)
        alike = [pc.equal(above, below), pc.and_(above.is_null(), below.is_null())]
        if pt.is_floating(column.type):
            alike.append(pc.and_(pc.is_nan(above), pc.is_nan(below)))
        known = [pc.fill_null(one, False).to_numpy(zero_copy_only=False) for one in alike]
        if not np.logical_or.reduce(known)[same].all():
            return True
    return False
