"""On which line of a TOML file a key stands. `tomllib` reads values but does not tell.

The scanner trusts that `tomllib` has accepted the text, so it only has to follow it: table headers,
dotted and quoted keys, and values that run over several lines.
"""

from __future__ import annotations

import re
import tomllib

Path = tuple[str | int, ...]

_BLANK = re.compile(r"[ \t]*")
_BLANK_LINES = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]+")
_STRINGS = (
    re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)


def key_lines(text: str) -> dict[Path, int]:
    """The line of every key, table and list element, by its path.

    >>> key_lines('a = 1\\n[t]\\nb.c = [2,\\n 3]')[("t", "b", "c", 1)]
    4
    """
    return _Scanner(text.replace("\r\n", "\n")).document()


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """The line of a path, or of the nearest thing around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[Path, int] = {}
        self._tables_in: dict[Path, int] = {}  # how many tables an array of tables has so far

    def document(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(_BLANK_LINES)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK_LINES)
        return self._lines

    def _header(self) -> Path:
        """`[a.b]` or `[[a.b]]`; the latter begins the next table of an array."""
        line = self._line()
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        *outer, last = self._key()
        path: Path = ()
        for part in outer:
            path = self._latest((*path, part))
            self._lines.setdefault(path, line)
        path = (*path, last)
        self._lines.setdefault(path, line)
        if is_array:
            self._tables_in[path] = self._tables_in.get(path, 0) + 1
        path = self._latest(path)
        self._lines.setdefault(path, line)
        self._at += 2 if is_array else 1
        return path

    def _latest(self, path: Path) -> Path:
        """The last table of an array of tables; any other path as it is."""
        count = self._tables_in.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, table: Path) -> None:
        line, path = self._line(), table
        for part in self._key():
            path = (*path, part)
            self._lines.setdefault(path, line)
        self._at += 1  # the equals sign
        self._skip(_BLANK)
        self._value(path)

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._skip(_BLANK)
            if self._text[self._at] in "\"'":
                parts.append(str(tomllib.loads(f"key = {self._string()}")["key"]))
            else:
                parts.append(self._take(_BARE_KEY))
            self._skip(_BLANK)
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _value(self, path: Path) -> None:
        self._lines.setdefault(path, self._line())
        first = self._text[self._at]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._items("]", path)
        elif first == "{":
            self._items("}", path)
        else:
            self._take(_SCALAR)

    def _items(self, end: str, path: Path) -> None:
        """The elements of a list, or the pairs of an inline table."""
        self._at += 1
        count = 0
        self._skip(_BLANK_LINES)
        while self._text[self._at] != end:
            if end == "]":
                self._value((*path, count))
            else:
                self._pair(path)
            count += 1
            self._skip(_BLANK_LINES)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_BLANK_LINES)
        self._at += 1

    def _string(self) -> str:
        found = next(m for s in _STRINGS if (m := s.match(self._text, self._at)))
        self._at = found.end()
        return found.group()

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None, f"tomllib accepted what the scanner cannot follow: {self._line()}"
        self._at = found.end()
        return found.group()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1
