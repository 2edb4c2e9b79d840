"""Streams of vectors to be compared: even over a box, or in clusters that may move.

The S3J paper (Siachamis et al., section 9.2) draws vectors of several dimensions from several
distributions at a chosen rate, and sets the threshold by the share of pairs that are to be alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.errors import ArgumentError
from skewless.workloads.zipf import EPOCH, ZipfKeys, at_least, generator, microseconds

ROWS_MAX = 1_000_000_000  # in a stretch: the ids of a stretch begin at a multiple of it
_ROWS, _CENTERS, _CLUSTERS = range(400, 403)  # what a random stream is for
_SAMPLED = 2**32  # a stretch that no batch has: samples are no rows of the stream

Floats = npt.NDArray[np.float64]
Distances = Callable[[Floats, Floats], Floats]


def angles(a: Floats, b: Floats) -> Floats:
    """The angles between all vectors of a and all of b, over pi."""
    units = [m / np.sqrt((m * m).sum(axis=1, keepdims=True)) for m in (a, b)]
    found: Floats = np.arccos(np.clip(units[0] @ units[1].T, -1, 1)) / np.pi
    return found


@dataclass(frozen=True)
class Vectors:
    """Vectors in the box from -1 to 1 in every dimension, with an id and an event time `at`.

    - `dimension`: more of them make random vectors ever more equally far from one another.
    - `clusters`: how many there are; 0 spreads vectors evenly over the box. Streams share them.
    - `spread`: how far vectors lie from the center of their cluster, as a standard deviation in
      each dimension. Vectors of a cluster near the border may lie outside of the box.
    - `heat`: the exponent of the Zipf law of clusters' sizes; 0 makes all alike.
    - `drift`: how far a center moves in a minute of event time; borders throw it back.
    - `seed`: fixes every vector.

    >>> table = Vectors(dimension=3).table(0, rows=2, begin_s=0, seconds=1)
    >>> table.column_names, len(table["vector"][0])
    (['id', 'vector', 'at'], 3)
    """

    dimension: int = 2
    clusters: int = 0
    spread: float = 0.05
    heat: float = 0.0
    drift: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        at_least("dimension", self.dimension, 1)
        at_least("clusters", self.clusters, 0)
        at_least("seed", self.seed, 0)
        for name in ("spread", "heat", "drift"):
            value = getattr(self, name)
            if not 0 <= value < np.inf:
                raise ArgumentError(name, value, "finite and at least 0")
        for name in ("heat", "drift"):
            if getattr(self, name) and not self.clusters:
                raise ArgumentError(name, getattr(self, name), "0 where there are no `clusters`")

    def table(
        self, stream: int, rows: int, begin_s: float, seconds: float, stretch: int = 0
    ) -> pa.Table:
        """`rows` vectors of a stream (numbered from 0), evenly over `seconds` of event time from
        `begin_s` after the epoch of all workloads, in the order of time. Another `stretch` has
        other vectors."""
        at_least("stream", stream, 0)
        at_least("stretch", stretch, 0)
        if not 0 <= rows <= ROWS_MAX:
            raise ArgumentError("rows", rows, f"between 0 and {ROWS_MAX}")
        if not 0 <= begin_s < np.inf:
            raise ArgumentError("begin_s", begin_s, "finite and at least 0")
        rng = generator(self.seed, _ROWS, stream, stretch)
        spaced_us = np.sort(rng.integers(microseconds("seconds", seconds), size=rows))
        since_us = round(begin_s * 1_000_000) + spaced_us
        vectors = self._vectors(rng, since_us / 60e6, stream, stretch)
        ends = np.arange(rows + 1, dtype=np.int64) * self.dimension
        return pa.table(
            {
                "id": pa.array(stretch * ROWS_MAX + np.arange(rows), pa.int64()),
                "vector": pa.LargeListArray.from_arrays(ends, vectors.ravel()).cast(
                    pa.list_(pa.float64())
                ),
                "at": pa.array(
                    round(EPOCH.timestamp()) * 1_000_000 + since_us, pa.timestamp("us", tz="UTC")
                ),
            }
        )

    def threshold(
        self,
        selectivity: float,
        distances: Distances = angles,
        sample: int = 2000,
        seconds: float = 60,
    ) -> float:
        """The distance that a share of all pairs is within, as far as a sample tells: so many
        vectors of either stream, from the first `seconds`. A larger sample is more exact; the
        pairs it takes, and its memory, grow with the square.

        `distances` tells how far all vectors of a matrix are from all of another.

        >>> round(Vectors(dimension=2).threshold(selectivity=0.1), 2)
        0.1
        """
        if not 0 < selectivity <= 1:
            raise ArgumentError("selectivity", selectivity, "above 0 and at most 1")
        at_least("sample", sample, 1)
        tables = [self.table(stream, sample, 0, seconds, _SAMPLED) for stream in (0, 1)]
        left, right = (
            table["vector"].combine_chunks().flatten().to_numpy().reshape(sample, self.dimension)
            for table in tables
        )
        return float(np.quantile(distances(left, right), selectivity))

    def _vectors(
        self, rng: np.random.Generator, minutes: Floats, stream: int, stretch: int
    ) -> Floats:
        if not self.clusters:
            return rng.uniform(-1, 1, (len(minutes), self.dimension))
        homes, ways = self._centers
        cluster = self._law.draw(len(minutes), stretch, _CLUSTERS + stream)
        centers = homes[cluster]
        if self.drift:
            # Straight on, folded back into the box wherever a center would leave it.
            gone = centers + ways[cluster] * (self.drift * minutes)[:, None]
            centers = np.abs((gone - 1) % 4 - 2) - 1
        noise: Floats = rng.normal(0, self.spread, centers.shape)
        return centers + noise

    @cached_property
    def _law(self) -> ZipfKeys:
        return ZipfKeys(self.clusters, self.heat, self.seed)

    @cached_property
    def _centers(self) -> tuple[Floats, Floats]:
        """Where the centers begin, and the directions in which they go."""
        rng = generator(self.seed, _CENTERS)
        homes = rng.uniform(-1, 1, (self.clusters, self.dimension))
        ways = rng.normal(size=homes.shape)
        return homes, ways / np.sqrt((ways * ways).sum(axis=1, keepdims=True))
