"""Folding keys into 64-bit hashes, compiled by Numba."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skewless.arrays.compiled import kernel
from skewless.arrays.types import Ints, UInts

HASH_FUNCTION = "splitmix64, version 1"  # in every checkpoint: other hashes would find nothing


@kernel
def _mix(x: np.uint64) -> np.uint64:
    # The finaliser of splitmix64: a bijection, so equal hashes of one 64-bit key mean equal keys.
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def mix_words(hashes: UInts, words: UInts) -> None:
    """Fold one 64-bit word per row into the hashes, in place."""
    for i in range(len(words)):
        hashes[i] = _mix((hashes[i] * np.uint64(0x9E3779B97F4A7C15)) ^ words[i])


@kernel
def mix_bytes(hashes: UInts, offsets: Ints, data: npt.NDArray[np.uint8]) -> None:
    """Fold a string of bytes per row into the hashes, in place."""
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        h = _mix(hashes[i] ^ np.uint64(end - begin))
        word, shift = np.uint64(0), np.uint64(0)
        for j in range(begin, end):
            word |= np.uint64(data[j]) << shift
            shift += np.uint64(8)
            if shift == np.uint64(64):
                h = _mix(h * np.uint64(0x9E3779B97F4A7C15) ^ word)
                word, shift = np.uint64(0), np.uint64(0)
        hashes[i] = _mix(h * np.uint64(0x9E3779B97F4A7C15) ^ word)


@kernel
def mix_lists(hashes: UInts, starts: Ints, ends: Ints, elements: UInts) -> None:
    """Fold a list of hashes per row into the hashes, in place."""
    for i in range(len(starts)):
        h = _mix(hashes[i] ^ np.uint64(ends[i] - starts[i]))
        for j in range(starts[i], ends[i]):
            h = _mix(h * np.uint64(0x9E3779B97F4A7C15) ^ elements[j])
        hashes[i] = h
