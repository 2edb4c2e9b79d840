"""Distances that obey the triangle inequality, which is all that the worksets rely on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from skewless.arrays.merging import expand_ranges
from skewless.arrays.types import Flags, Ints, frozen
from skewless.errors import DataError
from skewless.operators.similarity.points import (
    Matrix,
    Points,
    Sets,
    matrix,
    matrix_of,
    sets_of,
)

Floats = npt.NDArray[np.float64]
FloatOrFloats = Any  # a number, or an array of numbers

PRODUCT_FROM = 16  # elements
VANISHING = np.float32(1e-30)  # squares below lose their digits in single precision
EARTH_RADIUS_M = 6_371_008.8  # the mean radius
SLACK, TINY = 1e-9, 1e-300  # rounding must not rule a pair out
VANISHED_M = 1e-140  # metres: the square of the angle is no number any more
PAIRS_PER_CHUNK = 1 << 16
NEAR_PER_CHUNK = 1 << 16
PAIRS_AT_ONCE = 1 << 15  # of a user's metric, whose arguments are copies

_kernel = numba.njit(cache=True, nogil=True)

EUCLIDEAN, MANHATTAN, ANGULAR, HAMMING, HAVERSINE = range(5)


class Metric(ABC):
    """A distance. Configurations are frozen and picklable; `repr` is what a checkpoint is tied to.
    Thresholds lie between 0 and `largest`."""

    largest: ClassVar[float] = math.inf
    columns_described: ClassVar[str] = "an array of numbers, or numeric columns"
    has_dimension: ClassVar[bool] = True  # all values must have the same number of elements
    price: ClassVar[float] = 1.0  # of a distance, in comparisons of short vectors
    center_price: ClassVar[float] = 1.0  # of one from a center, which is seldom near, in distances
    error: ClassVar[float] = 0.0  # how far distances of pairs may be off, beyond the last digits

    def fits(self, types: list[pa.DataType]) -> bool:
        """Whether it works on columns of these types."""
        if len(types) == 1 and (pt.is_list(types[0]) or pt.is_large_list(types[0])):
            return _is_number(types[0].value_type)
        return all(map(_is_number, types))

    def takes_dimension(self, dimension: int) -> bool:
        """Whether it works on so many numbers."""
        return dimension > 0

    def points(self, columns: list[pa.Array]) -> Points:
        """Values as they are compared."""
        return matrix_of(columns)

    def unfit(self, points: Points) -> Flags | None:
        """Which values have no distance under this metric; None: all have one."""
        return None

    def maybe_near(self, a: Matrix, b: Matrix, threshold: float) -> Flags | None:
        """Which pairs (row of a, row of b) may be within a threshold, by one matrix product in
        single precision. None is left out that is; None: this metric has no such product."""
        return None

    @abstractmethod
    def pairs(self, a: Points, a_rows: Ints, b: Points, b_rows: Ints) -> Floats:
        """The distances of some pairs of rows."""

    def near(
        self, a: Points, rows: Ints, b: Points, first: Ints, last: Ints, threshold: float
    ) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Of pairs of a row of a with each row of b from `first` to `last`, those within a
        threshold, some at a time: row of a, row of b, distance."""
        pairs, at, skip = int((last - first).sum()), 0, 0
        while pairs > 0:
            room = min(pairs, PAIRS_PER_CHUNK)
            found, partners, at, skip = expand_ranges(frozen(first), frozen(last), at, skip, room)
            pairs -= room
            distances = self.pairs(a, rows[found], b, partners)
            near = distances <= threshold
            yield rows[found[near]], partners[near], distances[near]

    @abstractmethod
    def cross(self, a: Points, b: Points) -> Matrix:
        """The distances of all rows of a from all of b, as precise as `cross_error` says."""

    def cross_error(self, a: Points, b: Points) -> float:
        """How far distances that `cross` gives may be off, beyond the last digits."""
        return 0.0

    def nearest(self, a: Points, b: Points) -> tuple[Ints, Floats]:
        """The nearest row of b for each of a, and its distance, as precise as `cross`."""
        apart = self.cross(a, b)
        found = apart.argmin(axis=1)
        return found, apart[np.arange(len(apart)), found]

    def within(self, a: Points, b: Points, bounds: Floats) -> tuple[Ints, Ints]:
        """Pairs (row of a, row of b) that are not further apart than the row of b allows: all of
        them, and perhaps some for which that is a matter of `cross_error`."""
        rows, numbers = np.nonzero(self.cross(a, b) <= bounds + 2 * self.cross_error(a, b))
        return rows, numbers


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


@dataclass(frozen=True)
class VectorMetric(Metric):
    """A metric of vectors, computed by a compiled loop."""

    name: str

    @property
    def _code(self) -> int:
        return {"euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "hamming": HAMMING}[self.name]

    @property
    def largest(self) -> float:  # type: ignore[override]
        return 1.0 if self.name == "hamming" else math.inf

    def points(self, columns: list[pa.Array]) -> Points:
        # Only whether elements are equal counts here: integers stay what they are.
        return matrix_of(columns, keep_integers=self._code == HAMMING)

    def pairs(self, a: Points, a_rows: Ints, b: Points, b_rows: Ints) -> Floats:
        found: Floats = _pairs(self._code, matrix(a), a_rows, matrix(b), b_rows)
        return found

    def near(
        self, a: Points, rows: Ints, b: Points, first: Ints, last: Ints, threshold: float
    ) -> Iterator[tuple[Ints, Ints, Floats]]:
        x, y, limit = frozen(matrix(a)), frozen(matrix(b)), float(self._limit(threshold))
        ranges = frozen(rows), frozen(first), frozen(last)
        at = skip = 0
        while at < len(rows):
            found, partners, distances, at, skip = _near(
                self._code, x, y, *ranges, limit, threshold, at, skip, NEAR_PER_CHUNK
            )
            yield found, partners, distances

    def _limit(self, threshold: FloatOrFloats) -> FloatOrFloats:
        """Pairs whose `_bound` is larger are further apart than the threshold, rounding included:
        that is known before the root, and what comes after it, is computed."""
        if self._code == EUCLIDEAN:
            return threshold * threshold * (1 + SLACK) + TINY
        return threshold + math.inf

    def cross(self, a: Points, b: Points) -> Matrix:
        x, y = matrix(a), matrix(b)
        if self._is_product(x):
            squares = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2 * (x @ y.T)
            return np.asarray(np.sqrt(np.maximum(squares, 0.0)))
        found: Matrix = _cross(self._code, x, y)
        return found

    def nearest(self, a: Points, b: Points) -> tuple[Ints, Floats]:
        x, y = matrix(a), matrix(b)
        if self._is_product(x):
            return super().nearest(a, b)
        found, distances = _nearest(self._code, frozen(x), frozen(y))
        return found, distances

    def within(self, a: Points, b: Points, bounds: Floats) -> tuple[Ints, Ints]:
        x, y = matrix(a), matrix(b)
        if self._is_product(x):
            return super().within(a, b, bounds)
        bounds = bounds + 2 * self.cross_error(a, b)
        rows, numbers = _within(self._code, frozen(x), frozen(y), self._limit(bounds), bounds)
        return rows, numbers

    def cross_error(self, a: Points, b: Points) -> float:
        x, y = matrix(a), matrix(b)
        if not self._is_product(x) or not len(x) or not len(y):
            return 0.0
        squares = float((x * x).sum(axis=1).max() + (y * y).sum(axis=1).max())
        return math.sqrt(4 * (x.shape[1] + 8) * 2.0**-53 * squares)

    def _is_product(self, x: Matrix) -> bool:
        """Whether distances come from a matrix product: for long vectors that is much faster, and
        loses digits only where they are nearly equal."""
        return self._code == EUCLIDEAN and x.shape[1] >= PRODUCT_FROM

    def maybe_near(self, a: Matrix, b: Matrix, threshold: float) -> Flags | None:
        if self._code != EUCLIDEAN:
            return None
        center = b.mean(axis=0)  # norms are small around it, and so is what rounding adds to them
        x, y = a - center, b - center
        scale = max(np.abs(x).max(initial=0.0), np.abs(y).max(initial=0.0), threshold) or 1.0
        x, y = (x / scale).astype(np.float32), (y / scale).astype(np.float32)
        norms = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1)[None, :]
        squares = norms - 2 * (x @ y.T)
        bound = np.float32((threshold / scale) ** 2) + _rounding(a.shape[1]) * norms
        return np.asarray(squares <= bound * np.float32(1 + 1e-6) + VANISHING)


def _rounding(dimension: int) -> np.float32:
    """A bound on the relative error of a sum of products in single precision, conversions
    included: each of the terms, and each of the additions, is off by half a unit at most."""
    return np.float32(4 * (dimension + 8) * 2.0**-24)


@dataclass(frozen=True)
class Angular(VectorMetric):
    """The angle between two vectors over pi: 0 for one direction, 1 for opposite ones. Computed
    from the difference and the sum of unit vectors, which is right to the last digits also for
    small angles, where the arc cosine loses half of them."""

    name: str = "angular"
    largest: ClassVar[float] = 1.0

    @property
    def _code(self) -> int:
        return ANGULAR

    def _limit(self, threshold: FloatOrFloats) -> FloatOrFloats:
        chord = 4 * np.sin(math.pi * threshold / 2) ** 2 * (1 + SLACK) + TINY
        # Of a right angle and more, the chord says too little about the last digits.
        return np.where(threshold < 0.5, chord, math.inf)

    def points(self, columns: list[pa.Array]) -> Points:
        vectors = matrix_of(columns)
        largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = vectors / largest  # so that squares neither overflow nor vanish
            units: Matrix = scaled / np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
            return units

    def unfit(self, points: Points) -> Flags | None:
        return np.asarray(~np.isfinite(matrix(points)).all(axis=1))

    def _is_product(self, x: Matrix) -> bool:
        return bool(x.shape[1] >= PRODUCT_FROM)

    def cross(self, a: Points, b: Points) -> Matrix:
        x, y = matrix(a), matrix(b)
        if not self._is_product(x):
            return super().cross(a, b)
        return np.asarray(np.arccos(np.clip(x @ y.T, -1.0, 1.0)) / np.pi)

    def cross_error(self, a: Points, b: Points) -> float:
        # The arc cosine of a value near 1 that is off by e is off by the root of 2 e.
        x = matrix(a)
        return math.sqrt(8 * (x.shape[1] + 8) * 2.0**-53) / math.pi if self._is_product(x) else 0.0

    def maybe_near(self, a: Matrix, b: Matrix, threshold: float) -> Flags | None:
        cosines = a.astype(np.float32) @ b.astype(np.float32).T
        return np.asarray(cosines >= math.cos(math.pi * threshold) - _rounding(a.shape[1]))


@dataclass(frozen=True)
class Haversine(VectorMetric):
    """The distance of two places on the globe in metres, by latitude and longitude in degrees."""

    name: str = "haversine"
    error: ClassVar[float] = 0.5  # metres: near the antipode half of the digits are lost
    center_price: ClassVar[float] = 4.0  # a difference in latitude rules out few
    columns_described: ClassVar[str] = (
        "latitude and longitude in degrees: two columns, or one array"
    )

    @property
    def _code(self) -> int:
        return HAVERSINE

    @property
    def largest(self) -> float:  # type: ignore[override]
        return math.pi * EARTH_RADIUS_M

    def _limit(self, threshold: FloatOrFloats) -> FloatOrFloats:
        # Towards the antipode the arc sine loses digits. Next to nothing, squares vanish, and
        # with them distances that the bound still sees.
        limit = threshold * (1 + SLACK) + VANISHED_M
        return np.where(threshold < self.largest / 2, limit, math.inf)

    def fits(self, types: list[pa.DataType]) -> bool:
        return super().fits(types) and (len(types) == 2 or pt.is_nested(types[0]))

    def takes_dimension(self, dimension: int) -> bool:
        return dimension == 2

    def points(self, columns: list[pa.Array]) -> Points:
        places: Matrix = np.radians(matrix_of(columns))
        return places

    def cross_error(self, a: Points, b: Points) -> float:
        return self.error

    def unfit(self, points: Points) -> Flags | None:
        places = matrix(points)
        if places.shape[1] != 2:
            return np.ones(len(places), np.bool_)
        return np.asarray(np.abs(places[:, 0]) > np.pi / 2 + 1e-12)


@dataclass(frozen=True)
class Jaccard(Metric):
    """One minus the share that two sets of integers have in common. Two empty sets are alike."""

    largest: ClassVar[float] = 1.0
    columns_described: ClassVar[str] = "an array of integers"
    has_dimension: ClassVar[bool] = False
    price: ClassVar[float] = 16.0

    def fits(self, types: list[pa.DataType]) -> bool:
        lists = len(types) == 1 and (pt.is_list(types[0]) or pt.is_large_list(types[0]))
        return bool(lists and pt.is_integer(types[0].value_type))

    def points(self, columns: list[pa.Array]) -> Points:
        return sets_of(columns[0])

    def pairs(self, a: Points, a_rows: Ints, b: Points, b_rows: Ints) -> Floats:
        assert isinstance(a, Sets) and isinstance(b, Sets)
        found: Floats = _jaccard_pairs(a.offsets, a.values, a_rows, b.offsets, b.values, b_rows)
        return found

    def cross(self, a: Points, b: Points) -> Matrix:
        n, m = len(a), len(b)
        rows = np.repeat(np.arange(n), m)
        return self.pairs(a, rows, b, np.tile(np.arange(m), n)).reshape(n, m)


@dataclass(frozen=True)
class OwnMetric(Metric):
    """A metric that a user has written: a function of two matrices, which gives the distance of
    each row of the one from the same row of the other."""

    price: ClassVar[float] = 16.0

    function: Callable[[Matrix, Matrix], Any]

    def __repr__(self) -> str:
        return f"metric {getattr(self.function, '__qualname__', type(self.function).__name__)}"

    def pairs(self, a: Points, a_rows: Ints, b: Points, b_rows: Ints) -> Floats:
        found = np.empty(len(a_rows))
        for begin in range(0, len(a_rows), PAIRS_AT_ONCE):
            some = slice(begin, begin + PAIRS_AT_ONCE)
            found[some] = self._of(matrix(a)[a_rows[some]], matrix(b)[b_rows[some]])
        return found

    def _of(self, a: Matrix, b: Matrix) -> Floats:
        distances = np.asarray(self.function(a, b), np.float64)
        if distances.shape != (len(a),) or not (distances >= 0).all():
            raise DataError(
                f"{self!r} must give one distance of at least 0 per row; for {len(a)} rows it gave "
                f"an array of shape {distances.shape}"
            )
        return distances

    def cross(self, a: Points, b: Points) -> Matrix:
        n, m = len(a), len(b)
        rows = np.repeat(np.arange(n), m)
        return self.pairs(a, rows, b, np.tile(np.arange(m), n)).reshape(n, m)

    def check_triangles(self, points: Points) -> None:
        """Raise DataError where a sample shows that this is no metric."""
        some = min(len(points), 40)
        between = self.cross(matrix(points)[:some], matrix(points)[:some])
        slack = 1e-9 * (1 + np.abs(between).max(initial=0.0))
        if (np.abs(between - between.T) > slack).any() or (np.diag(between) > slack).any():
            raise DataError(f"{self!r} is no metric: it must be symmetric, and 0 for equal values")
        ways = (between[:, :, None] + between[None, :, :]).min(axis=1)
        if (between > ways + slack).any():
            raise DataError(f"{self!r} is no metric: the way over a third value was shorter")


METRICS: dict[str, Metric] = {
    "angular": Angular(),
    "euclidean": VectorMetric("euclidean"),
    "manhattan": VectorMetric("manhattan"),
    "hamming": VectorMetric("hamming"),
    "jaccard": Jaccard(),
    "haversine": Haversine(),
}


@_kernel
def _distance(code: int, a: Floats, b: Floats) -> float:
    if code == ANGULAR:
        apart, along = 0.0, 0.0
        for i in range(len(a)):
            apart += (a[i] - b[i]) ** 2
            along += (a[i] + b[i]) ** 2
        return 2.0 * math.atan2(math.sqrt(apart), math.sqrt(along)) / math.pi
    if code == HAVERSINE:
        north, east = math.sin((b[0] - a[0]) / 2), math.sin((b[1] - a[1]) / 2)
        h = north * north + math.cos(a[0]) * math.cos(b[0]) * east * east
        return 2.0 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))
    total = 0.0
    if code == EUCLIDEAN:
        for i in range(len(a)):
            total += (a[i] - b[i]) ** 2
        return math.sqrt(total)
    if code == MANHATTAN:
        for i in range(len(a)):
            total += abs(a[i] - b[i])
        return total
    for i in range(len(a)):
        total += a[i] != b[i]
    return total / max(len(a), 1)


@_kernel
def _bound(code: int, a: Floats, b: Floats) -> float:
    """What is at most the distance of two points, or its square, and quickly computed."""
    if code == HAVERSINE:
        return float(abs(b[0] - a[0])) * EARTH_RADIUS_M  # a way along a meridian
    total = 0.0
    if code in (ANGULAR, EUCLIDEAN):
        for i in range(len(a)):
            total += (a[i] - b[i]) ** 2
    return total


@_kernel
def _near(
    code: int,
    a: Matrix,
    b: Matrix,
    rows: Ints,
    first: Ints,
    last: Ints,
    limit: float,
    threshold: float,
    at: int,
    skip: int,
    room: int,
) -> tuple[Ints, Ints, Floats, int, int]:
    """Pairs within a threshold, at most `room`, beginning `skip` into the range `at`; and where to
    go on."""
    found, partners = np.empty(room, np.int64), np.empty(room, np.int64)
    distances = np.empty(room)
    filled = 0
    while at < len(rows):
        point = a[rows[at]]
        for k in range(first[at] + skip, last[at]):
            if _bound(code, point, b[k]) > limit:
                continue
            distance = _distance(code, point, b[k])
            if distance <= threshold:
                if filled == room:
                    return found, partners, distances, at, k - first[at]
                found[filled], partners[filled], distances[filled] = rows[at], k, distance
                filled += 1
        at += 1
        skip = 0
    return found[:filled], partners[:filled], distances[:filled], at, 0


@_kernel
def _nearest(code: int, a: Matrix, b: Matrix) -> tuple[Ints, Floats]:
    """The nearest row of b for each of a. Where the square of a distance grows with it, only one
    root per row is taken."""
    found, distances = np.zeros(len(a), np.int64), np.empty(len(a))
    has_square = code in (ANGULAR, EUCLIDEAN)
    for i in range(len(a)):
        least = np.inf
        for j in range(len(b)):
            apart = _bound(code, a[i], b[j])
            if not has_square:
                if apart > least * (1 + SLACK):
                    continue
                apart = _distance(code, a[i], b[j])
            if apart < least:
                least, found[i] = apart, j
        distances[i] = _distance(code, a[i], b[found[i]])
    return found, distances


@_kernel
def _within(code: int, a: Matrix, b: Matrix, limits: Floats, bounds: Floats) -> tuple[Ints, Ints]:
    """Room is made row by row, as a check per pair would cost as much as a short distance."""
    rows, numbers = np.empty(4 * len(a), np.int64), np.empty(4 * len(a), np.int64)
    filled = 0
    for i in range(len(a)):
        point = a[i]
        if filled + len(b) > len(rows):
            rows = np.concatenate((rows, np.empty(len(rows) + len(b), np.int64)))
            numbers = np.concatenate((numbers, np.empty(len(numbers) + len(b), np.int64)))
        for j in range(len(b)):
            if _bound(code, point, b[j]) > limits[j]:
                continue
            if _distance(code, point, b[j]) <= bounds[j]:
                rows[filled], numbers[filled] = i, j
                filled += 1
    return rows[:filled], numbers[:filled]


@_kernel
def _pairs(code: int, a: Matrix, a_rows: Ints, b: Matrix, b_rows: Ints) -> Floats:
    found = np.empty(len(a_rows))
    for i in range(len(a_rows)):
        found[i] = _distance(code, a[a_rows[i]], b[b_rows[i]])
    return found


@_kernel
def _cross(code: int, a: Matrix, b: Matrix) -> Matrix:
    found = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            found[i, j] = _distance(code, a[i], b[j])
    return found


@_kernel
def _jaccard_pairs(
    a_offsets: Ints, a_values: Ints, a_rows: Ints, b_offsets: Ints, b_values: Ints, b_rows: Ints
) -> Floats:
    found = np.empty(len(a_rows))
    for k in range(len(a_rows)):
        i, i_end = a_offsets[a_rows[k]], a_offsets[a_rows[k] + 1]
        j, j_end = b_offsets[b_rows[k]], b_offsets[b_rows[k] + 1]
        total = (i_end - i) + (j_end - j)
        common = 0
        while i < i_end and j < j_end:
            if a_values[i] == b_values[j]:
                common += 1
                i += 1
                j += 1
            elif a_values[i] < b_values[j]:
                i += 1
            else:
                j += 1
        union = total - common
        found[k] = 0.0 if union == 0 else (union - common) / union
    return found
