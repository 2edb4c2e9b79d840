"""Keys as people are told of them: as long as they care to read, or not at all where nobody is to
see them. Only for people: what a key is, its hash says."""

from __future__ import annotations

import hashlib

CHARS_MAX = 250
CHARS_SHOWN = 200  # of a key that is longer


def bounded(text: str) -> str:
    """A key that may be long: how it begins, and a hash of all of it, so that it is told apart from
    others that begin so. Doing it twice changes nothing.

    >>> bounded("42")
    '42'
    >>> bounded("x" * 1000)[198:]
    'xx… (1000 characters, #1f6a7de15b1e)'
    """
    if len(text) <= CHARS_MAX:
        return text
    return f"{text[:CHARS_SHOWN]}… ({len(text)} characters, {_hash(text)})"


def hidden(text: str, salt: bytes) -> str:
    """What is said instead of a key.

    >>> hidden("42", b"salt"), hidden("42", b"another")
    ('#b0afe6297249', '#38b0afd1ab8f')
    """
    return _hash(text, salt)


def _hash(text: str, salt: bytes = b"") -> str:
    return f"#{hashlib.blake2b(text.encode(), digest_size=6, key=salt).hexdigest()}"
