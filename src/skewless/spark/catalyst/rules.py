"""How each expression of Catalyst is translated, but for casts (casts.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skewless.expressions import (
    Expression,
    arithmetic,
    comparing,
    dates,
    decimals,
    letters,
    strings,
)
from skewless.expressions.apply import Apply
from skewless.expressions.logic import (
    And,
    Coalesce,
    EqualNullSafe,
    Extreme,
    Field,
    If,
    In,
    InSet,
    IsNull,
    Or,
)
from skewless.expressions.tree import Constant, Datum, constant

from .letters import table_of
from .nodes import Node, plain
from .translation import VARIABLE, Translator, Untranslatable, rule

BOOL, INT, LONG = pa.bool_(), pa.int32(), pa.int64()
DOUBLE, STRING, DATE = pa.float64(), pa.string(), pa.date32()
MANY = 4  # from so many constants on, a set is faster than one comparison after another


def failing(made: Apply, node: Node) -> Apply:
    """The same, known to fail on some rows, with words for it."""
    return replace(made, fails=True, sql=node.sql)


def refuse_type(node: Node, type: pa.DataType | None) -> Untranslatable:
    return Untranslatable(f"{node.name} of {type or 'that type'} in `{node.sql}` is not known here")


# Columns and logic.


@rule("AttributeReference")
def attribute(t: Translator, node: Node) -> Expression:
    return t.column(node)


@rule("GetStructField")
def field(t: Translator, node: Node) -> Expression:
    struct = t.translate(node.children[0])
    index = node.fields["ordinal"]
    return Field(struct.type.field(index).type, struct, index)


@rule("With")
def with_definitions(t: Translator, node: Node) -> Expression:
    body, *definitions = node.children
    for definition in definitions:
        key = str(definition.jvm.id().toString())
        t.definitions[key] = t.translate(definition.children[0])
    return t.translate(body)


@rule("CommonExpressionRef")
def reference(t: Translator, node: Node) -> Expression:
    return t.definitions[str(node.jvm.id().toString())]


@rule("And")
def and_(t: Translator, node: Node) -> Expression:
    return And(BOOL, *t.arguments(node))


@rule("Or")
def or_(t: Translator, node: Node) -> Expression:
    return Or(BOOL, *t.arguments(node))


def invert(value: Datum) -> Datum:
    return pc.invert(value)


@rule("Not")
def not_(t: Translator, node: Node) -> Expression:
    return Apply(BOOL, invert, t.arguments(node))


@rule("IsNull")
def is_null(t: Translator, node: Node) -> Expression:
    return IsNull(BOOL, *t.arguments(node))


@rule("IsNotNull")
def is_not_null(t: Translator, node: Node) -> Expression:
    return Apply(BOOL, invert, (is_null(t, node),))


def is_nan_kernel(value: Datum) -> Datum:
    return pc.is_nan(value)


@rule("IsNaN")
def is_nan(t: Translator, node: Node) -> Expression:
    value = Apply(BOOL, is_nan_kernel, t.arguments(node))
    return Coalesce(BOOL, (value, constant(False, BOOL)))


@rule("NaNvl")
def nan_or(t: Translator, node: Node) -> Expression:
    left, right = t.arguments(node)
    return If(left.type, Apply(BOOL, is_nan_kernel, (left,)), right, left)


@rule("If")
def if_(t: Translator, node: Node) -> Expression:
    condition, then, otherwise = t.arguments(node)
    return If(then.type, condition, then, otherwise)


@rule("NullIfResult")
def null_if(t: Translator, node: Node) -> Expression:
    condition, value = t.arguments(node)
    return If(value.type, condition, constant(None, value.type), value)


@rule("CaseWhen")
def case_when(t: Translator, node: Node) -> Expression:
    parts = list(t.arguments(node))
    type = parts[1].type
    made = parts.pop() if len(parts) % 2 else constant(None, type)
    for i in range(len(parts) - 2, -1, -2):
        made = If(type, parts[i], parts[i + 1], made)
    return made


@rule("Coalesce")
def coalesce(t: Translator, node: Node) -> Expression:
    values = t.arguments(node)
    return Coalesce(values[0].type, values)


@rule("Greatest", "Least")
def extreme(t: Translator, node: Node) -> Expression:
    values = t.arguments(node)
    refuse_incomparable(node, values[0].type)
    return Extreme(values[0].type, values, node.name == "Greatest")


# Comparisons.

COMPARISONS: dict[str, Callable[..., Datum]] = {
    "EqualTo": comparing.equal,
    "LessThan": comparing.less,
    "LessThanOrEqual": comparing.less_equal,
    "GreaterThan": comparing.greater,
    "GreaterThanOrEqual": comparing.greater_equal,
}


def refuse_incomparable(node: Node, *types: pa.DataType) -> None:
    if any(pa.types.is_nested(type) or type != types[0] for type in types):
        raise Untranslatable(
            f"comparing {' with '.join(map(str, types))} in `{node.sql}` is not known here"
        )


@rule(*COMPARISONS)
def comparison(t: Translator, node: Node) -> Expression:
    left, right = t.arguments(node)
    refuse_incomparable(node, left.type, right.type)
    is_heavy = pa.types.is_string(left.type) or pa.types.is_binary(left.type)
    return Apply(BOOL, COMPARISONS[node.name], (left, right), heavy=is_heavy)


@rule("EqualNullSafe")
def equal_null_safe(t: Translator, node: Node) -> Expression:
    left, right = t.arguments(node)
    refuse_incomparable(node, left.type, right.type)
    return EqualNullSafe(BOOL, left, right)


@rule("In")
def in_(t: Translator, node: Node) -> Expression:
    value, *items = t.arguments(node)
    refuse_incomparable(node, value.type, *(item.type for item in items))
    constants = [item.value for item in items if isinstance(item, Constant)]
    if len(constants) < max(MANY, len(items)) or pa.types.is_floating(value.type):
        return In(BOOL, value, tuple(items))
    known = [item for item in constants if item.is_valid]
    array = pa.array(known, value.type)  # not Python's values: it has no year 10000
    return InSet(BOOL, value, array, len(known) < len(constants))


@rule("InSet")
def in_set(t: Translator, node: Node) -> Expression:
    """What the optimizer makes of `In` with many constants."""
    (value,) = t.arguments(node)
    if pa.types.is_floating(value.type) or pa.types.is_nested(value.type):
        raise refuse_type(node, value.type)
    items = node.jvm.hset().toSeq()
    known = [plain(items.apply(i), value.type) for i in range(items.size())]
    array = pa.array([item for item in known if item is not None], value.type)
    return InSet(BOOL, value, array, None in known)


# Arithmetic.

BINARY = {
    "Add": (arithmetic.add, decimals.add),
    "Subtract": (arithmetic.subtract, decimals.subtract),
    "Multiply": (arithmetic.multiply, decimals.multiply),
}


def is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type))


@rule(*BINARY)
def sums(t: Translator, node: Node) -> Expression:
    left, right = t.arguments(node)
    plain, exact = BINARY[node.name]
    if pa.types.is_floating(left.type) and left.type == right.type:
        return Apply(left.type, plain, (left, right), (False,))
    mode = node.mode
    if pa.types.is_decimal(left.type) and pa.types.is_decimal(right.type):
        if node.name == "Multiply" and not decimals.can_multiply(left.type, right.type):
            raise refuse_type(node, left.type)
        type = node.type
        made = Apply(type, exact, (left, right), (type, mode == "ansi"), heavy=True)
        return failing(made, node) if mode == "ansi" else made
    if not pa.types.is_integer(left.type) or left.type != right.type or mode == "try":
        raise refuse_type(node, left.type)
    made = Apply(left.type, plain, (left, right), (mode == "ansi",))
    return failing(made, node) if mode == "ansi" else made


DIVISIONS: dict[str, Callable[..., Datum]] = {
    "Divide": arithmetic.divide,
    "IntegralDivide": arithmetic.integral_divide,
    "Remainder": arithmetic.remainder,
    "Pmod": arithmetic.positive_modulo,
}


@rule(*DIVISIONS)
def divisions(t: Translator, node: Node) -> Expression:
    left, right = t.arguments(node)
    ansi = node.mode == "ansi"
    if left.can_fail and not ansi:
        # Spark looks at the divisor first, and divides nothing by zero: it may not fail at all.
        raise Untranslatable(f"what is divided in `{node.sql}` can fail")
    if pa.types.is_decimal(left.type):
        made = decimal_division(node, left, right, ansi)
    elif is_number(left.type) and left.type == right.type:
        made = Apply(left.type, DIVISIONS[node.name], (left, right), (ansi,), right_first=True)
    else:
        raise refuse_type(node, left.type)
    never = (
        isinstance(right, Constant) and right.value.is_valid and right.value.as_py() not in (0, -1)
    )
    return failing(made, node) if ansi and not never else made


def decimal_division(node: Node, left: Expression, right: Expression, ansi: bool) -> Apply:
    if node.name != "Remainder" or decimals.digits_for_remainder(left.type, right.type) > 18:
        raise refuse_type(node, left.type)
    type = node.type
    return Apply(
        type, decimals.remainder, (left, right), (type, ansi), heavy=True, right_first=True
    )


@rule("UnaryMinus", "Abs")
def one_sided(t: Translator, node: Node) -> Expression:
    (value,) = t.arguments(node)
    kernel = arithmetic.negate if node.name == "UnaryMinus" else arithmetic.absolute
    is_decimal = pa.types.is_decimal(value.type)
    if is_decimal and value.type.precision > decimals.NEGATED_DIGITS:
        raise refuse_type(node, value.type)
    if is_decimal or pa.types.is_floating(value.type):
        return Apply(value.type, kernel, (value,), (False,))
    if not pa.types.is_integer(value.type):
        raise refuse_type(node, value.type)
    ansi = bool(node.fields["failOnError"])
    made = Apply(value.type, kernel, (value,), (ansi,))
    return failing(made, node) if ansi else made


@rule("UnaryPositive")
def positive(t: Translator, node: Node) -> Expression:
    return t.translate(node.children[0])


BITS: dict[str, Callable[..., Datum]] = {
    "BitwiseAnd": arithmetic.bits_and,
    "BitwiseOr": arithmetic.bits_or,
    "BitwiseXor": arithmetic.bits_xor,
    "BitwiseNot": arithmetic.bits_not,
}


@rule(*BITS)
def bits(t: Translator, node: Node) -> Expression:
    values = t.arguments(node)
    if not pa.types.is_integer(values[0].type):
        raise refuse_type(node, values[0].type)
    return Apply(values[0].type, BITS[node.name], values)


@rule("Sqrt")
def square_root(t: Translator, node: Node) -> Expression:
    return Apply(DOUBLE, arithmetic.square_root, t.arguments(node))


@rule("Signum")
def sign(t: Translator, node: Node) -> Expression:
    (value,) = t.arguments(node)
    if not pa.types.is_floating(value.type):
        raise refuse_type(node, value.type)
    return Apply(DOUBLE, arithmetic.sign, (value,))


@rule("Floor", "Ceil")
def to_whole(t: Translator, node: Node) -> Expression:
    (value,) = t.arguments(node)
    if pa.types.is_float64(value.type):
        kernel = arithmetic.floor if node.name == "Floor" else arithmetic.ceil
        ansi = bool(node.fields.get("failOnError"))
        made = Apply(LONG, kernel, (value,), (ansi,))
        return failing(made, node) if ansi else made
    if pa.types.is_decimal(value.type):
        exact = decimals.floor if node.name == "Floor" else decimals.ceil
        return Apply(node.type, exact, (value,), (node.type,), heavy=True)
    if pa.types.is_int64(value.type):
        return value
    raise refuse_type(node, value.type)


@rule("Round", "BRound")
def rounded(t: Translator, node: Node) -> Expression:
    """Of decimals. Doubles are rounded by how the JVM writes them, which depends on its version."""
    value, digits = t.arguments(node)
    if not pa.types.is_decimal(value.type) or not isinstance(digits, Constant):
        raise refuse_type(node, value.type)
    how = decimals.HALF_UP if node.name == "Round" else decimals.HALF_EVEN
    ansi = bool(node.fields["ansiEnabled"])
    options = (node.type, digits.value.as_py(), how, ansi)
    made = Apply(node.type, decimals.rounded, (value,), options, heavy=True)
    return failing(made, node) if ansi else made


# Dates and timestamps.

DATE_PARTS = {
    "Year": dates.year,
    "Month": dates.month,
    "Quarter": dates.quarter,
    "DayOfMonth": dates.day,
    "DayOfYear": dates.day_of_year,
    "DayOfWeek": dates.day_of_week,
    "WeekDay": dates.weekday,
    "UnixDate": dates.days_to_int,
}
CLOCK_PARTS = {"Hour": dates.hour, "Minute": dates.minute, "Second": dates.second}
SCALES = {"UnixMicros": 1, "UnixMillis": 1000, "UnixSeconds": dates.SECOND}


def is_timestamp(type: pa.DataType | None) -> bool:
    return type is not None and bool(pa.types.is_timestamp(type))


@rule(*DATE_PARTS)
def date_part(t: Translator, node: Node) -> Expression:
    return Apply(INT, DATE_PARTS[node.name], t.arguments(node), heavy=True)


@rule("LastDay")
def last_day(t: Translator, node: Node) -> Expression:
    return Apply(DATE, dates.last_day, t.arguments(node), heavy=True)


@rule(*CLOCK_PARTS)
def clock_part(t: Translator, node: Node) -> Expression:
    (value,) = t.arguments(node)
    if not is_timestamp(value.type):
        raise refuse_type(node, value.type)
    zone = t.zone_for(node, value.type)
    return Apply(INT, CLOCK_PARTS[node.name], (value,), (zone,), heavy=True)


@rule(*SCALES)
def since_epoch(t: Translator, node: Node) -> Expression:
    return Apply(LONG, dates.scaled_down, t.arguments(node), (SCALES[node.name],))


@rule("UnixTimestamp", "ToUnixTimestamp")
def unix_timestamp(t: Translator, node: Node) -> Expression:
    value = t.translate(node.children[0])
    if not is_timestamp(value.type):
        raise refuse_type(node, value.type)
    return Apply(LONG, dates.truncated_seconds, (value,))


@rule("DateAdd", "DateSub")
def date_add(t: Translator, node: Node) -> Expression:
    value, days = t.arguments(node)
    if not pa.types.is_integer(days.type):
        raise refuse_type(node, days.type)
    return Apply(DATE, dates.add_days, (value, days), (1 if node.name == "DateAdd" else -1,))


@rule("DateDiff")
def date_diff(t: Translator, node: Node) -> Expression:
    return Apply(INT, dates.days_between, t.arguments(node))


@rule("SubtractDates")
def subtract_dates(t: Translator, node: Node) -> Expression:
    if node.fields["legacyInterval"]:
        raise refuse_type(node, None)
    made = Apply(pa.duration("us"), dates.date_minus_date, t.arguments(node))
    return failing(made, node)


@rule("SubtractTimestamps")
def subtract_timestamps(t: Translator, node: Node) -> Expression:
    left, right = t.arguments(node)
    if node.fields["legacyInterval"] or left.type != right.type or not is_timestamp(left.type):
        raise refuse_type(node, left.type)
    zone = t.zone_for(node, left.type)
    return failing(Apply(pa.duration("us"), dates.difference, (left, right), (zone,)), node)


@rule("TimestampAddInterval")
def add_interval(t: Translator, node: Node) -> Expression:
    value, interval = t.arguments(node)
    if not isinstance(interval, Constant) or not pa.types.is_duration(interval.type):
        raise Untranslatable(f"the interval in `{node.sql}` is not a constant of days and less")
    if not interval.value.is_valid:
        return constant(None, value.type)
    made = Apply(
        value.type, dates.moved, (value,), (interval.value.value, t.zone_for(node, value.type))
    )
    return failing(made, node)


@rule("AddMonths")
def add_months(t: Translator, node: Node) -> Expression:
    return failing(Apply(DATE, dates.add_months, t.arguments(node), heavy=True), node)


@rule("DateAddYMInterval", "TimestampAddYMInterval")
def add_months_interval(t: Translator, node: Node) -> Expression:
    value = t.translate(node.children[0])
    if node.children[1].names & VARIABLE:
        raise Untranslatable(f"the interval in `{node.sql}` is not a constant")
    months = constant(node.children[1].value(), INT)
    if not is_timestamp(value.type):
        made = Apply(DATE, dates.add_months, (value, months), heavy=True)
    else:
        zone = t.zone_for(node, value.type)
        kernel = dates.add_months_to_timestamp
        made = Apply(value.type, kernel, (value, months), (zone,), heavy=True)
    return failing(made, node)


TRUNCATIONS = {
    "YEAR": ("YEAR", "YYYY", "YY"),
    "QUARTER": ("QUARTER",),
    "MONTH": ("MONTH", "MON", "MM"),
    "WEEK": ("WEEK",),
    **{unit: (unit,) for unit in dates.UNITS},
    "DAY": ("DAY", "DD"),
}
UNIT_OF = {written: unit for unit, names in TRUNCATIONS.items() for written in names}
DATE_UNITS = {"YEAR", "QUARTER", "MONTH", "WEEK"}


def unit_of(node: Node, format: Expression, units: Any) -> str:
    written = format.value.as_py() if isinstance(format, Constant) else None
    unit = UNIT_OF.get(str(written).upper())
    if unit is None or unit not in units:
        raise Untranslatable(f"the unit in `{node.sql}` is not one of {', '.join(UNIT_OF)}")
    return unit


@rule("TruncTimestamp")
def truncated(t: Translator, node: Node) -> Expression:
    format, value = t.arguments(node)
    options = (unit_of(node, format, TRUNCATIONS), t.zone_for(node, value.type))
    return failing(Apply(value.type, dates.truncated, (value,), options, heavy=True), node)


@rule("TruncDate")
def truncated_date(t: Translator, node: Node) -> Expression:
    value, format = t.arguments(node)
    unit = unit_of(node, format, DATE_UNITS)
    return failing(Apply(DATE, dates.truncated_date, (value,), (unit,), heavy=True), node)


# Strings.


def text_of(node: Node, expression: Expression) -> str | None:
    """A text that is the same for all rows."""
    if not isinstance(expression, Constant):
        raise Untranslatable(f"a pattern that is not a constant in `{node.sql}` is not known here")
    text: str | None = expression.value.as_py()
    return text


def number_of(node: Node, expression: Expression) -> int | None:
    if not isinstance(expression, Constant):
        raise Untranslatable(f"a position that is not a constant in `{node.sql}` is not known here")
    number: int | None = expression.value.as_py()
    return number


def on_text(
    node: Node, type: pa.DataType, kernel: Callable[..., Datum], value: Expression, *options: Any
) -> Expression:
    """A kernel on strings with constants, which is null if one of them is."""
    if not pa.types.is_string(value.type):
        raise refuse_type(node, value.type)
    if any(option is None for option in options):
        return constant(None, type)
    return Apply(type, kernel, (value,), options, heavy=True)


SEARCHES = {
    "StartsWith": strings.starts_with,
    "EndsWith": strings.ends_with,
    "Contains": strings.contains,
}


@rule(*SEARCHES)
def search(t: Translator, node: Node) -> Expression:
    value, text = t.arguments(node)
    return on_text(node, BOOL, SEARCHES[node.name], value, text_of(node, text))


@rule("Like")
def like(t: Translator, node: Node) -> Expression:
    value, pattern = t.arguments(node)
    text, escape = text_of(node, pattern), str(node.jvm.escapeChar())
    if text is not None and not strings.is_like_pattern(text, escape):
        raise Untranslatable(f"`{node.sql}` escapes what is no wildcard")
    return on_text(node, BOOL, strings.matches_like, value, text, escape)


@rule("RLike")
def rlike(t: Translator, node: Node) -> Expression:
    value, pattern = t.arguments(node)
    text = text_of(node, pattern)
    if text is not None and not strings.is_common_regex(text):
        raise Untranslatable(f"Java may understand the pattern in `{node.sql}` in its own way")
    return on_text(node, BOOL, strings.matches_regex, value, text)


CASES = {"Upper": letters.upper, "Lower": letters.lower}


@rule(*CASES)
def change_case(t: Translator, node: Node) -> Expression:
    (value,) = t.arguments(node)
    table = table_of(t.session, node.name)
    return on_text(node, STRING, CASES[node.name], value, table)


TRIMS = {"StringTrim": "both", "StringTrimLeft": "left", "StringTrimRight": "right"}


@rule(*TRIMS)
def trim(t: Translator, node: Node) -> Expression:
    value, *characters = t.arguments(node)
    which = text_of(node, characters[0]) if characters else " "
    return on_text(node, STRING, strings.trimmed, value, which, TRIMS[node.name])


@rule("Length")
def length(t: Translator, node: Node) -> Expression:
    (value,) = t.arguments(node)
    kernel = strings.length if pa.types.is_string(value.type) else strings.byte_length
    return Apply(INT, kernel, (value,), heavy=True)


@rule("OctetLength")
def octet_length(t: Translator, node: Node) -> Expression:
    return Apply(INT, strings.byte_length, t.arguments(node))


@rule("Substring")
def substring(t: Translator, node: Node) -> Expression:
    value, position, count = t.arguments(node)
    options = (number_of(node, position), number_of(node, count))
    return on_text(node, STRING, strings.substring, value, *options)


@rule("Concat")
def concat(t: Translator, node: Node) -> Expression:
    values = t.arguments(node)
    if not all(pa.types.is_string(value.type) for value in values):
        raise refuse_type(node, values[0].type if values else None)
    return Apply(STRING, strings.concatenated, values, heavy=True)


@rule("StringReplace")
def replaced(t: Translator, node: Node) -> Expression:
    value, text, by = t.arguments(node)
    options = (text_of(node, text), text_of(node, by))
    return on_text(node, STRING, strings.replaced, value, *options)


@rule("StringInstr")
def instr(t: Translator, node: Node) -> Expression:
    value, text = t.arguments(node)
    return on_text(node, INT, strings.position, value, text_of(node, text))


@rule("StringLocate")
def locate(t: Translator, node: Node) -> Expression:
    text, value, start = t.arguments(node)
    if number_of(node, start) != 1:
        raise Untranslatable(f"a search from elsewhere than the start in `{node.sql}` is not known")
    return on_text(node, INT, strings.position, value, text_of(node, text))
