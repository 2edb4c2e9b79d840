"""FastJoin's section IV-C: how much of the memory of new instances is left for rows (SGR)."""

from __future__ import annotations

import numpy as np

from benchmarks.papers.contest import city_stream
from benchmarks.papers.fastjoin_city import CITY
from benchmarks.papers.model import Experiment, Scale, Sheet
from skewless.placement.balancing.scaling import scaling_gain_ratio

WINDOW = 6  # batches
ROW_BYTES = 24  # a hash, a time and a key, which is the least that a stored row has here
KEY_BYTES = 150  # of a key that is told apart in every batch (`Balancing.keys_watched`)
PAPERS = {"passengers, the paper's": 14.0, "taxis, the paper's": 10_000.0}


def scaling(scale: Scale) -> Experiment:
    """Eqs. 12 and 13, for the paper's rows per key and for those of the city."""
    stream = city_stream(0)
    batches = [stream.batch(number) for number in range(WINDOW)]
    orders, tracks = (
        np.sum([getattr(batch, side) for batch in batches], axis=0) for side in ("left", "right")
    )
    both = orders + tracks
    per_key = PAPERS | {
        f"{name}, the city's": float(rows.sum() / np.count_nonzero(rows))
        for name, rows in (("orders", orders), ("tracks", tracks), ("both", both))
    }
    rows = tuple(
        (name, f"{c:,.1f}", f"{scaling_gain_ratio(c):.4f}",
         f"{scaling_gain_ratio(c, ROW_BYTES, KEY_BYTES):.4f}")
        for name, c in per_key.items()
    )  # fmt: skip
    return Experiment(
        "FastJoin: memory of new instances (section IV-C)",
        f"{CITY} No figure of the paper, which has it above 0.9 where a key has more than ten "
        "rows. Here rows lie in files, and nothing is reserved for either: the ratio says what "
        'part of what is kept and told are rows with keys_watched="all".',
        (),
        (
            Sheet(
                "Scaling gain ratio, eq. 13",
                ("stream", "rows per key", "a row as large as a counter, as the paper's least",
                 f"here, {ROW_BYTES} bytes a row and {KEY_BYTES} a key"),
                rows,
            ),
        ),
    )  # fmt: skip
