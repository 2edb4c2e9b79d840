"""Comparing what joins have written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from skewless.cli.demo.proof import Found, found_in

Rows = list[tuple[int, int, int]]

ids = st.integers(0, 3)
some_rows = st.lists(st.tuples(ids, ids, ids), max_size=6)


def write(folder: Path, rows: Rows, cuts: int = 1, unit: str = "us") -> Found:
    """Rows in some files, some of them in folders of their own; beside them what is no result."""
    for number in range(cuts):
        part = rows[number::cuts]
        times = pa.array([row[2] * 1_000 for row in part], pa.timestamp("us", "UTC"))
        table = pa.table(
            {
                "seen_at": times.cast(pa.timestamp(unit, "UTC")),
                "order_id": pa.array([row[0] for row in part], pa.int64()),
                "cell": pa.array([1] * len(part), pa.int64()),
                "taxi_id": pa.array([row[1] for row in part], pa.int64()),
            }
        )
        place = folder / f"batch-{number}" if number % 2 else folder
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            table, place / f"part-{number}.parquet", use_deprecated_int96_timestamps=unit == "ns"
        )
        (place / "_SUCCESS").touch()
    return found_in(folder)


@given(one=some_rows, other=some_rows)
def test_equal_is_equal_as_multisets(tmp_path_factory: object, one: Rows, other: Rows) -> None:
    folder = tmp_path_factory.mktemp("found")  # type: ignore[attr-defined]
    left, right = write(folder / "one", one), write(folder / "other", other)
    assert (left == right) == (Counter(one) == Counter(other))


def test_order_files_and_units_do_not_count(tmp_path: Path) -> None:
    rows = [(i, i * 7 % 5, i * 3 % 11) for i in range(100)]
    one = write(tmp_path / "one", rows)
    assert one == write(tmp_path / "other", rows[::-1], cuts=3, unit="ns")
    assert one.rows == 100


def test_partners_that_are_swapped_count(tmp_path: Path) -> None:
    one = write(tmp_path / "one", [(1, 10, 5), (2, 20, 5)])
    other = write(tmp_path / "other", [(1, 20, 5), (2, 10, 5)])
    assert one.rows == other.rows and one != other


def test_nothing(tmp_path: Path) -> None:
    assert found_in(tmp_path / "none") == Found(0, 0)
