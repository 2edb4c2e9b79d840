"""Tables of all types with a seed: nulls, NaN, extremes, empty and missing lists."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

US_MAX = 253_402_300_799_999_999  # the end of year 9999
DDL = {
    "bool": "boolean", "i8": "tinyint", "i16": "smallint", "i32": "int", "i64": "bigint",
    "f32": "float", "f64": "double", "s": "string", "b": "binary", "d": "date",
    "t": "timestamp", "n": "timestamp_ntz", "d5": "decimal(5,2)", "d15": "decimal(15,4)",
    "d38": "decimal(38,10)",
}  # fmt: skip
NESTED = {
    "l": "array<bigint>",
    "ls": "array<string>",
    "st": "struct<a:int,b:string,c:struct<x:double,y:date>>",
    "m": "map<string,int>",
    "deep": "array<struct<k:string,v:map<string,array<timestamp>>>>",
}


def with_nulls(rng: np.random.Generator, values: list[Any], type: pa.DataType) -> pa.Array:
    gone = rng.random(len(values)) < 0.2
    return pa.array([None if g else v for g, v in zip(gone, values, strict=True)], type)


def _integers(rng: np.random.Generator, rows: int, bits: int) -> list[int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    some = rng.integers(low, high, rows, endpoint=True).tolist()
    return [*some[:-2], low, high] if rows >= 2 else some


def _floats(rng: np.random.Generator, rows: int, most: float) -> list[float]:
    odd = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, most, -most, 1e-40]
    return [odd[i % len(odd)] if i % 3 == 0 else x for i, x in enumerate(rng.normal(size=rows))]


def _decimals(rng: np.random.Generator, rows: int, precision: int, scale: int) -> list[Decimal]:
    most = 10**precision - 1
    some = [int(x * most) for x in rng.uniform(-1, 1, rows)]
    some[:2] = [most, -most][: len(some)]
    return [Decimal(x).scaleb(-scale) if abs(x) < 10**28 else _exact(x, scale) for x in some]


def _exact(unscaled: int, scale: int) -> Decimal:
    sign, digits = ("-", str(-unscaled)) if unscaled < 0 else ("", str(unscaled))
    return Decimal(f"{sign}{digits[:-scale]}.{digits[-scale:]}")


def _texts(rng: np.random.Generator, rows: int) -> list[str]:
    words = ["", " ", "a", "ä€😀", "x" * 50, "12", "null", 'q"uo,te', "a\\b", "tab\there"]
    return [words[i] for i in rng.integers(0, len(words), rows)]


def table(rows: int, seed: int) -> pa.Table:
    """Columns as in `DDL`, in Spark's Arrow types."""
    rng = np.random.default_rng(seed)
    us = rng.integers(-2_000_000_000_000_000, US_MAX, rows).tolist()
    days = rng.integers(-100_000, 2_932_896, rows).tolist()
    made = {
        "bool": (rng.random(rows) < 0.5).tolist(),
        "i8": _integers(rng, rows, 8),
        "i16": _integers(rng, rows, 16),
        "i32": _integers(rng, rows, 32),
        "i64": _integers(rng, rows, 64),
        "f32": np.array(_floats(rng, rows, 3e38), np.float32).tolist(),
        "f64": _floats(rng, rows, 1.7e308),
        "s": _texts(rng, rows),
        "b": [rng.bytes(int(n)) for n in rng.integers(0, 9, rows)],
        "d": days,
        "t": us,
        "n": us[::-1],
        "d5": _decimals(rng, rows, 5, 2),
        "d15": _decimals(rng, rows, 15, 4),
        "d38": _decimals(rng, rows, 38, 10),
    }
    types = {
        "bool": pa.bool_(), "i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(),
        "i64": pa.int64(), "f32": pa.float32(), "f64": pa.float64(), "s": pa.string(),
        "b": pa.binary(), "d": pa.date32(), "t": pa.timestamp("us", "UTC"),
        "n": pa.timestamp("us"), "d5": pa.decimal128(5, 2), "d15": pa.decimal128(15, 4),
        "d38": pa.decimal128(38, 10),
    }  # fmt: skip
    return pa.table({name: with_nulls(rng, made[name], types[name]) for name in made})


def nested(rows: int, seed: int) -> pa.Table:
    """Columns as in `NESTED`."""
    rng = np.random.default_rng(seed)

    def some(make: Any, most: int = 3) -> list[Any]:
        return [None if rng.random() < 0.2 else make() for _ in range(rng.integers(0, most + 1))]

    def number() -> int:
        return int(rng.integers(-1000, 1000))

    def text() -> str:
        return _texts(rng, 1)[0]

    def struct() -> dict[str, Any]:
        inner = None if rng.random() < 0.3 else {"x": float(rng.normal()), "y": number()}
        return {"a": None if rng.random() < 0.3 else number(), "b": text(), "c": inner}

    def mapped(make: Any) -> list[tuple[str, Any]]:
        return [(f"k{i}", value) for i, value in enumerate(some(make))]

    struct_type = pa.struct(
        [
            ("a", pa.int32()),
            ("b", pa.string()),
            ("c", pa.struct([("x", pa.float64()), ("y", pa.date32())])),
        ]
    )
    deep = pa.list_(
        pa.struct(
            [("k", pa.string()), ("v", pa.map_(pa.string(), pa.list_(pa.timestamp("us", "UTC"))))]
        )
    )
    return pa.table(
        {
            "l": with_nulls(rng, [some(number) for _ in range(rows)], pa.list_(pa.int64())),
            "ls": with_nulls(rng, [some(text) for _ in range(rows)], pa.list_(pa.string())),
            "st": with_nulls(rng, [struct() for _ in range(rows)], struct_type),
            "m": with_nulls(
                rng, [mapped(number) for _ in range(rows)], pa.map_(pa.string(), pa.int32())
            ),
            "deep": with_nulls(
                rng,
                [
                    some(lambda: {"k": text(), "v": mapped(lambda: some(number))})
                    for _ in range(rows)
                ],
                deep,
            ),
        }
    )


def ddl(columns: dict[str, str]) -> str:
    return ", ".join(f"`{name}` {type}" for name, type in columns.items())
