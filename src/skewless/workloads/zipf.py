"""Keys drawn from a Zipf distribution, and pairs of streams made of them.

The key of rank `r` is drawn with a probability proportional to `r ** -exponent`: 0 is uniform,
1 is the classic law of word counts, and beyond 1 a handful of keys carries most of the rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from skewless.errors import ArgumentError

EPOCH = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)  # 1 700 000 000 s after 1970
"""Where event time and file times begin: fixed, so that the same seed gives the same bytes."""

_PERMUTATION, _DRAW, _ROWS = range(3)  # what a random stream is for; no two purposes share one


@dataclass(frozen=True)
class ZipfKeys:
    """Draws key ids from `0 .. keys - 1`, the hottest of them scattered over that range.

    - `keys`: more keys mean fewer rows per cold key, and memory of 16 bytes each.
    - `exponent`: higher values put more of the rows on fewer keys; 0 draws uniformly.
    - `seed`: fixes both the draws and which ids are hot. Two instances with equal `keys` and
      `seed` agree on the order of heat whatever their exponents, so that the two sides of a
      join may differ in skew and still meet on the same hot keys.

    >>> keys = ZipfKeys(keys=1000, exponent=1.0, seed=7)
    >>> ids = keys.draw(100_000)
    >>> bool(abs((ids == keys.hottest(1)[0]).mean() - keys.share(1)) < 0.01)
    True
    """

    keys: int
    exponent: float
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("keys", self.keys, 1)
        at_least("seed", self.seed, 0)
        if not 0 <= self.exponent < np.inf:
            raise ArgumentError("exponent", self.exponent, "finite and at least 0")

    def draw(self, rows: int, batch: int = 0, side: int = 0) -> npt.NDArray[np.int64]:
        """`rows` key ids, the same ones whenever seed, batch, side and rows are the same."""
        at_least("rows", rows, 0)
        at_least("batch", batch, 0)
        at_least("side", side, 0)
        rng = generator(self.seed, _DRAW, side, batch)
        if self.exponent == 0:  # a permuted uniform draw is a uniform draw
            return rng.integers(self.keys, size=rows)
        ranks = np.searchsorted(self._cumulative, rng.random(rows), side="right")
        return self._ids_by_rank[ranks]

    def hottest(self, count: int) -> npt.NDArray[np.int64]:
        """The ids of the `count` keys of highest rank, hottest first."""
        return self._ids_by_rank[:count].copy()

    def share(self, count: int) -> float:
        """The share of all rows that falls on the `count` hottest keys, in expectation."""
        if not 0 <= count <= self.keys:
            raise ArgumentError("count", count, f"between 0 and {self.keys}")
        return float(self._cumulative[count - 1]) if count else 0.0

    @cached_property
    def _cumulative(self) -> npt.NDArray[np.float64]:
        sums = np.cumsum(np.arange(1, self.keys + 1, dtype=np.float64) ** -self.exponent)
        # Divided by itself the last entry is exactly 1, above any draw: no rank can overflow.
        sums /= sums[-1]
        return sums

    @cached_property
    def _ids_by_rank(self) -> npt.NDArray[np.int64]:
        return generator(self.seed, _PERMUTATION).permutation(self.keys)


def zipf_streams(
    out: str | os.PathLike[str],
    left_zipf: float = 0.0,
    right_zipf: float = 0.0,
    files: int = 12,
    rows: int = 500_000,
    keys: int = 1_000_000,
    seconds: float = 5.0,
    seed: int = 1,
) -> None:
    """Write two streams to join, `out/r` and `out/s`, one parquet file per micro-batch.

    Columns are `key`, `ts` (ascending), and per side an id counted through all files and a
    random value: `r_id, r_v` and `s_id, s_v`. The times of last change ascend with the file
    number, so that a file source takes the files in order. Files of an earlier run are replaced.

    - `left_zipf`, `right_zipf`: the exponent of each side. The sides share their hot keys; if
      both are high, the matches grow with the product of two hot keys' rows.
    - `files`, `rows`: micro-batches per side, and rows in each.
    - `keys`: fewer keys mean more matches per row. With the defaults and a window of ten
      seconds either way, a row has about two matches away from the ends of the stream.
    - `seconds`: event time in a file; a longer one thins the stream out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as out:
    ...     zipf_streams(out, left_zipf=1.0, files=2, rows=100, keys=50)
    ...     first = pq.read_table(Path(out, "r", "0000.parquet"))
    >>> first.num_rows, first.column_names
    (100, ['key', 'ts', 'r_id', 'r_v'])
    """
    at_least("files", files, 0)
    at_least("rows", rows, 0)
    span_us = microseconds("seconds", seconds)
    start_us = round(EPOCH.timestamp()) * 1_000_000
    # Both are built, and so checked, before the files of an earlier run are removed.
    sides = {"r": ZipfKeys(keys, left_zipf, seed), "s": ZipfKeys(keys, right_zipf, seed)}
    for side, (name, zipf) in enumerate(sides.items()):
        folder = empty_folder(Path(out, name))
        for batch in range(files):
            rng = generator(seed, _ROWS, side, batch)
            times = start_us + batch * span_us + np.sort(rng.integers(span_us, size=rows))
            table = pa.table(
                {
                    "key": pa.array(zipf.draw(rows, batch, side), pa.int64()),
                    "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                    f"{name}_id": pa.array(np.arange(rows) + batch * rows, pa.int64()),
                    f"{name}_v": pa.array(rng.random(rows), pa.float64()),
                }
            )
            publish(table, folder, batch)


def empty_folder(folder: Path) -> Path:
    """Make `folder`, or remove from it the numbered files that an earlier run published."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.parquet"):
        if path.stem.isdecimal():  # anything else is not ours to delete
            path.unlink()
    return folder


def publish(table: pa.Table, folder: Path, number: int) -> None:
    """Write `table` as file `number` of a stream, so that a reader sees all of it or none.

    Spark's file sources skip names that begin with a dot and take files by their time of last
    change; hence the file gets its final time before it gets its final name.
    """
    hidden = folder / f".{number:04d}.parquet"
    pq.write_table(table, hidden)
    changed = EPOCH.timestamp() + number
    os.utime(hidden, (changed, changed))
    hidden.replace(folder / f"{number:04d}.parquet")


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """A random stream of its own for every purpose under one seed."""
    # A spawn key, not a longer seed: SeedSequence pads seeds, so [7] and [7, 0] are the same one.
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))


def microseconds(name: str, seconds: float) -> int:
    """A length of event time in the unit of its columns."""
    if not 1e-6 <= seconds < np.inf:
        raise ArgumentError(name, seconds, "finite and at least one microsecond")
    return round(seconds * 1_000_000)


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a count that is too low."""
    if value < least:
        raise ArgumentError(name, value, f"at least {least}")
