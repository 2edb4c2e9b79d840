"""Expressions over the nasty table, one for each thing that a translation may get wrong."""

from __future__ import annotations

COMPARED = [
    *(f"{a} {op} {b}" for op in ("=", "<=>", "<>", "<", "<=", ">", ">=") for a, b in [
        ("b", "b"), ("sh", "b"), ("n", "n2"), ("m", "n"), ("m", "m2"), ("f", "f"), ("f", "x"), (
            "x", "y"), ("x", "0.0d"), ("x", "double('NaN')"),
        ("double('NaN')", "y"), ("1.5d", "y"), ("n", "x"), ("m", "x"), ("p", "q"), ("p", "1.5"),
            ("p", "x"), ("r", "q"), ("r", "x"), ("m", "p"), ("k", "k2"), ("k", "'a'"),
        ("v", "v"), ("v", "X'00'"), ("t", "u"), ("t", "true"), ("d", "d2"), ("d",
            "'2020-01-01'"), ("d", "at"), ("at", "at2"), ("at", "'2020-03-01 07:00:00'"), ("at",
                "nt"),
        ("nt", "timestamp_ntz'2020-03-08 03:00:00'"), ("n", "null"), ("s", "1"), ("s", "1.5d"), (
            "n", "2.5"), ("n", "'3'"),
    ]),
]  # fmt: skip
LOGIC = [
    "t and u", "t or u", "not t", "t and null", "null or u", "true and t", "false and u",
        "t or true", "not (t and u) or t",
    "n2 <> 0 and n / n2 > 1", "n2 = 0 or n % n2 = 1", "n / n2 > 1 and n2 <> 0",
        "if(n2 = 0, 0, n div n2)", "if(t, n + n2, n - n2)", "if(t, k, k2)", "if(n > 0, p, q)",
    "case when n2 = 0 then 0 when n2 > 0 then m % n2 else n end",
        "case n when 1 then 'one' when 2 then 'two' end", "case when t then n end",
    "case when u then x when t then y else 0 end", "coalesce(n, n2)", "coalesce(n, 1)",
        "coalesce(n, n2, n div n2)", "coalesce(null, k, k2)", "coalesce(t, n / n2 > 1)",
    "nullif(n, n2)", "nullif(x, y)", "nullif(k, 'a')", "nvl(n, n2)", "ifnull(p, 1.5)",
        "nvl2(n, m, m2)", "nanvl(x, y)", "zeroifnull(n)", "nullifzero(n)",
    "n is null", "n is not null", "st is null", "st.a is null", "isnan(x)", "isnan(f)",
        "isnotnull(k)", "x is null or isnan(x)",
    "n in (1, 2)", "n in (1, 2, null)", "n in (n2, 3)", "n in (1, 2, 3, 65536, -7)",
        "n in (1, 2, 3, 65536, null)", "x in (0.0d, 1.5d)", "x in (y, double('NaN'))",
    "x in (-0.0d, 1.5d, 2d, 3d, double('NaN'))", "k in ('a', 'b')",
        "k in ('a', 'b', 'test', 'ß', '')", "k not in ('a', null)", "p in (1, 1.5)",
            "d in ('2020-01-01', '1970-01-01')",
    "n in (n div n2)", "null in (n, n2)", "t in (true)", "n not in (1, 2, 3, 4, 5, 6)",
        "v in (X'00', X'ff', X'', X'ab')", "p in (1.5, 2, 3, 0.05, 7)",
    "at in (timestamp'1970-01-01 00:00:00 UTC', timestamp'2020-03-01 07:00:00 UTC', at2, null)",
        "m in (0, 1, 2, 3, 4)",
    "n between n2 and 10", "x between y and 10", "k between 'a' and 'b'",
        "d between '1970-01-01' and d2", "n not between 0 and 10",
            "(n between 0 and 10) between false and t",
    "n / n2 between 0 and 1", "greatest(n, n2)", "least(n, n2, 0)", "greatest(x, y)",
        "least(x, y)", "greatest(0.0d, x)", "least(k, k2)", "greatest(p, q)", "greatest(d, d2)",
            "greatest(t, u)",
    "equal_null(n, n2)", "decode(n, 1, 'a', 2, 'b', 'c')", "st.a + 1", "st.b = 'test'",
        "st.a <=> n", "(n + n2 > 0) is null",
]  # fmt: skip
ARITHMETIC = [
    *(f"{a} {op} {b}" for op in ("+", "-", "*", "/", "%", "div") for a, b in [
        ("b", "b"), ("sh", "b"), ("n", "n2"), ("n", "1"), ("m", "m2"), ("m", "n"), ("f", "f"), (
            "x", "y"), ("x", "n"), ("n", "0"), ("x", "2"), ("m", "-1"), ("1", "n2"), ("f", "n"),
                ("n", "cast(null as int)"),
        ("p", "1"), ("p", "p"), ("p", "q"), ("q", "q"), ("r", "p"), ("r", "r"), ("p", "n"), (
            "p", "x"), ("s", "1"),
    ]),
    *(f"pmod({a}, {b})" for a, b in [("n", "n2"), ("m", "m2"), ("x", "y"), ("b", "b"), ("sh",
        "b"), ("n", "-3"), ("f", "f")]),
    *(f"{f}({a})" for f in ("-", "abs", "sign", "+", "floor", "ceil") for a in ("b", "sh", "n",
        "m", "f", "x", "y", "p", "q", "r")),
    "round(p, 1)", "round(p)", "round(q, 2)", "bround(q, 3)", "bround(p, 1)", "round(p, -1)",
        "round(r, 3)", "try_divide(n, n2)", "try_divide(x, y)", "mod(n, n2)", "sqrt(x)",
            "sqrt(n)", "n & n2", "n | m", "b ^ 3", "~n", "~m",
    "abs(x - y) < 0.05", "abs(p - q) < 0.05", "(n + n2) * 2 - m", "-(n - n2)",
        "n + n2 > 0 and m + m2 > 0",
    "unix_date(d)", "x * 0", "null + n", "n + cast(s as int)", "cast(s as int) + n",
        "n / cast(s as int)", "cast(s as int) / n2",
]  # fmt: skip
CASTS = [
    *(f"{c}({a} as {b})" for c in ("cast", "try_cast") for a, bs in {
        "b": "boolean smallint int bigint float double decimal(2,0) decimal(10,2) string",
        "sh": "tinyint int double decimal(3,0) string",
            "n": "tinyint smallint bigint float double decimal(5,1) decimal(38,38) "
        "string boolean",
        "m": "tinyint smallint int float double decimal(19,0) decimal(38,2) decimal(5,0) "
        "string boolean",
        "f": "boolean tinyint smallint int bigint double",
            "x": "boolean tinyint smallint int bigint float",
                "y": "tinyint smallint int bigint float",
        "p": "boolean int bigint tinyint double decimal(5,1) decimal(38,20) decimal(10,0)",
            "q": "int bigint smallint double decimal(5,1) decimal(25,7)",
        "r": "int bigint tinyint double decimal(38,30) decimal(38,0) decimal(5,5)",
            "t": "int tinyint double string bigint float",
        "s": "boolean tinyint smallint int bigint float double binary",
            "k": "int double boolean binary",
        "d": "string timestamp timestamp_ntz", "d2": "timestamp",
            "at": "date timestamp_ntz bigint int double tinyint string",
                "nt": "date timestamp string",
    }.items() for b in bs.split()),
]  # fmt: skip
DATES = [
    *(f"{f}({a})" for f in ("year", "month", "day", "quarter", "dayofyear", "dayofweek",
        "weekday", "last_day") for a in ("d", "at", "nt")),
    *(f"{f}({a})" for f in ("hour", "minute", "second") for a in ("at", "nt")),
    *(f"date_trunc('{u}', {a})" for u in ("year", "yy", "quarter", "month", "mm", "week", "day",
        "DD", "hour", "minute", "second", "millisecond", "microsecond") for a in ("at", "nt")),
    *(f"trunc(d, '{u}')" for u in ("year", "quarter", "MM", "week")),
    *(f for a in ("date_sub(d, 2147483647)", "date_add(d, 2147483647)") for f in (
        f"trunc({a}, 'MM')", f"trunc({a}, 'quarter')",
        f"trunc({a}, 'week')", f"trunc({a}, 'year')", f"last_day({a})",
        f"year({a})", f"add_months({a}, 1)", f"{a} - d2", f"cast({a} as string)",
        f"dayofweek({a})", f"cast({a} as timestamp)",
    )),
    "datediff(d, d2)", "datediff(at, d)", "date_add(d, 1)", "date_add(d, n)", "date_sub(d, n2)",
        "d + 1", "d - n", "d - d2", "d - d2 > interval 5 days", "d + interval 3 day",
            "date_diff(d, d2)",
    "at + interval 5 minutes", "at - interval 1 day 2 hours", "at + interval 30 days",
        "nt + interval 1 day", "at2 - interval 400 days", "at - at2",
            "at - at2 < interval 5 minutes", "nt - nt", "at - nt",
    "at between at2 - interval 1 hour and at2 + interval 1 hour", "unix_timestamp(at)",
        "unix_timestamp(nt)", "unix_micros(at)", "unix_millis(at)", "unix_seconds(at)",
    "to_date(at)", "date(at)", "to_timestamp(nt)", "to_timestamp(at)", "timestamp(d)",
        "extract(hour from at)", "extract(year from d)", "date_part('month', at)",
            "to_unix_timestamp(at)",
    "make_date(2020, 1, 1) < d", "add_months(d, 1)", "add_months(d, n2)",
        "d + interval 1 month", "at + interval 13 months", "nt - interval 1 year",
            "at - interval 1 month", "at > to_timestamp('2020-01-01')",
                "at > '2020-01-01' and d < '2020-02-28'", "d = cast(at as date)",
]  # fmt: skip
STRINGS = [
    *(f"k like '{p}'" for p in ("a%", "%a", "%a%", "a", "", "%", "_", "a_", "%\\\\%%", "a%b",
        "__", "%\n%", "a\\\\%b\\\\_c", "%%", "_%", "a.b", "(%")),
    "k like 'a/%b%' escape '/'", "k like null", "k not like 'a%'", "k rlike '^a'",
        "k rlike 'a[a-z]*'", "k rlike 't+'", "k rlike '\\\\.'",
    "startswith(k, 'a')", "endswith(k, 'b')", "contains(k, 'es')", "startswith(k, '')",
        "contains(k, null)", "endswith(k, 'ü')",
    *(f"{f}(k)" for f in ("trim", "ltrim", "rtrim", "btrim", "length", "char_length",
        "octet_length")),
    "trim(both 'a' from k)", "ltrim('aä', k)", "trim(trailing 'bü' from k)", "trim('' from k)",
        "length(v)", "octet_length(v)",
    *(f"substring(k, {p}, {n})" for p in (-5, -3, -2, -1, 0, 1, 2, 3, 5, 2147483647,
        -2147483648) for n in (-1, 0, 1, 2, 2147483647)),
    "substr(k, 2)", "left(k, 2)", "right(k, 2)", "left(k, 0)", "right(k, -1)", "right(k, 0)",
        "substring(k from 2 for 1)",
    "concat(k, k2)", "k || 'x' || k2", "concat(k)", "concat(k, null)", "k || n",
        "concat(k, '-', k2) = 'a-a'",
    "replace(k, 'a', 'xyz')", "replace(k, '', 'x')", "replace(k, 'a')", "replace(k, 'ä', '')",
        "instr(k, 'b')", "instr(k, '')", "position('ü' in k)", "instr(k, 'x')", "locate('b', k)",
    "upper(k)", "lower(k)", "upper(k2) = upper(k)", "lower(concat(k, 'Σ', k2))",
        "lower(k || k2 || 'Σ. ' || k)", "k ilike 'T_S%'", "ucase(s)", "upper(s)",
    "to_json(struct(n, k, t))", "to_json(named_struct('a b', k2)) = '{}'",
    "length(k) > 2 and k <> 'test'", "abs(x - y) < 0.05 and k <> 'test'",
]  # fmt: skip
CASES = [*COMPARED, *LOGIC, *ARITHMETIC, *CASTS, *DATES, *STRINGS]
# Accepted by Spark, but on types that would need more than Arrow has.
REFUSED_TYPES = [
    "r * r", "-(r)", "abs(r)", "try_cast(d as timestamp)", "try_cast(d as timestamp_ntz)",
    "try_cast(d2 as timestamp)", "p % q", "q % q", "r % p", "r % r",
    *(f"{a} {op} {b}" for op in ("/", "div") for a, b in [
        ("p", "1"), ("p", "p"), ("p", "q"), ("q", "q"), ("r", "p"), ("r", "r"), ("p", "n"),
    ]),
]  # fmt: skip
