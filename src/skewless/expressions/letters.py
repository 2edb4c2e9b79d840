"""Upper and lower case. Which letters there are depends on a version of Unicode: the JVM's table
is part of the tree, so that no other is asked."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from .tree import Datum

Table = tuple[tuple[str, str], ...]  # letters that change, and what becomes of them
SIGMA, FINAL_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}", "\N{GREEK SMALL LETTER FINAL SIGMA}"


def upper(value: Datum, table: Table) -> Datum:
    return pc.ascii_upper(value) if _is_ascii(value) else _mapped(value, table)


def lower(value: Datum, table: Table) -> Datum:
    return pc.ascii_lower(value) if _is_ascii(value) else _mapped(value, table)


def _is_ascii(value: Datum) -> bool:
    return pc.all(pc.string_is_ascii(value)).as_py() is not False


def _mapped(value: pa.StringArray, table: Table) -> pa.StringArray:
    """Every different string is looked at once."""
    encoded = value.dictionary_encode()
    letters = _letters(table)
    words = [_word(word, letters) for word in encoded.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(encoded.indices)


@cache
def _letters(table: Table) -> dict[int, str]:
    return {ord(letter): other for letter, other in table}


def _word(word: str, letters: dict[int, str]) -> str:
    mapped = word.translate(letters)
    if SIGMA not in word or ord(SIGMA) not in letters:
        return mapped
    # The only letter whose form depends on those around it: Python knows the rule.
    lowered, made = word.lower(), []
    for i, letter in enumerate(word):
        is_final = letter == SIGMA and lowered[len(word[:i].lower())] == FINAL_SIGMA
        made.append(FINAL_SIGMA if is_final else letters.get(ord(letter), letter))
    return "".join(made)
