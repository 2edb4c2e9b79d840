"""Three streams in the shape of the TriJoin paper's data (Yu et al., section 6.1).

A tuple has six fields, a string, a double, a long, two ints and a string, and takes about 80 bytes;
the ints are what tuples are compared by. The paper's values come from ride-hailing orders and from
packet traces, of which it gives no statistics; here they are drawn from a range of whole numbers,
all alike or under a Zipf law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.errors import ArgumentError
from skewless.workloads.zipf import EPOCH, ZipfKeys, at_least, generator, microseconds

STREAM_NAMES = ("r", "s", "t")
ROWS_MAX = 1_000_000_000  # in a stretch: the numbers of a stretch begin at a multiple of it
TEXT = 20  # characters of a string field
_ROWS, _FIRST_INT, _SECOND_INT = range(300, 303)  # what a random stream is for


@dataclass(frozen=True)
class SixFields:
    """Tuples of r, s and t, with their event time `at` as a seventh column.

    - `values`: how many values the two ints `I` and `Int` have. A row that is compared with W
      others by `|a - b| <= eps` has about `(2 * eps + 1) * W / values` partners.
    - `exponent`: of the Zipf law of values; 0 makes all alike. The streams share hot values.
    - `seed`: fixes every tuple.

    >>> tuples = SixFields(values=100).table(0, rows=2, begin_s=0, seconds=1)
    >>> tuples.column_names
    ['r_S', 'r_D', 'r_L', 'r_I', 'r_Int', 'r_Str', 'at']
    """

    values: int = 10_000
    exponent: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        at_least("seed", self.seed, 0)
        at_least("values", self.values, 1)
        if not 0 <= self.exponent < np.inf:
            raise ArgumentError("exponent", self.exponent, "finite and at least 0")

    @cached_property
    def _law(self) -> ZipfKeys:
        return ZipfKeys(self.values, self.exponent, self.seed)

    def table(
        self, stream: int, rows: int, begin_s: float, seconds: float, stretch: int = 0
    ) -> pa.Table:
        """`rows` tuples of a stream (0, 1, 2 for r, s, t), evenly over `seconds` of event time from
        `begin_s` after the epoch of all workloads. Another `stretch` has other tuples."""
        if stream not in range(3):
            raise ArgumentError("stream", stream, "0, 1 or 2")
        if not 0 <= rows <= ROWS_MAX:
            raise ArgumentError("rows", rows, f"between 0 and {ROWS_MAX}")
        at_least("stretch", stretch, 0)
        if not 0 <= begin_s < np.inf:
            raise ArgumentError("begin_s", begin_s, "finite and at least 0")
        span_us = microseconds("seconds", seconds)
        rng = generator(self.seed, _ROWS, stream, stretch)
        begin_us = round(EPOCH.timestamp()) * 1_000_000 + round(begin_s * 1_000_000)
        times = begin_us + np.sort(rng.integers(span_us, size=rows))
        numbers = stretch * ROWS_MAX + np.arange(rows)
        name = STREAM_NAMES[stream]
        ints = (self._law.draw(rows, stretch, 3 * use + stream)
                for use in (_FIRST_INT, _SECOND_INT))  # fmt: skip
        first, second = (pa.array(drawn.astype(np.int32)) for drawn in ints)
        return pa.table(
            {
                f"{name}_S": _text(numbers),
                f"{name}_D": pa.array(rng.random(rows)),
                f"{name}_L": pa.array(numbers),
                f"{name}_I": first,
                f"{name}_Int": second,
                f"{name}_Str": _text(rng.integers(ROWS_MAX, size=rows)),
                "at": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )


def _text(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), TEXT, "0")
