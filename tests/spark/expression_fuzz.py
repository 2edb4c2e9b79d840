"""Random expressions over the nasty table, by type, with every function that is translated."""

from __future__ import annotations

from random import Random

COLUMNS = {
    "bool": ["t", "u"],
    "int": ["n", "n2", "b", "sh", "st.a"],
    "long": ["m", "m2"],
    "double": ["x", "y", "f"],
    "decimal": ["p", "q", "p", "r"],
    "string": ["k", "k2", "s", "st.b"],
    "date": ["d", "d2"],
    "time": ["at", "at2", "nt"],
}
CONSTANTS = {
    "bool": ["true", "false", "null"],
    "int": ["0", "1", "-1", "3", "2147483647", "null", "100"],
    "long": ["0L", "1L", "9223372036854775807L", "-5L"],
    "double": ["0.0d", "-0.0d", "1.5d", "double('NaN')", "double('-Infinity')", "0.05d"],
    "decimal": ["0.05", "1.5", "-99.999", "12345678901234567890.5"],
    "string": ["''", "'a'", "'test'", "'1'", "'ä'", "null", "'2020-01-01'"],
    "date": ["date'2020-02-29'", "date'1970-01-01'", "date'0001-01-01'"],
    "time": ["timestamp'2020-03-01 07:00:00'", "timestamp'2020-11-01 01:30:00'"],
}
# A template's words in braces are types of what stands there; "a|b" is either.
TEMPLATES = {
    "bool": [
        *("{bool} and {bool}", "{bool} or {bool}", "not {bool}") * 4,
        *(f"{{{a}}} {op} {{{b}}}" for op in ("=", "<>", "<", ">=", "<=>", ">", "<=")
          for a, b in [("int", "int"), ("int|long", "long"), ("double", "double"), (
              "double|decimal", "double|int"), ("decimal", "decimal|int"),
                       ("string", "string"), ("date", "date"), ("time", "time"), ("bool",
                           "bool")]),
        "{int|double|string|bool} is null", "{string|decimal|time} is not null",
            "isnan({double})", "{int} in ({int}, {int}, 3)", "{double} in ({double}, 1.5d)",
        "{string} in ('a', 'b', 'test', '', {string})",
            "{string} in ('a', 'b', 'test', '', null)", "{int} not in (1, 2, 3, 5, 8)",
                "{int|double} between {int|double} and {int|double}",
        "{date} between {date} and {date}", "{string} like 'a%'", "{string} like '%b_%'",
            "{string} not like '%t'", "startswith({string}, 'a')", "contains({string}, 'es')",
        "endswith({string}, 'ü')", "if({bool}, {bool}, {bool})", "coalesce({bool}, {bool})",
            "cast({int|double|decimal} as boolean)", "try_cast({string} as boolean)",
                "equal_null({int}, {long})",
        "{time} - {time} < interval 90 minutes", "{string} rlike 'a[a-z]'",
    ],
    "int": [
        "{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} % {int}", "-{int}",
            "abs({int})", "pmod({int}, {int})", "if({bool}, {int}, {int})",
                "coalesce({int}, {int})",
        "case when {bool} then {int} when {bool} then {int} end",
            "case when {bool} then {int} else {int} end", "nullif({int}, {int})",
                "greatest({int}, {int})", "least({int}, {int}, {int})",
        "cast({long|double|decimal} as int)", "cast({int|double} as tinyint)",
            "cast({bool} as int)", "try_cast({string} as int)", "length({string})",
                "instr({string}, 'a')", "year({date|time})",
        "month({date|time})", "day({date})", "dayofweek({date})", "hour({time})",
            "minute({time})", "second({time})", "datediff({date|time}, {date})",
                "quarter({date})", "dayofyear({time})",
        "cast({time} as smallint)",
    ],
    "long": [
        "{long} + {int|long}", "{long} - {long}", "{long} * {int|long}",
            "{int|long} div {int|long}", "{long} % {int|long}", "-{long}", "abs({long})",
                "pmod({long}, {long})", "cast({int|double|decimal} as bigint)",
        "coalesce({long}, {int})", "greatest({long}, {int})", "floor({double})",
            "ceil({double})", "unix_timestamp({time})", "cast({time} as bigint)",
                "if({bool}, {long}, {int})", "try_cast({string} as bigint)",
    ],
    "double": [
        "{double} + {double|int}", "{double} - {double}", "{double} * {double|int}",
            "{double|int} / {double|int}", "{double} % {double|int}", "-{double}",
                "abs({double})", "pmod({double}, {double})",
        "cast({int|long|decimal} as double)", "cast({long|double|int} as float)",
            "coalesce({double}, {int})", "greatest({double}, {double})",
                "least({double}, {int})", "if({bool}, {double}, {double})",
                    "nanvl({double}, {double})",
        "sign({double|int|decimal})", "try_divide({int|double}, {int|double})",
            "try_cast({string} as double)", "nullif({double}, {double})", "{long} / {int}",
    ],
    "decimal": [
        "{decimal} + {decimal|int}", "{decimal} - {decimal}", "{decimal} * {decimal|int}",
            "-{decimal}", "abs({decimal})", "cast({int|long} as decimal(12,2))",
                "cast({decimal} as decimal(10,1))", "{decimal} % {int}",
        "coalesce({decimal}, {int})", "round({decimal}, 1)", "floor({decimal})",
            "ceil({decimal})", "if({bool}, {decimal}, {decimal})",
                "greatest({decimal}, {decimal})", "bround({decimal}, 1)",
    ],
    "string": [
        "concat({string}, {string})", "{string} || 'x'", "trim({string})",
            "substring({string}, 2, 2)", "substring({string}, -2, 1)", "left({string}, 2)",
                "right({string}, 2)", "replace({string}, 'a', 'bb')",
        "coalesce({string}, {string})", "if({bool}, {string}, {string})",
            "cast({int|long|bool|date|time} as string)", "nullif({string}, 'a')",
                "greatest({string}, {string})", "ltrim({string})", "upper({string})",
                    "lower({string})", "rtrim('a', {string})",
    ],
    "date": [
        "date_add({date}, {int})", "date_sub({date}, {int})", "cast({time} as date)",
            "to_date({time})", "coalesce({date}, {date})", "if({bool}, {date}, {date})",
                "greatest({date}, {date})", "trunc({date}, 'MM')",
        "last_day({date})", "trunc({date}, 'week')",
    ],
    "time": [
        "cast({date} as timestamp)", "{time} + interval 5 minutes",
            "{time} - interval 1 day 2 hours", "date_trunc('hour', {time})",
                "date_trunc('day', {time})", "date_trunc('month', {time})",
                    "coalesce({time}, {time})",
        "greatest({time}, {time})", "if({bool}, {time}, {time})",
            "cast({time} as timestamp_ntz)", "date_trunc('week', {time})",
    ],
}  # fmt: skip


def random_expression(random: Random, kind: str | None = None, depth: int = 3) -> str:
    kind = kind or random.choice(["bool"] * 6 + list(TEMPLATES))
    kind = random.choice(kind.split("|"))
    if depth == 0 or random.random() < 0.1:
        return random.choice(COLUMNS[kind] * 2 + CONSTANTS[kind])
    template = random.choice(TEMPLATES[kind])
    made, rest = "", template
    while "{" in rest:
        before, _, rest = rest.partition("{")
        inner, _, rest = rest.partition("}")
        made += before + f"({random_expression(random, inner, depth - 1)})"
    return made + rest
