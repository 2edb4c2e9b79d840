"""JSON texts cut into values, without making anything of these: loops over bytes.

Of each text the fields that are asked for are found, with the kind of their value and where it
stands. What is plain is cut here. What Spark's parser takes in ways of its own is `ODD`: a field
that comes twice, most mistakes. A text is `BAD` only where it is certain that Spark
makes nothing but nulls of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skewless.arrays.compiled import kernel

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]
Kinds = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

# Kinds of values. Strings are without their quotes; those with a backslash are `ESCAPED`.
NONE, NULL, STRING, ESCAPED, INT, FLOAT, TRUE, FALSE, OBJECT, ARRAY, NO_NUMBER = range(11)
FINE, EMPTY, BAD, ODD = range(4)  # what came of a text
AT_END, STRANGE = -1, -2  # instead of a place: the text ends too early; it is not plain
DEEP = 60
LONG_NUMBER = 300


@kernel
def _blanks(data: Bytes, p: int, end: int) -> int:
    while p < end and (data[p] == 32 or data[p] == 10 or data[p] == 13 or data[p] == 9):
        p += 1
    return p


@kernel
def _is_hex(c: int) -> bool:
    return 48 <= c <= 57 or 65 <= c <= 70 or 97 <= c <= 102


@kernel
def _string(data: Bytes, p: int, end: int) -> tuple[int, int]:
    """The place of the quote that closes the one here, and the kind of string. Spark allows single
    quotes, too."""
    kind, quote = STRING, data[p]
    p += 1
    while p < end:
        while p < end and data[p] != quote and data[p] != 92 and data[p] >= 32:
            p += 1
        if p >= end:
            break
        if data[p] == quote:
            return p, kind
        if data[p] < 32:
            return STRANGE, kind
        kind, p = ESCAPED, _escape(data, p + 1, end)
        if p < 0:
            return p, kind
    return AT_END, kind


@kernel
def _escape(data: Bytes, p: int, end: int) -> int:
    """What follows an escape, of which the backslash is read."""
    if p >= end:
        return AT_END
    c = data[p]
    if c != 117:
        return p + 1 if c in (34, 39, 92, 47, 98, 102, 110, 114, 116) else STRANGE
    for k in range(1, 5):
        if p + k >= end:
            return AT_END
        if not _is_hex(data[p + k]):
            return STRANGE
    return p + 5


@kernel
def _digits(data: Bytes, p: int, end: int) -> int:
    while p < end and 48 <= data[p] <= 57:
        p += 1
    return p


@kernel
def _number(data: Bytes, p: int, end: int) -> tuple[int, int]:
    """Where a number ends, and its kind."""
    begin, kind = p, INT
    if data[p] == 45:
        p += 1
    first = p
    p = _digits(data, p, end)
    if p == first or (data[first] == 48 and p > first + 1):
        return STRANGE, kind
    if p < end and data[p] == 46:
        kind = FLOAT
        first = p + 1
        p = _digits(data, first, end)
        if p == first:
            return STRANGE, kind
    if p < end and (data[p] == 101 or data[p] == 69):
        kind = FLOAT
        p += 1
        if p < end and (data[p] == 43 or data[p] == 45):
            p += 1
        first = p
        p = _digits(data, first, end)
        if p == first:
            return STRANGE, kind
    return (STRANGE if p - begin > LONG_NUMBER else p), kind


@kernel
def _is_word(data: Bytes, p: int, end: int, word: int) -> bool:
    """Whether one of the words stands here."""
    first = _STARTS[word]
    size = _STARTS[word + 1] - first
    if end - p < size:
        return False
    same = True
    for k in range(size):
        same = same and data[p + k] == _WORDS[first + k]
    return same


_NAMES = (b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity")
_TRUE, _FALSE, _NULL, _NAN, _INFINITY, _MINUS_INFINITY = range(6)
_WORDS = np.frombuffer(b"".join(_NAMES), np.uint8)
_STARTS = np.cumsum([0, *map(len, _NAMES)])
_KINDS = np.array([TRUE, FALSE, NULL, NO_NUMBER, NO_NUMBER, NO_NUMBER])


@kernel
def _scalar(data: Bytes, p: int, end: int) -> tuple[int, int, int, int]:
    """What follows a value that is no object or array, its kind, and where it begins and ends."""
    c = data[p]
    if c in (34, 39):
        last, kind = _string(data, p, end)
        return (last if last < 0 else last + 1), kind, p + 1, last
    if 48 <= c <= 57 or (c == 45 and not _is_word(data, p, end, _MINUS_INFINITY)):
        last, kind = _number(data, p, end)
        return last, kind, p, last
    for word in range(6):
        if c == _WORDS[_STARTS[word]] and _is_word(data, p, end, word):
            last = p + _STARTS[word + 1] - _STARTS[word]
            return last, _KINDS[word], p, last
    return STRANGE, NONE, p, p


@kernel
def _nested(data: Bytes, p: int, end: int) -> int:
    """What follows an object or array."""
    inside, depth, need = np.uint64(data[p] == 123), 1, 0
    p += 1
    while True:
        p = _blanks(data, p, end)
        if p >= end:
            return AT_END
        c = data[p]
        is_object = inside & np.uint64(1) == np.uint64(1)
        if need != 1 and c == (125 if is_object else 93):
            p, depth, need, inside = p + 1, depth - 1, 2, inside >> np.uint64(1)
            if depth == 0:
                return p
            continue
        if need == 2:
            if c != 44:
                return STRANGE
            p, need = p + 1, 1
            continue
        if is_object:
            p, _, _ = _member(data, p, end)
            if p < 0:
                return p
            c = data[p]
        if c in (123, 91):
            depth += 1
            if depth > DEEP:
                return STRANGE
            p, need, inside = p + 1, 0, inside << np.uint64(1) | np.uint64(c == 123)
            continue
        p, _, _, _ = _scalar(data, p, end)
        if p < 0:
            return p
        need = 2


@kernel
def _member(data: Bytes, p: int, end: int) -> tuple[int, int, int]:
    """Where the value of a member begins, where its name ends, and what kind of string it is."""
    if data[p] != 34 and data[p] != 39:
        return STRANGE, 0, 0
    last, kind = _string(data, p, end)
    if last < 0:
        return last, 0, 0
    p = _blanks(data, last + 1, end)
    if p >= end:
        return AT_END, 0, 0
    if data[p] != 58:
        return STRANGE, 0, 0
    p = _blanks(data, p + 1, end)
    return (AT_END if p >= end else p), last, kind


@kernel
def _value(data: Bytes, p: int, end: int) -> tuple[int, int, int, int]:
    """What follows a value, its kind, and where it begins and ends."""
    if data[p] != 123 and data[p] != 91:
        return _scalar(data, p, end)
    after = _nested(data, p, end)
    return after, (OBJECT if data[p] == 123 else ARRAY), p, after


@kernel
def _slot(data: Bytes, begin: int, end: int, names: Bytes, starts: Places, guess: int) -> int:
    """The field of a name, or -1. Fields mostly come in the same order."""
    count = starts.size - 1
    for k in range(count):
        slot = guess + k if guess + k < count else guess + k - count
        if starts[slot + 1] - starts[slot] == end - begin:
            same = True
            for q in range(end - begin):
                if names[starts[slot] + q] != data[begin + q]:
                    same = False
                    break
            if same:
                return slot
    return -1


@kernel
def _fields(  # noqa: PLR0911
    data: Bytes,
    p: int,
    end: int,
    row: int,
    names: Bytes,
    starts: Places,
    begins: Places,
    ends: Places,
    kinds: Kinds,
) -> int:
    """The fields of one object, and what came of it. Where a text ends too early within a field
    that is asked for, Spark may keep those before it."""
    p, need, guess = p + 1, 0, 0
    while True:
        p = _blanks(data, p, end)
        if p >= end:
            return BAD
        c = data[p]
        if need != 1 and c == 125:
            return FINE
        if need == 2:
            if c != 44:
                return ODD
            p, need = p + 1, 1
            continue
        name = p + 1
        p, last, kind = _member(data, p, end)
        if p < 0:
            return BAD if p == AT_END else ODD
        if kind == ESCAPED:
            return ODD
        slot = _slot(data, name, last, names, starts, guess)
        is_nested = data[p] == 123 or data[p] == 91
        p, kind, begin, stop = _value(data, p, end)
        if p < 0:
            return BAD if p == AT_END and (slot < 0 or not is_nested) else ODD
        need = 2
        if slot >= 0:
            if kinds[slot, row] != NONE:
                return ODD
            begins[slot, row], ends[slot, row], kinds[slot, row] = begin, stop, kind
            guess = slot + 1 if slot + 2 < starts.size else 0


@kernel
def objects(
    data: Bytes,
    froms: Places,
    tos: Places,
    wanted: Flags,
    names: Bytes,
    starts: Places,
    begins: Places,
    ends: Places,
    kinds: Kinds,
) -> Kinds:
    """The fields of the texts that are wanted, and what came of each."""
    states = np.zeros(froms.size, np.uint8)
    for row in range(froms.size):
        if not wanted[row]:
            continue
        end = tos[row]
        p = _blanks(data, froms[row], end)
        if p >= end:
            states[row] = EMPTY
        elif data[p] != 123:
            states[row] = BAD if 32 < data[p] < 128 else ODD
        else:
            states[row] = _fields(data, p, end, row, names, starts, begins, ends, kinds)
        if states[row] != FINE:
            for slot in range(kinds.shape[0]):
                kinds[slot, row] = NONE
    return states


@kernel
def counts(data: Bytes, froms: Places, tos: Places, wanted: Flags) -> Places:
    """How many elements, or members, there are in arrays, or objects, that are well-formed: sums up
    to each."""
    sums = np.zeros(froms.size + 1, np.int32)
    for row in range(froms.size):
        count = 0
        if wanted[row]:
            is_object = data[froms[row]] == 123
            p, end = _blanks(data, froms[row] + 1, tos[row]), tos[row]
            while data[p] != 93 and data[p] != 125:
                if is_object:
                    p, _, _ = _member(data, p, end)
                p, _, _, _ = _value(data, p, end)
                count += 1
                p = _blanks(data, p, end)
                if data[p] == 44:
                    p = _blanks(data, p + 1, end)
        sums[row + 1] = sums[row] + count
    return sums


@kernel
def elements(
    data: Bytes,
    froms: Places,
    tos: Places,
    wanted: Flags,
    names: Places,
    name_ends: Places,
    name_kinds: Kinds,
    begins: Places,
    ends: Places,
    kinds: Kinds,
) -> None:
    """The same elements, with their names if they have any."""
    at = 0
    for row in range(froms.size):
        if not wanted[row]:
            continue
        is_object = data[froms[row]] == 123
        p, end = _blanks(data, froms[row] + 1, tos[row]), tos[row]
        while data[p] != 93 and data[p] != 125:
            if is_object:
                names[at] = p + 1
                p, name_ends[at], name_kinds[at] = _member(data, p, end)
            p, kinds[at], begins[at], ends[at] = _value(data, p, end)
            at += 1
            p = _blanks(data, p, end)
            if data[p] == 44:
                p = _blanks(data, p + 1, end)


# Values as strings ----------------------------------------------------------------------------


@kernel
def are_odd_texts(data: Bytes, begins: Places, ends: Places, kinds: Kinds) -> Flags:
    """Which values Spark would write anew in other letters, where a string is asked for: numbers
    with a fraction, and what has such or escapes in it."""
    odd = np.zeros(begins.size, np.bool_)
    for i in range(begins.size):
        kind = kinds[i]
        if kind in (FLOAT, NO_NUMBER):
            odd[i] = True
        elif kind == INT:
            odd[i] = data[begins[i]] == 45 and data[begins[i] + 1] == 48
        elif kind in (OBJECT, ARRAY):
            odd[i] = _is_odd_nested(data, begins[i], ends[i])
    return odd


@kernel
def _is_odd_nested(data: Bytes, p: int, end: int) -> bool:
    while p < end:
        c = data[p]
        if c == 34:
            first = p
            p, kind = _string(data, first, end)
            for q in range(first, p):
                if data[q] >= 0xF0:  # letters beyond 16 bits are written as escapes
                    return True
            if kind == ESCAPED:
                return True
        elif c == 45 or 48 <= c <= 57:
            last, kind = _number(data, p, end)
            if kind == FLOAT or last < 0 or (c == 45 and data[p + 1] == 48):
                return True
            p = last - 1
        elif c in (39, 73, 78):
            return True
        p += 1
    return False


@kernel
def gather(data: Bytes, begins: Places, ends: Places, kinds: Kinds) -> tuple[Places, Bytes]:
    """The strings of values one behind the other, and where each begins: escapes are resolved, and
    objects and arrays have no blanks. Half a pair of surrogates is a question mark."""
    total = 0
    for i in range(begins.size):
        if kinds[i] > NULL:
            total += ends[i] - begins[i]
    offsets = np.zeros(begins.size + 1, np.int32)
    held = np.empty(total, np.uint8)
    at = 0
    for i in range(begins.size):
        kind = kinds[i]
        if kind == ESCAPED:
            at = _unescaped(data, begins[i], ends[i], held, at)
        elif kind in (OBJECT, ARRAY):
            at = _compact(data, begins[i], ends[i], held, at)
        elif kind > NULL:
            for p in range(begins[i], ends[i]):
                held[at] = data[p]
                at += 1
        offsets[i + 1] = at
    return offsets, held[:at]


@kernel
def _compact(data: Bytes, p: int, end: int, held: Bytes, at: int) -> int:
    quoted = False
    while p < end:
        c = data[p]
        if c == 34:
            quoted = not quoted
        if quoted or c > 32:
            held[at] = c
            at += 1
        p += 1
    return at


@kernel
def _hex4(data: Bytes, p: int) -> int:
    code = 0
    for k in range(4):
        c = int(data[p + k])
        digit = c - 48 if c < 58 else (c & 0xDF) - 55
        code = code * 16 + digit
    return code


@kernel
def _unescaped(data: Bytes, p: int, end: int, held: Bytes, at: int) -> int:
    while p < end:
        c = int(data[p])
        if c != 92:
            held[at] = c
            at, p = at + 1, p + 1
            continue
        c = int(data[p + 1])
        p += 2
        if c == 117:
            code = _hex4(data, p)
            p += 4
            if 0xD800 <= code < 0xDC00 and p + 6 <= end and data[p] == 92 and data[p + 1] == 117:
                low = _hex4(data, p + 2)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    p += 6
            at = _utf8(63 if 0xD800 <= code < 0xE000 else code, held, at)
            continue
        if c == 98:
            c = 8
        elif c == 102:
            c = 12
        elif c == 110:
            c = 10
        elif c == 114:
            c = 13
        elif c == 116:
            c = 9
        held[at] = c
        at += 1
    return at


@kernel
def _utf8(code: int, held: Bytes, at: int) -> int:
    if code < 0x80:
        held[at] = code
        return at + 1
    if code < 0x800:
        held[at], held[at + 1] = 0xC0 | code >> 6, 0x80 | code & 63
        return at + 2
    if code < 0x10000:
        held[at], held[at + 1] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63
        held[at + 2] = 0x80 | code & 63
        return at + 3
    held[at], held[at + 1] = 0xF0 | code >> 18, 0x80 | code >> 12 & 63
    held[at + 2], held[at + 3] = 0x80 | code >> 6 & 63, 0x80 | code & 63
    return at + 4
