"""How much of the memory of new instances is left for rows: FastJoin's section IV-C."""

from __future__ import annotations

from skewless.errors import ArgumentError


def scaling_gain_ratio(
    rows_per_key: float, row_bytes: float = 1.0, key_bytes: float = 1.0
) -> float:
    """The scaling gain ratio, ``SGR = χ_t·c / (χ_t·c + χ_k)`` (eq. 13): the share of added memory
    that stores rows, the rest being counters of keys. `rows_per_key` is the paper's c, `row_bytes`
    its χ_t and `key_bytes` its χ_k. With c = |R|/K this is eq. (12).

    Rows are larger than counters, so the default, as large, is the least that there can be: the
    paper's passenger stream has 14 rows per key.

    >>> round(scaling_gain_ratio(14), 3), round(scaling_gain_ratio(10_000), 4)
    (0.933, 0.9999)
    """
    for name, value in (
        ("rows_per_key", rows_per_key), ("row_bytes", row_bytes), ("key_bytes", key_bytes)
    ):  # fmt: skip
        if not value > 0:
            raise ArgumentError(name, value, "a number above 0")
    stored = row_bytes * rows_per_key
    return stored / (stored + key_bytes)
