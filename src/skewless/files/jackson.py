"""Tokens of a JSON text as Spark's parser (Jackson) gives them, mistakes included.

Spark goes on after a mistake wherever a field has one, from where the parser then stands. So what
becomes of a malformed text depends on how far each step has read: this reads as far. It is slow,
and asked only about texts that are not plain.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

NAME, STRING, INT, FLOAT = "name", "string", "int", "float"
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = "{", "}", "[", "]"
TRUE, FALSE, NULL = "true", "false", "null"
ROOT = "root"

DEPTH_MAX = 1000
NUMBER_MAX = 1000  # digits
TOKEN_MAX = 256  # letters of a word that is none, which are read for the error message

_BLANK = re.compile(r"[ \t\r\n]*")
_DIGITS = re.compile(r"[0-9]*")
_PLAIN = {quote: re.compile(rf"[^{quote}\\\x00-\x1f]*") for quote in "\"'"}
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"} | {c: c for c in "\"/\\'"}
_HEX = frozenset("0123456789abcdefABCDEF")
_OPENS = {"{": OPEN_OBJECT, "[": OPEN_ARRAY}
_WORDS = {"t": TRUE, "f": FALSE, "n": NULL}


class MalformedError(Exception):
    """The text is no JSON from here on."""


@dataclass
class Scope:
    kind: str
    index: int = -1
    name: str | None = None


class Tokens:
    """One token after the other; `token` is the current one, None before the first and at the
    end."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.token: str | None = None
        self._value_token: str | None = None  # what stands behind a name, which is read with it
        self._value = ""
        self._unread = False  # the current token is a string that nobody has asked for yet
        self._scopes = [Scope(ROOT)]

    def next(self) -> str | None:
        if self.token == NAME:
            token, self._value_token = self._value_token, None
            self._enter(token)
            self.token = token
            return token
        if self._unread:
            self._unread = False
            self._read_string('"')
        c = self._after_blanks()
        if not c:
            if self._scopes[-1].kind != ROOT:
                raise MalformedError
            self.token = None
            return None
        if c in "}]":
            return self._close(c)
        scope = self._scopes[-1]
        scope.index += 1
        if scope.kind != ROOT and scope.index > 0:
            if c != ",":
                raise MalformedError
            c = self._expected()
        if scope.kind != OPEN_OBJECT:
            token = self._begin(c)
            self._enter(token)
            self.token = token
            return token
        if c not in ('"', "'"):
            raise MalformedError
        scope.name = self._read_string(c)
        self.token = NAME
        if self._expected() != ":":
            raise MalformedError
        self._value_token = self._begin(self._expected())
        return NAME

    @property
    def name(self) -> str | None:
        """The name that the current token belongs to."""
        at = -2 if self.token in (OPEN_OBJECT, OPEN_ARRAY) else -1
        return self._scopes[at].name

    def text(self) -> str:
        """That of the current string or number."""
        if self._unread:
            self._unread = False
            self._value = self._read_string('"')
        return self._value

    def skip(self) -> None:
        """To the end of the object or array that has just begun, if one has."""
        if self.token not in (OPEN_OBJECT, OPEN_ARRAY):
            return
        depth = 1
        while depth:
            token = self.next()
            if token is None:
                if self._scopes[-1].kind != ROOT:
                    raise MalformedError
                return
            depth += (token in (OPEN_OBJECT, OPEN_ARRAY)) - (token in (CLOSE_OBJECT, CLOSE_ARRAY))

    # Between values -----------------------------------------------------------------------------

    def _after_blanks(self) -> str:
        """The next character that is not blank; none at the end."""
        self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]
        if self._at >= len(self._text):
            return ""
        c = self._text[self._at]
        self._at += 1
        if c < " " or c == "/":
            raise MalformedError
        return c

    def _expected(self) -> str:
        c = self._after_blanks()
        if not c:
            raise MalformedError
        return c

    def _enter(self, token: str | None) -> None:
        if token in (OPEN_OBJECT, OPEN_ARRAY):
            self._scopes.append(Scope(token))
            if len(self._scopes) - 1 > DEPTH_MAX:
                raise MalformedError

    def _close(self, c: str) -> str:
        if self._scopes[-1].kind != ("{" if c == "}" else "["):
            raise MalformedError
        self._scopes.pop()
        self.token = c
        return c

    # Values -------------------------------------------------------------------------------------

    def _begin(self, c: str) -> str:  # noqa: PLR0911
        """A value that begins with some character; of a string no more than that it is one."""
        if c == '"':
            self._unread = True
            return STRING
        if c in _OPENS:
            return _OPENS[c]
        if c in _WORDS:
            self._word(_WORDS[c], 1)
            return _WORDS[c]
        if c == "-" or "0" <= c <= "9":
            return self._number(c)
        if c == "'":
            self._value = self._read_string("'")
            return STRING
        if c in "NI":
            return self._named("NaN" if c == "N" else "Infinity", 1)
        if c == "+":
            return self._no_digit("+", self._one())
        if is_letter(c):
            self._no_word()
        raise MalformedError

    def _one(self) -> str:
        if self._at >= len(self._text):
            raise MalformedError
        self._at += 1
        return self._text[self._at - 1]

    def _word(self, word: str, known: int) -> None:
        """The rest of a word, which no letter follows."""
        for letter in word[known:]:
            if not self._text.startswith(letter, self._at):
                self._no_word()
            self._at += 1
        after = self._text[self._at : self._at + 1]
        if after >= "0" and after not in "]}" and is_part(after):
            self._no_word()

    def _named(self, word: str, known: int) -> str:
        self._word(word, known)
        self._value = word
        return FLOAT

    def _no_word(self) -> None:
        end = self._at
        while end < len(self._text) and end - self._at < TOKEN_MAX and is_part(self._text[end]):
            end += 1
        self._at = end
        raise MalformedError

    def _no_digit(self, sign: str, c: str) -> str:
        """What may follow a sign besides digits."""
        if c == "I":
            c = self._one()
            if c == "N":
                return self._named(f"{sign}INF", 3)
            if c == "n":
                return self._named(f"{sign}Infinity", 3)
        raise MalformedError

    def _number(self, c: str) -> str:
        begin = first = self._at - 1
        if c == "-":
            c = self._one()
            if not "0" <= c <= "9":
                return self._no_digit("-", c)
            first = self._at - 1
        if c == "0":
            if "0" <= self._text[first + 1 : first + 2] <= "9":
                self._at = first + 1
                raise MalformedError
            whole = first + 1
        else:
            whole = self._digits(first)
        end = self._fraction(first, whole)
        self._at = end
        self._value = self._text[begin:end]
        if end - begin > NUMBER_MAX and sum("0" <= d <= "9" for d in self._value) > NUMBER_MAX:
            raise MalformedError
        return INT if end == whole else FLOAT

    def _fraction(self, first: int, whole: int) -> int:
        """Where a number ends whose digits before the point end at `whole`. A mistake leaves the
        parser behind the point, but at the mistake if the number began with 0 or went to the
        end."""
        text, end, missing = self._text, whole, False
        if text.startswith(".", end):
            end = self._digits(whole + 1)
            missing = end == whole + 1
        if not missing and end < len(text) and text[end] in "eE":
            begin = end + 1
            begin += begin < len(text) and text[begin] in "+-"
            end = self._digits(begin)
            missing = end == begin
        if missing:
            at_once = text[first] != "0" and end < len(text)
            self._at = whole + 1 if at_once else min(end + 1, len(text))
            raise MalformedError
        return end

    def _digits(self, at: int) -> int:
        return _DIGITS.match(self._text, at).end()  # type: ignore[union-attr]

    def _read_string(self, quote: str) -> str:
        """Up to the closing quote. A mistake leaves the parser behind it."""
        parts, text = [], self._text
        while True:
            end = _PLAIN[quote].match(text, self._at).end()  # type: ignore[union-attr]
            parts.append(text[self._at : end])
            self._at = end
            c = self._one()
            if c == quote:
                return "".join(parts)
            if c != "\\":
                raise MalformedError
            parts.append(self._escaped())

    def _escaped(self) -> str:
        c = self._one()
        if c in _ESCAPES:
            return _ESCAPES[c]
        if c != "u":
            raise MalformedError
        code = ""
        for _ in range(4):
            code += self._one()
            if code[-1] not in _HEX:
                raise MalformedError
        return chr(int(code, 16))


def is_part(c: str) -> bool:
    """Whether Java lets a name go on with a letter."""
    if ("a" + c).isidentifier() or unicodedata.category(c) in ("Sc", "Cf"):
        return True
    return c <= "\x08" or "\x0e" <= c <= "\x1b" or "\x7f" <= c <= "\x9f"


def is_letter(c: str) -> bool:
    """Whether Java lets a name begin with it."""
    return c.isidentifier() or unicodedata.category(c) == "Sc"
