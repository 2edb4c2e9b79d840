"""CSV as Spark writes it: which values are quoted, trimmed, escaped, and what stands for none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skewless.arrays.compiled import kernel
from skewless.arrays.types import Ints, frozen
from skewless.expressions.zones import UTC, Zone
from skewless.files.parts import NotAsSparkError
from skewless.files.written_texts import (
    CODECS,
    codec_of,
    packed,
    text_of,
    texts,
    unsupported_texts,
)

if TYPE_CHECKING:
    from skewless.files.writing import FileWriting

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

QUOTED_NULLS = "spark.sql.legacy.nullValueWrittenAsQuotedEmptyStringCsv"
SETTINGS = (QUOTED_NULLS,)
OPTIONS = frozenset({
    "compression", "codec", "sep", "delimiter", "quote", "escape", "escapequotes", "quoteall",
    "header", "nullvalue", "emptyvalue", "ignoreleadingwhitespace", "ignoretrailingwhitespace",
    "encoding", "charset",
})  # fmt: skip
ROWS = 1 << 16  # that are made text together
DATA_MAX = (1 << 31) - 1  # bytes of an array of strings
_FLAGS = {
    "header": "false",
    "quoteAll": "false",
    "escapeQuotes": "true",
    "ignoreLeadingWhiteSpace": "true",
    "ignoreTrailingWhiteSpace": "true",
}
_BLANK = ord(" ")  # as Java has it: this, and all before
_COMMENT = ord("#")  # what begins a line with it is quoted


def _given(writing: FileWriting, name: str, default: str) -> str:
    found = writing.option(name)
    return default if found is None else found


def _flag(writing: FileWriting, name: str) -> bool:
    return _given(writing, name, _FLAGS[name]).lower() == "true"


def _separator(writing: FileWriting) -> str:
    given = _given(writing, "sep", _given(writing, "delimiter", ","))
    return "\t" if given == r"\t" else given


def _charset(writing: FileWriting) -> str:
    return _given(writing, "encoding", _given(writing, "charset", "UTF-8"))


def unsupported(writing: FileWriting) -> str | None:
    return (
        _unsupported_flags(writing)
        or _unsupported_letters(writing)
        or (_unsupported_header(writing) if _flag(writing, "header") else None)
        or unsupported_texts(writing)
    )


def _unsupported_flags(writing: FileWriting) -> str | None:
    for name, default in _FLAGS.items():
        value = _given(writing, name, default)
        if value.lower() not in ("true", "false"):
            return f"{name} {value!r}"
    if _flag(writing, "ignoreTrailingWhiteSpace") != _flag(writing, "ignoreLeadingWhiteSpace"):
        return "blanks that are cut off at one end alone"
    if writing.setting(QUOTED_NULLS, "false").lower() != "false":
        return f"the setting {QUOTED_NULLS}"
    return None


def _unsupported_letters(writing: FileWriting) -> str | None:
    separator = _separator(writing)
    quote, escape = (_given(writing, *given) for given in (("quote", '"'), ("escape", "\\")))
    if _charset(writing).upper() != "UTF-8":
        return f"the encoding {_charset(writing)!r}"
    if not re.fullmatch(r"[\t -~]", separator) or separator in ("\\", quote, escape):
        return f"sep {separator!r}"
    for name, letter in (("quote", quote), ("escape", escape)):
        if not re.fullmatch("[!-~]", letter):
            return f"{name} {letter!r}"
    return None


def _unsupported_header(writing: FileWriting) -> str | None:
    """The library that Spark writes with takes names in quotes, or with blanks around, for
    something else."""
    for name in writing.stored_schema.names:
        if not re.fullmatch(r"""[^\x00- '"]|[^\x00- '"].*[^\x00- '"]""", name, re.DOTALL):
            return f"a header with the name of the column {name!r}"
    return None


def ending(writing: FileWriting) -> str:
    return f".csv{CODECS[codec_of(writing)]}"


@dataclass(frozen=True)
class Letters:
    """How values become cells."""

    separator: str
    quote: str
    escape: str
    quotes: str  # what has a value quoted that has it
    quote_all: bool
    trim: bool
    null: str
    empty: str

    @staticmethod
    def of(writing: FileWriting) -> Letters:
        separator, quote = _separator(writing), _given(writing, "quote", '"')
        quotes = f"{separator}\r\n{quote if _flag(writing, 'escapeQuotes') else ''}"
        return Letters(
            separator,
            quote,
            _given(writing, "escape", "\\"),
            quotes,
            _flag(writing, "quoteAll"),
            _flag(writing, "ignoreLeadingWhiteSpace"),
            _given(writing, "nullValue", ""),
            _given(writing, "emptyValue", '""'),
        )

    def cells(self, values: pa.StringArray, is_first: bool) -> pa.StringArray:
        """Those of one column. Lines that begin like a comment are quoted."""
        null, empty = (self._instead(text, is_first) for text in (self.null, self.empty))
        return self._made(values, null, empty, is_first)

    def _instead(self, text: str, is_first: bool) -> bytes:
        """The cell of a value that is null, or empty: a text that comes in quotes stays."""
        if len(text) > 1 and text[0] == text[-1] == self.quote:
            return text.encode()
        nothing = f"{self.quote}{self.quote}".encode() if self.quote_all else b""
        made = self._made(pa.array([text]), nothing, nothing, is_first)
        return bytes(made[0].as_py().encode())

    def _made(
        self, values: pa.StringArray, null: bytes, empty: bytes, is_first: bool
    ) -> pa.StringArray:
        _, offsets, data = values.buffers()
        starts = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
        held = np.frombuffer(data or b"", np.uint8)
        wanted = np.zeros(256, np.bool_)
        wanted[list(self.quotes.encode())] = True
        made, ends = _written(
            frozen(starts),
            frozen(held),
            frozen(pc.is_null(values).to_numpy(zero_copy_only=False)),
            frozen(wanted),
            frozen(np.frombuffer(null, np.uint8)),
            frozen(np.frombuffer(empty, np.uint8)),
            (ord(self.quote), ord(self.escape)),
            (self.quote_all, self.trim, is_first),
        )
        if ends[-1] > DATA_MAX:
            raise NotAsSparkError("more than 2 GiB of one column in some rows")
        buffers = pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(made[: ends[-1]])
        return pa.StringArray.from_buffers(len(values), *buffers)


class Files:
    """Opens the files of one task."""

    def __init__(self, writing: FileWriting) -> None:
        self._codec, self._zone = codec_of(writing), writing.known_zone or UTC
        self._letters = Letters.of(writing)
        self._has_header = _flag(writing, "header")

    def __call__(self, sink: pa.NativeFile, rows: pa.Table) -> CsvFile:
        file = CsvFile(sink, packed(sink, self._codec), self._zone, self._letters)
        if self._has_header:
            file.write_texts([pa.array([name]) for name in rows.schema.names])
        return file


class CsvFile:
    def __init__(self, sink: pa.NativeFile, out: Any, zone: Zone, letters: Letters) -> None:
        self._sink, self._out = sink, out
        self._zone, self._letters = zone, letters

    def write(self, rows: pa.Table) -> None:
        for batch in rows.combine_chunks().to_batches(ROWS):
            self.write_texts([texts(column, self._zone) for column in batch.columns])

    def write_texts(self, columns: list[pa.StringArray]) -> None:
        cells = [self._letters.cells(column, i == 0) for i, column in enumerate(columns)]
        if len(cells) == 1:  # lines without anything are not written
            cells = [cells[0].filter(pc.not_equal(cells[0], ""))]
        *others, last = cells
        ended = pc.binary_join_element_wise(last, "\n", "")
        lines = pc.binary_join_element_wise(*others, ended, self._letters.separator)
        self._out.write(text_of(lines))

    def close(self) -> None:
        if self._out is not self._sink:
            self._out.close()


@kernel
def _written(
    starts: Offsets,
    held: Bytes,
    is_null: Any,
    wanted: Any,
    null: Bytes,
    empty: Bytes,
    letters: tuple[int, int],
    flags: tuple[bool, bool, bool],
) -> tuple[Bytes, Ints]:
    """The cells of texts, one behind the other, and where each ends."""
    quote, escape = letters
    quote_all, trim, is_first = flags
    rows = starts.size - 1
    most = 2 + max(null.size, empty.size)
    out = np.empty(2 * (starts[rows] - starts[0]) + most * rows, np.uint8)
    ends = np.zeros(rows + 1, np.int64)
    at = 0
    for row in range(rows):
        begin, end = starts[row], starts[row + 1]
        whole = end
        if trim and not is_null[row]:
            while begin < end and held[begin] <= _BLANK:
                begin += 1
            while begin < end and held[end - 1] <= _BLANK:
                end -= 1
        if is_null[row] or begin == end:
            instead = null if is_null[row] else empty
            out[at : at + instead.size] = instead
            at += instead.size
            ends[row + 1] = at
            continue
        is_comment = is_first and held[starts[row]] == _COMMENT
        is_quoted = quote_all or is_comment or held[begin] == quote
        if not is_quoted:
            for i in range(begin, whole):  # what is cut off has its say
                if wanted[held[i]]:
                    is_quoted = True
                    break
        if not is_quoted:
            out[at : at + end - begin] = held[begin:end]
            at += end - begin
        else:
            at = _quoted(out, at, held[begin:end], quote, escape)
        ends[row + 1] = at
    return out, ends


@kernel
def _quoted(out: Bytes, at: int, text: Bytes, quote: int, escape: int) -> int:
    """A text in quotes, quotes and escapes in it escaped; where writing goes on."""
    out[at] = quote
    at += 1
    for letter in text:
        if letter in (quote, escape):
            out[at] = escape
            at += 1
        out[at] = letter
        at += 1
    out[at] = quote
    return at + 1
