"""What every grouping does: choose an instance for each tuple of a stream.

A `Grouping` is a frozen configuration. It builds a `Grouper`, the running state, all of which is a
few named arrays: so one snapshot format serves every grouping, and the inner loops get arrays.
"""

from __future__ import annotations

import json
import struct
import zlib
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from skewless.errors import ArgumentError, StateDamagedError, StateFormatError
from skewless.placement.grouping.hashing import home_of

__all__ = ["Grouper", "Grouping", "as_hashes", "home_of"]

Ints = npt.NDArray[np.int64]
UInts = npt.NDArray[np.uint64]
Targets = npt.NDArray[np.int32]
State = dict[str, npt.NDArray[Any]]

INSTANCES_MAX = 1 << 20
FORMAT = 1
_MAGIC = b"skewless grouper\n"
_HEAD = struct.Struct("<IIQ")  # format, CRC-32 of all that follows the head, length of the header
_WHAT_TO_DO = "Resume from another snapshot, or build a new grouper."


class Grouping(ABC):
    """A way to choose the instance of each tuple by the hash of its key. Configurations are
    frozen and comparable; all that changes is in the `Grouper`."""

    @property
    def planned_by_driver(self) -> bool:
        """Whether a batch has to be seen whole. Then its rows are stored by `Grouper.first_places`,
        and the driver has `Grouper.plan` divide them. Else every task has a grouper of its own,
        which says at once who works on a row."""
        return False

    def build(self, instances: int, seed: int = 0) -> Grouper:
        """A grouper that has seen nothing yet. The seed fixes hash functions and random choices;
        equal seeds give equal targets."""
        whole("instances", instances, 1, INSTANCES_MAX)
        whole("seed", seed, 0, (1 << 64) - 1)
        loads = np.zeros(instances, np.int64)
        return self._grouper(instances, seed, {"loads": loads, **self._fresh(instances, seed)})

    def resume(self, snapshot: bytes) -> Grouper:
        """The grouper that `snapshot` was taken of: it goes on exactly as that one would have."""
        header, body = _open(snapshot)
        if header["grouping"] != repr(self):
            raise StateFormatError(
                f"the snapshot is of {header['grouping']}, this grouping is {self!r}. Resume it "
                "with the grouping that it was taken of, or build a new grouper."
            )
        grouper = self.build(header["instances"], header["seed"])
        grouper._restore(header["arrays"], body)
        return grouper

    def _grouper(self, instances: int, seed: int, state: State) -> Grouper:
        return Grouper(self, instances, seed, state)

    @abstractmethod
    def _fresh(self, instances: int, seed: int) -> State:
        """The arrays that this grouping keeps besides the loads, as they are before any tuple.
        Their shapes never change."""

    @abstractmethod
    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        """Fill in the targets, and bring the state, loads included, up to date."""


class Grouper:
    """The running state of a grouping: `loads` are the tuples sent to each instance so far.

    >>> from skewless.placement.grouping import ShuffleGrouping
    >>> grouper = ShuffleGrouping().build(instances=2)
    >>> grouper.assign(np.array([5, 5, 5])).tolist(), grouper.loads.tolist()
    ([0, 1, 0], [2, 1])
    """

    def __init__(self, grouping: Grouping, instances: int, seed: int, state: State) -> None:
        self.grouping = grouping
        self.instances = instances
        self.seed = seed
        self._state = state

    @property
    def loads(self) -> Ints:
        """Tuples sent to each instance so far, as a read-only view."""
        view = self._state["loads"].view()
        view.flags.writeable = False
        return view

    @property
    def memory_bytes(self) -> int:
        """The size of all arrays that the grouping keeps."""
        return sum(array.nbytes for array in self._state.values())

    def assign(self, hashes: npt.ArrayLike) -> Targets:
        """The instance of each tuple, by the 64-bit hashes of their keys in order of arrival.
        Cutting a stream into several calls changes nothing, unless a grouping says so."""
        keys = as_hashes(hashes)
        targets = np.empty(len(keys), np.int32)
        self.grouping._route(self._state, keys, targets)
        return targets

    def first_places(self, hashes: npt.ArrayLike) -> Ints | Targets:
        """For which instance each row of a batch is stored: who works on it or, where the driver
        plans, the home of its key."""
        return self.assign(hashes)

    @property
    def tracked_keys(self) -> UInts:
        """Keys that the driver has to count in every batch, however few their tuples are."""
        return np.zeros(0, np.uint64)

    def plan(self, light: npt.ArrayLike, keys: npt.ArrayLike, counts: npt.ArrayLike) -> Ints:
        """Divide a batch that is seen whole, where the driver plans."""
        raise TypeError(f"{self.grouping!r} looks at one tuple after the other")

    def snapshot(self) -> bytes:
        """All of the state, for `Grouping.resume`."""
        arrays = [[name, array.dtype.str, array.shape] for name, array in self._state.items()]
        header = json.dumps(
            {
                "grouping": repr(self.grouping),
                "instances": self.instances,
                "seed": self.seed,
                "arrays": arrays,
            }
        ).encode()
        body = b"".join([header, *(array.tobytes() for array in self._state.values())])
        return _MAGIC + _HEAD.pack(FORMAT, zlib.crc32(body), len(header)) + body

    def _restore(self, arrays: list[Any], body: memoryview) -> None:
        mine = [[name, array.dtype.str, list(array.shape)] for name, array in self._state.items()]
        if arrays != mine or len(body) != self.memory_bytes:
            raise StateFormatError(
                "the snapshot's arrays are not those of this version of skewless. Use the version "
                "that took it, or build a new grouper."
            )
        begin = 0
        for array in self._state.values():
            stored = np.frombuffer(body[begin : begin + array.nbytes], array.dtype)
            array[...] = stored.reshape(array.shape)
            begin += array.nbytes


def _open(snapshot: bytes) -> tuple[dict[str, Any], memoryview]:
    """Header and arrays of a snapshot; what is damaged or of an unknown format is refused."""
    begin = len(_MAGIC) + _HEAD.size
    if len(snapshot) < begin or not snapshot.startswith(_MAGIC):
        raise StateDamagedError(f"this is no snapshot of a grouper, or was cut off. {_WHAT_TO_DO}")
    found, crc32, length = _HEAD.unpack_from(snapshot, len(_MAGIC))
    if found != FORMAT:
        raise StateFormatError(
            f"the snapshot is of format {found}; this version of skewless knows format {FORMAT}. "
            "Use the version that took it or a newer one."
        )
    body = memoryview(snapshot)[begin:]
    if zlib.crc32(body) != crc32 or length > len(body):
        raise StateDamagedError(
            f"the snapshot was altered: its checksum does not fit. {_WHAT_TO_DO}"
        )
    return json.loads(bytes(body[:length])), body[length:]


def as_hashes(hashes: npt.ArrayLike, argument: str = "hashes") -> UInts:
    """A contiguous, read-only view of 64-bit hashes, signed or not: one type for all kernels.

    >>> as_hashes(np.array([-1])).tolist()
    [18446744073709551615]
    """
    array = np.asarray(hashes)
    if array.ndim != 1 or array.dtype not in (np.dtype(np.int64), np.dtype(np.uint64)):
        received = f"{array.dtype} in {array.ndim} dimensions"
        raise ArgumentError(argument, received, "a one-dimensional array of int64 or uint64")
    view: UInts = np.ascontiguousarray(array).view(np.uint64)
    view.flags.writeable = False
    return view


def whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number within bounds."""
    bounds = f"at least {least}" if most is None else f"{least} to {most}"
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or value < least or (most is not None and value > most):  # type: ignore[operator]
        raise ArgumentError(name, value, f"a whole number of {bounds}")


def between(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is no number strictly between two bounds."""
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not low < value < high:  # type: ignore[operator]
        raise ArgumentError(name, value, f"a number above {low} and below {high}")


def within(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is no number between two bounds, or one of them."""
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not low <= value <= high:  # type: ignore[operator]
        raise ArgumentError(name, value, f"a number from {low} to {high}")
