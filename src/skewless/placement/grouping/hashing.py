"""From a 64-bit hash of a key to instances: its home, and further choices under a seed."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
UInts = npt.NDArray[np.uint64]

_kernel = numba.njit(cache=True, nogil=True)

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


@_kernel
def mix(x: np.uint64) -> np.uint64:
    """The finaliser of splitmix64: a bijection that lets every bit change every other."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@_kernel
def home(key: np.uint64, instances: int) -> np.int64:
    """Which of so many equal ranges of hashes a hash is in: the high word of a product."""
    n = np.uint64(instances)
    low = ((key & np.uint64(0xFFFFFFFF)) * n) >> np.uint64(32)
    return np.int64(((key >> np.uint64(32)) * n + low) >> np.uint64(32))


@_kernel
def choice(key: np.uint64, salt: np.uint64, instances: int) -> np.int64:
    """The home under the hash function that a salt stands for."""
    return home(mix(key ^ salt), instances)


@_kernel
def _homes(keys: UInts, instances: int) -> Ints:
    homes = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        homes[i] = home(keys[i], instances)
    return homes


def home_of(hashes: UInts, instances: int) -> Ints:
    """The home of each key: the instance whose range of hashes, as `slot_bounds` has them,
    holds the key's hash.

    >>> home_of(np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64), 2).tolist()
    [0, 0, 1, 1]
    """
    keys = np.ascontiguousarray(hashes).view(np.uint64)
    keys.flags.writeable = False
    homes: Ints = _homes(keys, instances)
    return homes


def salts(seed: int, count: int) -> UInts:
    """So many hash functions, unrelated to one another and to those of other seeds.

    >>> len(set(salts(0, 100).tolist() + salts(1, 100).tolist()))
    200
    """
    made = []
    start = _mixed(seed + 1)
    for number in range(count):
        made.append(_mixed(start + (number + 1) * _GOLDEN))
    return np.array(made, np.uint64)


def _mixed(x: int) -> int:
    x &= _WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _WORD
    return x ^ (x >> 31)
