"""The first half of a batch: what a task keeps of its rows, and what it tells about them."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from skewless.arrays import columns
from skewless.engine.operator import Arrival, HeavyKey, IngestContext
from skewless.operators.pair import JoinSpec
from skewless.operators.two_way.ingest import ingest
from skewless.state.files import Folder
from skewless.state.segments import SCRATCH, SEGMENTS, SegmentInfo, read_arrays, read_segment
from tests.oracle import Question, multiset, rows_of
from tests.strategies import BANDS, EQUALITIES, TIME, Condition, spec_of

INT64, STRING, MONEY_BAND, FLOAT_BAND = (
    next(c for c in EQUALITIES + BANDS if c.name == name)
    for name in ("int64", "string", "decimal ± 0.05", "double ± 0.1")
)


def a_spec(
    *conditions: Condition, drop_null_times: bool = True, timeless: bool = False
) -> JoinSpec:
    at = len(conditions)
    times = None if timeless else (at, at)
    question = Question(
        equal=tuple((i, i) for i, c in enumerate(conditions) if c.width is None),
        near=tuple((i, i, c.width) for i, c in enumerate(conditions) if c.width is not None),
        times=times,
        within=None if timeless else (-5, 5),
        late=None if timeless else (0, 0),
    )
    return spec_of(conditions, question, drop_null_times=drop_null_times)


def batch_of(spec: JoinSpec, rows: list[tuple]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(spec.left.schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, spec.left.schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=spec.left.schema)


def ingest_rows(root: Path, spec: JoinSpec, *batches: list[tuple]) -> list[Arrival]:
    for name in (SEGMENTS, SCRATCH):
        Folder(str(root)).make(name)
    rows = (batch_of(spec, some) for some in batches)
    return list(ingest(rows, spec, "left", IngestContext(Folder(str(root)), "join")))


def segment_of(arrival: Arrival) -> SegmentInfo | None:
    return arrival.runs[0].segment if arrival.runs else None


def dropped(arrival: Arrival) -> tuple[int, int, int]:
    """Rows without time, without key, with NaN in a band."""
    causes = ("null times", "null keys", "NaN in a band")
    assert set(arrival.dropped) <= set(causes)
    return tuple(arrival.dropped.get(cause, 0) for cause in causes)


def stored_rows(root: Path, spec: JoinSpec, arrival: Arrival):
    return read_segment(Folder(str(root)), segment_of(arrival), spec.left.time)


def test_a_segment_holds_all_usable_rows_sorted_by_hash_and_time(tmp_path: Path) -> None:
    spec = a_spec(STRING)
    rng = np.random.default_rng(3)
    rows = [(f"k{k}", int(t), n) for n, (k, t) in enumerate(rng.integers(0, 9, (500, 2)))]
    (arrival,) = ingest_rows(tmp_path, spec, rows[:200], [], rows[200:])
    kept = stored_rows(tmp_path, spec, arrival)
    order = list(zip(kept.hashes.tolist(), kept.times.tolist(), strict=True))
    assert order == sorted(order)
    assert multiset(rows_of(pa.table(kept.columns, schema=spec.left.schema))) == multiset(
        rows_of(batch_of(spec, rows))
    )
    segment = segment_of(arrival)
    assert (segment.rows, arrival.rows, segment.level) == (500, 500, 0)
    assert (segment.hash_min, segment.hash_max) == (order[0][0], order[-1][0])
    assert (segment.time_min_us, segment.time_max_us, arrival.time_max_us) == (0, 8, 8)


def test_nothing_comes_of_no_rows(tmp_path: Path) -> None:
    assert ingest_rows(tmp_path, a_spec(INT64)) == []
    assert ingest_rows(tmp_path, a_spec(INT64), [], []) == []
    assert Folder(str(tmp_path)).list() == []


def test_unusable_rows_are_counted_once_each(tmp_path: Path) -> None:
    """In the order: no time, no key, NaN. A row with a time counts for the watermark."""
    spec = a_spec(INT64, FLOAT_BAND)
    rows = [
        (7, 1.0, 3, 0),
        (None, math.nan, None, 1),
        (None, math.nan, 9, 2),
        (7, None, 4, 3),
        (7, math.nan, 5, 4),
    ]
    (arrival,) = ingest_rows(tmp_path, spec, rows)
    assert (arrival.rows, *dropped(arrival)) == (5, 1, 2, 1)
    assert arrival.time_max_us == 9
    assert stored_rows(tmp_path, spec, arrival).columns[-1].to_pylist() == [0]


def test_a_row_with_nan_in_both_bands_is_one_row(tmp_path: Path) -> None:
    spec = a_spec(FLOAT_BAND, FLOAT_BAND)
    rows = [(math.nan, math.nan, 1, 0), (1.0, math.nan, 1, 1), (math.nan, 1.0, 1, 2)]
    (arrival,) = ingest_rows(tmp_path, spec, rows)
    assert (dropped(arrival), segment_of(arrival), arrival.time_max_us) == ((0, 0, 3), None, 1)


@pytest.mark.parametrize(("drop", "kept"), [(True, 1), (False, 0)])
def test_rows_without_a_time_are_dropped_or_refused(tmp_path: Path, drop: bool, kept: int) -> None:
    spec = a_spec(INT64, drop_null_times=drop)
    (arrival,) = ingest_rows(tmp_path, spec, [(7, None, 0), (7, 1, 1)])
    assert dropped(arrival) == (1, 0, 0)
    assert (0 if segment_of(arrival) is None else segment_of(arrival).rows) == kept
    assert len(Folder(str(tmp_path)).list(SEGMENTS)) == kept


def test_without_a_time_column_all_times_are_zero(tmp_path: Path) -> None:
    spec = a_spec(INT64, timeless=True)
    (arrival,) = ingest_rows(tmp_path, spec, [(7, None, 0), (7, 99, 1)])
    assert (dropped(arrival), arrival.time_max_us, segment_of(arrival).rows) == ((0, 0, 0), None, 2)
    assert stored_rows(tmp_path, spec, arrival).times.tolist() == [0, 0]


def test_a_task_with_many_rows_writes_several_segments(tmp_path: Path) -> None:
    spec = a_spec(INT64)
    rows = [[(k, k, n) for k in range(10)] for n in range(6)]
    two_batches = 2 * batch_of(spec, rows[0]).nbytes
    with mock.patch.object(columns, "PIECE_BYTES", two_batches):
        arrivals = ingest_rows(tmp_path, spec, *rows[:5])
    assert [segment_of(arrival).rows for arrival in arrivals] == [20, 20, 10]
    assert len({segment_of(arrival).name for arrival in arrivals}) == 3


def test_a_task_that_runs_again_writes_other_files(tmp_path: Path) -> None:
    spec = a_spec(MONEY_BAND)
    rows = [(Decimal("1.20"), 1, 1)]
    first, second = (ingest_rows(tmp_path, spec, rows)[0] for _ in range(2))
    assert segment_of(first).name != segment_of(second).name
    assert first.runs[0].probe_file != second.runs[0].probe_file
    same = {"name": "", "crc32": 0}
    assert replace(segment_of(first), **same) == replace(segment_of(second), **same)


@pytest.mark.parametrize(("width", "probes"), [(2, 3), (0, 1)])
def test_a_band_row_probes_its_cell_and_the_neighbours(
    tmp_path: Path, width: int, probes: int
) -> None:
    band = replace(BANDS[0], width=width)
    spec = a_spec(band)
    rows = [(10, 1, 0), (11, 2, 1), (-3, 3, 2)]
    (arrival,) = ingest_rows(tmp_path, spec, rows)
    index = read_arrays(Folder(str(tmp_path)), arrival.runs[0].probe_file)
    assert sorted(index["row"].tolist()) == sorted([0, 1, 2] * probes)
    assert index["hash"].tolist() == sorted(index["hash"].tolist())
    kept = stored_rows(tmp_path, spec, arrival)
    pairs = set(zip(index["hash"].tolist(), index["row"].tolist(), strict=True))
    assert len(pairs) == 3 * probes
    assert {(h, row) for row, h in enumerate(kept.hashes.tolist())} <= pairs


def test_heavy_keys_are_told_by_value(tmp_path: Path) -> None:
    spec = a_spec(STRING, INT64)
    rows = [("hot", 1, 0, 0)] * 50 + [("warm", 2, 0, 0)] * 20
    rows += [(f"k{i}", 3, 0, 0) for i in range(30)]
    (arrival,) = ingest_rows(tmp_path, spec, rows)
    assert arrival.heavy_keys == (HeavyKey("hot, 1", 50), HeavyKey("warm, 2", 20))


def test_heavy_cells_are_told_by_a_value_in_them(tmp_path: Path) -> None:
    spec = a_spec(BANDS[0])
    (arrival,) = ingest_rows(tmp_path, spec, [(10, 0, 0)] * 9 + [(-3, 0, 0)])
    assert arrival.heavy_keys == (HeavyKey("near 10", 9),)


def test_times_of_any_zone_are_stored_as_microseconds(tmp_path: Path) -> None:
    spec = a_spec(INT64)
    assert spec.left.schema.field(1).type == TIME
    (arrival,) = ingest_rows(tmp_path, spec, [(1, -5, 0), (1, 10**15, 0)])
    assert (segment_of(arrival).time_min_us, segment_of(arrival).time_max_us) == (-5, 10**15)
