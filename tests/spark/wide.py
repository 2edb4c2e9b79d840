"""Two streams with a column of every type that can be a key, among them nulls, NaN and -0.0."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.spark.support import TIMESTAMP, at

LEFT = pa.schema(
    [
        ("lid", pa.int64()), ("at", TIMESTAMP), ("i", pa.int32()), ("j", pa.int8()),
        ("s", pa.string()), ("m", pa.decimal128(10, 2)), ("day", pa.date32()),
        ("blob", pa.binary()), ("flag", pa.bool_()), ("f", pa.float32()), ("x", pa.float64()),
        ("ts", TIMESTAMP), ("ntz", pa.timestamp("us")),
    ]
)  # fmt: skip
RIGHT = pa.schema(
    [
        ("rid", pa.int64()), ("seen", TIMESTAMP), ("i", pa.int64()), ("n", pa.int16()),
        ("s", pa.string()), ("m", pa.decimal128(14, 4)), ("day", pa.date32()),
        ("blob", pa.binary()), ("flag", pa.bool_()), ("f", pa.float64()), ("x", pa.float64()),
        ("ts", TIMESTAMP), ("ntz", pa.timestamp("us")),
    ]
)  # fmt: skip

FLOATS = (0.0, -0.0, float("nan"), 1.5, -1.5, 1.75, float("inf"), 0.1)
TEXTS = ("", "a", "b", "ab", "ä€", "x" * 30)
BLOBS = (b"", b"\0", b"\0\0", b"\0\1", b"skew" * 5)


def wide_tables(side: str, batches: int = 2, rows: int = 40) -> list[pa.Table]:
    chance = random.Random(f"{side} of a wide stream")
    schema = LEFT if side == "left" else RIGHT
    number, time = schema.names[:2]
    tables = []
    for batch in range(batches):
        made = [_row(chance, side) for _ in range(rows)]
        for i, row in enumerate(made):
            row[number] = batch * rows + i
            row[time] = at(batch * 10 + chance.randrange(100) / 10)
        tables.append(pa.Table.from_pylist(made, schema))
    return tables


def _row(chance: random.Random, side: str) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.06 else value

    cents = chance.choice(["0.00", "1.10", "-1.10", "1.25", "99999999.99"])
    money = Decimal(cents) if side == "left" else Decimal(cents) + chance.choice([0, 1]) * PIP
    moment = at(chance.randrange(12))
    return {
        "i": maybe(chance.randrange(-2, 4)),
        "j" if side == "left" else "n": maybe(chance.randrange(-3, 3)),
        "s": maybe(chance.choice(TEXTS)),
        "m": maybe(money),
        "day": maybe(date(2024, 2, 28) + timedelta(days=chance.randrange(5))),
        "blob": maybe(chance.choice(BLOBS)),
        "flag": maybe(chance.random() < 0.3),
        "f": maybe(chance.choice(FLOATS)),
        "x": maybe(chance.choice(FLOATS)),
        "ts": maybe(moment),
        "ntz": maybe(moment.replace(tzinfo=None)),
    }


PIP = Decimal("0.0001")
