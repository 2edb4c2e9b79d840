"""JSON texts to parse: plain ones, and whatever a stream may bring."""

from __future__ import annotations

import random

DDL = (
    "a int, b string, l bigint, y tinyint, h smallint, d double, f float, p decimal(7,2), "
    "o boolean, t timestamp, n timestamp_ntz, x date, "
    "s struct<x:int,y:array<int>,z:struct<q:string,w:date>>, m map<string,int>, "
    "v array<struct<a:int,b:string>>, w array<array<int>>, k map<string,struct<a:int>>, "
    "_corrupt_record string"
)
FIELDS = ["a", "b", "l", "y", "h", "d", "f", "p", "o", "t", "n", "x", "s", "m", "v", "w", "k"]
UNKNOWN = "zz"

NUMBERS = [
    "1", "-1", "0", "-0", "127", "200", "255", "256", "-128", "-129", "32768", "-32769", "1e3",
    "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.5",
    "18446744073709551616", "123456789012345678901234567890", "-0.0", "1E-3", "1e400", "-1e400",
    "1e-400", "0.1234567890123456789", "99999.995", "-1.005", "16777217", "1.17549435E-38",
    "3.4028236e38", "4.9e-324", "1.10", "NaN", "Infinity", "-Infinity", "-INF", "+INF",
    "+Infinity", "1" * 1001, "1." + "0" * 1001,
]  # fmt: skip
STRINGS = [
    "x", "", "NaN", "Infinity", "+INF", "-INF", "INF", "1", "1,234.5", "12345.678", "true", "１２",
    "\\u0041", "a\\u00e4\\ud83d\\ude00\\n\\t\\\"\\\\\\/", "\\ud800", "\\udc00\\ud800", "ä€😀",
    "a\\'b", "\x7f", "99999.995", "1e2", " 1", "+1", "null", "\\u0000",
]  # fmt: skip
TIMES = [
    "2020-01-01", "2020-1-1", "2020-01", "2020", "20200101", "2020-01-01T10:00:00Z", "2020-02-30",
    "2020-01-01 10:00:00.123456789", "2020-01-01T10:00:00+02:00", "2020-01-01T10:00+2", "12",
    "2020-01-01T10:00:00-17:59", "2020-01-01T10:00:00+18:00", "2020-01-01T10:00:00+18:01",
    "2020-06-01T10:00:00 Europe/Paris", "2020-03-29T02:30:00", "2020-10-25T02:30:00", "epoch",
    "1500-02-28", "-0044-03-15", "-150000", "2020-13-01", "2020-01-01T25:00:00", "1883-01-01",
    "2020-01-01T10:00:00.000GMT+01:00", "2020-01-01T10:00:00.1 ", "\\u0032020-01-01", " 2020-01-01",
    "2020-01-01T10:00:00.1234567+01", "2020-01-01T10:00:00PST", "2020-01-01T10:00:00 UTC+3",
    "2020-01-01T", "2020-01-01 ", "2020-01-01T10", "2020-01-01T10:00:00.", "294247-01-10",
    "2020-01-01T10:00:00+0230", "2020-01-01T10:00:00 Nowhere", "9999-12-31T23:59:59.999999Z",
]  # fmt: skip
NESTED = [
    "{}", "[]", '{"x":1}', '{"x":"q","y":[1,2],"z":{"q":1.5,"w":"2020-01-01"}}', "[1,2]",
    '{"y":[1,"x",2]}', '[[1],[2,"x"],[3]]', "[[1],[null],null]", '[{"a":1}, 3]', "[null]",
    '[{"a":1},{"a":"x","b":2},null]', '{"k":1,"j":null}', '{"k":"x"}', '{"k":1,"k":2}', "[1.0]",
    '{"k":{"a":1},"j":{"a":"b"}}', '{ "x" : 1 , "y" : [ 1 , 2 ] }', '{"\\u0078":1}', "[[[1]]]",
    '{"a":[1,{"b":-0}],"c":" \\n ","d":1.50}', '{"x":1,"x":2}', '{"k\\n":1}', '{"b":"\\ud800"}',
    '{"\\udc00\\ud83d\\ude00":"\\ud800\\udbff"}', '{"ä€":"😀"}', '["ä€", {"q": "x y"}]',
]  # fmt: skip
MISTAKES = [
    "tru", "nul", "nullx", "nope", "01", "-", "--1", "+1", ".5", "1.", "1e", "1e+", "-01", "-I",
    '"\\q"', '"\\u00g0"', '"tab\there"', "'q'", "'q\"'", '"x" "y"', "1 2", '"open', "[1,tru,2]",
    "[1,2", '{"x":tru}', '{"x":', "[1,,2]", "[1,]", '{"a":1,}', "{x:1}", "[1}", '{"x":1]', "",
    '{"x":tru,"y":[1]}', '{"y":[1,tru,2]}', "[1,1.x,2]", "[1,1.5ex,2]", "[0,0.x,2]", "/*c*/1", "#",
    '[{"a":1},{"b":', '{"k":{"a":', "[[1],[", "trueish", "true,false", "ä", "\x01", "$x", "[01,5]",
]  # fmt: skip
VALUES = [
    *NUMBERS, *(f'"{text}"' for text in STRINGS + TIMES), *NESTED, *MISTAKES, "null", "true",
    "false", " 1 ", "\n2\t",
]  # fmt: skip
WHOLE = [
    "", " ", "\n\t", "null", "[]", '[{"a":1}]', '{"a":1}x', '{"a":1}}', "{}", "{", '{"', '{"a',
    '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,"s":{"x":', '{"a":"q","a":2}', '{"a":1,"a":"q"}',
    "{'a':3}", "{a:1}", '{"a":1 "b":2}', '/*c*/{"a":1}', '{"a":1}//', '\ufeff{"a":1}', "}", "\x01",
    '\x00{"a":1}', '{"\\u0061":5}', "nope", "<xml/>", "1", '"x"', "true", '{"a":1;"b":2}',
    '{"a":1\x00}', '{"s":null,"m":null,"v":null}', '{"A":1,"B":2}', '  {"a" :1 , "b":"x"}  ',
    '{"a":1,"zz":{"q":[1,{"r":2}]}}', "{" * 100, '{"a":1,"zz":' + "[" * 1001, "{'a':1,'b':\"x'\"}",
    "{'a':1,'b':'x\\'y\"z','s':{'y':[1]}}", "{'b':{'q':'x'}}", "{'a':1,'b':'open",
    "{\"b\":'\\u0041'}",
]  # fmt: skip
NOT_TEXT = [
    b'{"b":"\xff\xfe"}', b'{"b":"\xe4\xf6"}', b'\xff{"a":1}', b'{"a":1,"b":"\xc3"}',
    b'{"\xff":1,"a":2}', b'{"b":"\xf0\x9f\x98"}', b'{"b":"\xed\xa0\x80"}', b'{"b":"\xed\xbf"}',
]  # fmt: skip
BYTES = b'A\x80\xbf\xc0\xc3\xa4\xe0\xe2\xed\xf0\xf4\xf5\x9f\x90\xff"\\'
CUTS = ['"', ",", "}", "]", "{", "[", ":", "\\", "x", "1", " ", "'"]


def every_value() -> list[bytes | None]:
    """Each value in each field, between others; and texts as a whole."""
    texts = [
        f'{{"l":7,"{name}":{value},"o":true}}' if name in "ab" else
        f'{{"a":7,"{name}":{value},"b":"after"}}'
        for name in [*FIELDS, UNKNOWN] for value in VALUES
    ]  # fmt: skip
    return [*(text.encode() for text in texts + WHOLE), *NOT_TEXT, None]


def some_text(chosen: random.Random) -> bytes:
    """Fields in any order, some twice; sometimes with a mistake anywhere."""
    if chosen.random() < 0.1:
        junk = bytes(chosen.choice(BYTES) for _ in range(chosen.randint(0, 6)))
        return b'{"a":1,"b":"' + junk + b'","l":2}'
    names = [chosen.choice([*FIELDS, UNKNOWN]) for _ in range(chosen.randint(0, 6))]
    blank = chosen.choice(["", "", " "])
    text = f",{blank}".join(f'"{name}":{blank}{chosen.choice(VALUES)}' for name in names)
    text = f"{{{text}}}"
    if chosen.random() < 0.3:
        at = chosen.randrange(len(text) + 1)
        rest = chosen.choice(CUTS) + text[at + chosen.randint(0, 1) :]
        text = text[:at] + chosen.choice(["", rest])
    return text.encode()
