"""Streams of key hashes for the tests of groupings, and the groupings themselves."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from skewless.placement.grouping import BatchAware, DChoices, Grouping, PdStream, WChoices
from skewless.strategies import FAMILIES

UInts = npt.NDArray[np.uint64]


GROUPINGS: list[type[Grouping]] = list(FAMILIES["aggregate"].classes().values())
CONFIGURATIONS = [grouping() for grouping in GROUPINGS] + [
    BatchAware(tracked=3, least=1, tolerance=0.0),
    DChoices(threshold=0.2, counters=3, refresh=7),
    PdStream(length_factor=1, expected=0.99),
    PdStream(length_factor=1, expected="auto"),
    WChoices(threshold=0.3, counters=2),
]
INSTANCES = st.integers(1, 5) | st.integers(1, 40)
SEEDS = st.sampled_from([0, 0, 1, 2**64 - 1])

_HOT = [0, 2**64 - 1, 2**63, 7]  # the edges of the range of hashes among them
KEYS = st.sampled_from(_HOT) | st.sampled_from(_HOT[:2]) | st.integers(0, 2**64 - 1)
STREAMS = st.lists(KEYS, max_size=120).map(lambda keys: np.array(keys, np.uint64))


def zipf_stream(tuples: int, exponent: float, seed: int = 0, keys: int = 2000) -> UInts:
    """Hashes of keys whose frequencies fall with a power of their rank."""
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, 2**64 - 1, keys, np.uint64)
    weights = np.arange(1, keys + 1) ** -exponent
    return hashes[rng.choice(keys, tuples, p=weights / weights.sum())]
