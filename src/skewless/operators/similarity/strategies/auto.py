"""What is done where nothing is said: worksets, with a limit that follows from the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skewless.operators.similarity.strategies.looking import OnTheFly

LONG_FROM = 16  # elements
ROWS_PER_LARGE_WORKSET = 16_384


@dataclass(frozen=True)
class AutoSimilarity(OnTheFly):
    """Rows dealt out, and a limit on worksets: half the root of the rows was the fastest in
    nearly all that was tried, since a row is compared with all centers, and with all members of the
    few worksets in its reach. Long vectors are compared by matrix products, which need large
    worksets to be fast, and far apart as they are, worksets rule little out: one for every 16,384
    rows."""

    def limit(self, rows: int, dimension: int) -> int | None:
        if dimension >= LONG_FROM:
            return max(1, rows // ROWS_PER_LARGE_WORKSET)
        return max(1, math.isqrt(rows) // 2)
