"""An asof join under skew: the left rows of a hot key are dealt to several instances, whatever the
key has on the right, and state stays within the tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.arrays.types import KeyColumn, SideSpec
from skewless.engine.report import BatchReport
from skewless.operators.asof.spec import AsofSpec, Direction
from skewless.operators.join_type import JOIN_TYPES
from skewless.operators.pair import OutputColumn
from skewless.placement.balancing import Auto
from skewless.placement.routing import Hash
from tests.driver import Batch, Setup
from tests.operators.asof.test_properties import AsofDriver
from tests.strategies import EAGER

SECOND_US = 1_000_000
ROWS = 2_000


def spec_of(direction: Direction, tolerance_us: int = SECOND_US // 10) -> AsofSpec:
    schema = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    side = SideSpec(schema, (KeyColumn(0, pa.int64()),), (), 1, 0)
    output = (OutputColumn("left", 0, "k"), OutputColumn("right", 1, "seen"))
    return AsofSpec.of(side, side, direction, tolerance_us, output, how=JOIN_TYPES["left"])


def batch_of(number: int, rows: int = ROWS) -> Batch:
    """A second in which half of all rows have one key."""
    rng = np.random.default_rng(number)
    sides: list[Any] = []
    for _ in range(2):
        keys = np.where(rng.random(rows) < 0.5, 7, rng.integers(0, 500, rows))
        at = np.sort(rng.integers(0, SECOND_US, rows)) + number * SECOND_US
        arrays = [pa.array(keys), pa.array(at).cast(pa.timestamp("us", "UTC"))]
        sides.append(([pa.RecordBatch.from_arrays(arrays, ["k", "at"])],))
    return Batch(*sides)


def over_mean(report: BatchReport) -> float:
    """Evenness by what was counted, which no clock disturbs."""
    work = np.array([load.rows for load in report.instances])
    return float(work.max() / work.mean())


def test_a_hot_key_is_shared(tmp_path: Path) -> None:
    found, evenness = [], []
    for setup in (Setup(Hash(), 1, 64), Setup(Auto(floor_ms=0, noise=0, **EAGER), 4, 64)):
        driver = AsofDriver(tmp_path / str(setup.instances), spec_of("nearest"), setup)
        outcomes = driver.run_all([batch_of(number) for number in range(6)])
        found.append([outcome.rows for outcome in outcomes])
        evenness = [over_mean(outcome.report) for outcome in outcomes if outcome.report]
    assert found[0] == found[1]
    assert evenness[0] > 2
    assert min(evenness[1:]) < 1.2


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_state_stays_within_the_tolerance(tmp_path: Path, direction: Direction) -> None:
    driver = AsofDriver(tmp_path, spec_of(direction))
    driver.run_all([batch_of(number, 200) for number in range(20)])
    assert sum(segment.rows for segment in driver.state.segments) < 6 * 200


def test_many_rows_of_one_time_are_put_in_order_once(tmp_path: Path) -> None:
    """Else every left row would look at all of them: 400 million."""
    driver, count = AsofDriver(tmp_path, spec_of("backward")), 20_000
    time = pa.array(np.full(count, SECOND_US)).cast(pa.timestamp("us", "UTC"))
    keys = pa.array(np.full(count, 7))
    rows = pa.RecordBatch.from_arrays([keys, time], ["k", "at"])
    outcome = driver.run(0, Batch(([rows],), ([rows],)))
    assert outcome.rows.total() == 0
    later = rows.set_column(1, "at", pa.array(np.full(count, 2 * SECOND_US)).cast(time.type))
    outcome = driver.run(1, Batch(([later],), ([later],)))
    assert outcome.rows.total() == count
