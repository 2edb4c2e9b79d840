"""How casts are translated. Those that depend on how the JVM writes a number are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from skewless.expressions import Expression, casting, dates, decimals
from skewless.expressions.apply import Apply
from skewless.expressions.tree import Datum
from skewless.expressions.zones import UTC

from .nodes import Node
from .translation import Translator, Untranslatable, rule

TIMESTAMP, TIMESTAMP_NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")


def kind_of(type: pa.DataType) -> str:
    """What casts are listed by."""
    tests: dict[str, Callable[[pa.DataType], bool]] = {
        "boolean": pa.types.is_boolean,
        "integer": pa.types.is_integer,
        "floating": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "string": pa.types.is_string,
        "binary": pa.types.is_binary,
        "date": pa.types.is_date,
        "duration": pa.types.is_duration,
    }
    if type in (TIMESTAMP, TIMESTAMP_NTZ):
        return "timestamp" if type == TIMESTAMP else "timestamp_ntz"
    return next((name for name, is_one in tests.items() if is_one(type)), str(type))


class Cast:
    """One cast that is to be made."""

    def __init__(self, t: Translator, node: Node, value: Expression, type: pa.DataType) -> None:
        self.t, self.node, self.value, self.type = t, node, value, type

    @property
    def mode(self) -> str:
        return self.node.mode

    def zone(self) -> Any:
        return self.t.zone_for(self.node, TIMESTAMP)

    def by(self, kernel: Callable[..., Datum], *options: Any) -> Expression:
        """A cast that never fails."""
        return Apply(self.type, kernel, (self.value,), options)

    def checked(self, kernel: Callable[..., Datum], *options: Any, heavy: bool = False) -> Apply:
        """A cast that fails in ANSI mode; the mode is the last argument."""
        mode = self.mode
        fails = mode == "ansi"
        sql = self.node.sql if fails else ""
        arguments = (*options, mode)
        return Apply(self.type, kernel, (self.value,), arguments, fails, heavy, sql=sql)

    def fitted(self, kernel: Callable[..., Datum]) -> Expression:
        """A cast to decimals, for which only ANSI mode is special."""
        fails = self.mode == "ansi"
        sql = self.node.sql if fails else ""
        return Apply(self.type, kernel, (self.value,), (self.type, fails), fails, True, sql=sql)

    def always_checked(self, kernel: Callable[..., Datum], *options: Any) -> Expression:
        """A cast that fails in any mode, as it does in Spark."""
        if self.mode == "try":
            raise Untranslatable(f"`{self.node.sql}` is not known here")
        return Apply(self.type, kernel, (self.value,), options, True, sql=self.node.sql)

    def heavy(self, kernel: Callable[..., Datum], *options: Any) -> Expression:
        """A cast that never fails, but takes its time."""
        return Apply(self.type, kernel, (self.value,), options, heavy=True)


def integers(cast: Cast) -> Expression:
    if cast.value.type.bit_width <= cast.type.bit_width:
        return (
            cast.value
            if cast.value.type == cast.type
            else cast.by(casting.integer_to_integer, cast.type, "legacy")
        )
    return cast.checked(casting.integer_to_integer, cast.type)


def decimal_to_floating(cast: Cast) -> Expression:
    if not pa.types.is_float64(cast.type):
        raise Untranslatable(f"`{cast.node.sql}` is not known here")
    return cast.by(decimals.to_double)


def timestamp_to_floating(cast: Cast) -> Expression:
    if not pa.types.is_float64(cast.type):
        raise Untranslatable(f"`{cast.node.sql}` is not known here")
    return cast.by(dates.to_seconds)


def timestamp_to_integer(cast: Cast) -> Expression:
    """Whole seconds; what does not fit is null even in legacy mode."""
    seconds = Apply(pa.int64(), dates.scaled_down, (cast.value,), (dates.SECOND,))
    if pa.types.is_int64(cast.type):
        return seconds
    inner = Cast(cast.t, cast.node, seconds, cast.type)
    if cast.mode == "legacy":
        return inner.by(casting.integer_to_integer, cast.type, "try")
    return inner.checked(casting.integer_to_integer, cast.type)


def decimal_to_decimal(cast: Cast) -> Expression:
    source, type = cast.value.type, cast.type
    gained = (type.precision - type.scale) - (source.precision - source.scale)
    if gained >= 0 and type.scale >= source.scale:
        return Apply(type, decimals.fitted, (cast.value,), (type, False), heavy=True)
    return cast.fitted(decimals.fitted)


CASTS: dict[tuple[str, str], Callable[[Cast], Expression]] = {
    ("boolean", "integer"): lambda c: c.by(casting.from_boolean, c.type),
    ("boolean", "floating"): lambda c: c.by(casting.from_boolean, c.type),
    ("boolean", "string"): lambda c: c.by(casting.boolean_to_string),
    ("integer", "boolean"): lambda c: c.by(casting.is_nonzero),
    ("integer", "integer"): integers,
    ("integer", "floating"): lambda c: c.by(casting.to_floating, c.type),
    ("integer", "decimal"): lambda c: c.fitted(decimals.from_integer),
    ("integer", "string"): lambda c: c.by(casting.integer_to_string),
    ("floating", "boolean"): lambda c: c.by(casting.is_nonzero),
    ("floating", "integer"): lambda c: c.checked(casting.floating_to_integer, c.type),
    ("floating", "floating"): lambda c: c.by(casting.to_floating, c.type),
    ("decimal", "integer"): lambda c: c.checked(decimals.to_integer, c.type, heavy=True),
    ("decimal", "boolean"): lambda c: c.by(casting.is_nonzero),
    ("decimal", "floating"): decimal_to_floating,
    ("decimal", "decimal"): decimal_to_decimal,
    ("string", "boolean"): lambda c: c.checked(casting.string_to_boolean, heavy=True),
    ("string", "integer"): lambda c: c.checked(casting.string_to_integer, c.type, heavy=True),
    ("string", "floating"): lambda c: c.checked(casting.string_to_floating, c.type, heavy=True),
    ("string", "binary"): lambda c: c.by(casting.string_to_binary),
    ("date", "string"): lambda c: c.heavy(casting.date_to_string),
    ("timestamp", "string"): lambda c: c.heavy(casting.timestamp_to_string, c.zone()),
    ("timestamp_ntz", "string"): lambda c: c.heavy(casting.timestamp_to_string, UTC),
    ("date", "timestamp"): lambda c: c.always_checked(dates.start_of_day, c.type, c.zone()),
    ("date", "timestamp_ntz"): lambda c: c.always_checked(dates.start_of_day, c.type, UTC),
    ("timestamp", "date"): lambda c: c.by(dates.to_date, c.zone()),
    ("timestamp_ntz", "date"): lambda c: c.by(dates.to_date, UTC),
    ("timestamp", "timestamp_ntz"): lambda c: c.by(dates.without_zone, c.zone()),
    ("timestamp_ntz", "timestamp"): lambda c: c.by(dates.with_zone, c.zone()),
    ("timestamp", "integer"): timestamp_to_integer,
    ("timestamp", "floating"): timestamp_to_floating,
}


@rule("Cast")
def cast(t: Translator, node: Node) -> Expression:
    value = t.translate(node.children[0])
    type = node.type
    written = node.fields["dataType"]
    if type is None or (written == "string" and node.jvm.dataType().sql() != "STRING"):
        raise Untranslatable(f"the type in `{node.sql}` is not known here")
    if pa.types.is_duration(type) and not written.endswith("second"):
        raise Untranslatable(f"`{node.sql}` is not known here")
    if value.type == type:
        return value
    make = CASTS.get((kind_of(value.type), kind_of(type)))
    if make is None:
        raise Untranslatable(
            f"the cast from {kind_of(value.type)} to {kind_of(type)} in `{node.sql}` is not known"
        )
    return make(Cast(t, node, value, type))
