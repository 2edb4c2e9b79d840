"""Strings: what Spark counts in characters is counted in code points."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from .tree import Datum


def matches_like(value: Datum, pattern: str, escape: str) -> Datum:
    """`%` is any text, `_` any character. Most patterns are plainer than that."""
    text, anywhere, other = _plain(pattern, escape)
    if other:
        return pc.match_substring_regex(value, like_regex(pattern, escape))
    if anywhere == (False, False):
        return pc.equal(value, pa.scalar(text, value.type))
    if anywhere == (False, True):
        return pc.starts_with(value, text)
    if anywhere == (True, False):
        return pc.ends_with(value, text)
    return pc.match_substring(value, text)


def _tokens(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Characters, and whether they stand for others."""
    found, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            found.append((next(characters), False))
        else:
            found.append((character, character in "%_"))
    return found


def is_like_pattern(pattern: str, escape: str) -> bool:
    """Whether whatever is escaped may be: a wildcard, or the escape character itself."""
    characters = iter(pattern)
    return all(
        next(characters, "") in ("%", "_", escape)
        for character in characters
        if character == escape
    )


def _plain(pattern: str, escape: str) -> tuple[str, tuple[bool, bool], bool]:
    """The text, whether anything may stand before and behind it, whether there is more to it."""
    tokens = _tokens(pattern, escape)
    before = bool(tokens) and tokens[0] == ("%", True)
    tokens = tokens[1:] if before else tokens
    behind = bool(tokens) and tokens[-1] == ("%", True)
    tokens = tokens[:-1] if behind else tokens
    if not tokens and before:
        behind = True
    text = "".join(character for character, _ in tokens)
    return text, (before, behind), any(is_wild for _, is_wild in tokens)


def like_regex(pattern: str, escape: str) -> str:
    wild = {"%": ".*", "_": "."}
    parts = [wild[c] if is_wild else re.escape(c) for c, is_wild in _tokens(pattern, escape)]
    return f"(?s)^{''.join(parts)}$"


def matches_regex(value: Datum, pattern: str) -> Datum:
    return pc.match_substring_regex(value, pattern)


PLAIN_REGEX = re.compile(
    r"\^?(?:(?:[A-Za-z0-9 _:;,/@#=<>!%&~'\"-]|\\[.+*?()|\[\]{}^$\\]"
    r"|\[[A-Za-z0-9_]+(?:-[A-Za-z0-9])?\]|\[(?:[A-Za-z0-9]-[A-Za-z0-9])+\])[+*?]?)*"
)


def is_common_regex(pattern: str) -> bool:
    """Whether a pattern means the same to Java and to RE2 beyond doubt: literal characters, classes
    of letters and digits, repetition of these."""
    return PLAIN_REGEX.fullmatch(pattern) is not None


def starts_with(value: Datum, text: str) -> Datum:
    return pc.starts_with(value, text)


def ends_with(value: Datum, text: str) -> Datum:
    return pc.ends_with(value, text)


def contains(value: Datum, text: str) -> Datum:
    return pc.match_substring(value, text)


def trimmed(value: Datum, characters: str, side: str) -> Datum:
    trim = {"both": pc.utf8_trim, "left": pc.utf8_ltrim, "right": pc.utf8_rtrim}[side]
    return trim(value, characters=characters) if characters else value


def length(value: Datum) -> Datum:
    return pc.cast(pc.utf8_length(value), pa.int32())


def byte_length(value: Datum) -> Datum:
    return pc.cast(pc.binary_length(value), pa.int32())


def substring(value: Datum, position: int, count: int) -> Datum:
    """From a position on, which counts from 1, or from the end if negative."""
    start = position - 1 if position > 0 else position
    stop = start + max(count, 0)
    if start < 0:
        return pc.utf8_slice_codeunits(value, start, None if stop >= 0 else stop)
    return pc.utf8_slice_codeunits(value, start, min(stop, (1 << 31) - 1))


def concatenated(*values: Datum) -> Datum:
    return pc.binary_join_element_wise(*values, pa.scalar("", values[0].type))


def replaced(value: Datum, text: str, by: str) -> Datum:
    return pc.replace_substring(value, text, by) if text else value


def position(value: Datum, text: str) -> Datum:
    """Where a text is found first, counted from 1; 0 if it is not."""
    at = pc.find_substring(value, text)
    if pc.all(pc.string_is_ascii(value)).as_py() is not True:
        before = pc.list_element(pc.split_pattern(value, text, max_splits=1), 0) if text else value
        characters = pc.utf8_length(before) if text else at
        at = pc.if_else(pc.less(at, pa.scalar(0, at.type)), at, characters)
    return pc.cast(pc.add(at, pa.scalar(1, at.type)), pa.int32())
