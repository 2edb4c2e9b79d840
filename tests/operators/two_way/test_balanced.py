"""A balanced join from beginning to end, without Spark: it acts, remembers, and changes nothing but
where the work is done."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays import keys
from skewless.arrays.types import KeyColumn, SideSpec
from skewless.engine.report import BatchReport
from skewless.errors import ArgumentError
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.placement.balancing import Auto, Balancing, FastJoin, LSStream
from skewless.placement.places import Placement
from skewless.state.commits import CommitLog
from tests.chaos import Chaos
from tests.driver import Batch, Driver, Setup
from tests.strategies import EAGER, Case, cases, examples

STRATEGIES: list[Balancing] = [
    Auto(tolerance=0.05, floor_ms=0, noise=0, **EAGER),
    FastJoin(theta=1.2, load_min=0, **EAGER),
    FastJoin(theta=1.2, load_min=0, selector="annealing", rounds=1, **EAGER),
    LSStream(alpha=0.1, **EAGER),
    FastJoin(theta=1.2, load_min=0, paper=True, keys_watched="all"),
    FastJoin(theta="auto", load_min=0, paper=True, keys_watched="all"),
    LSStream(alpha=0.1, paper=True),
    LSStream(alpha="auto", paper=True),
    Chaos(seed=1),
]


def spec_of(key_columns: int = 1) -> JoinSpec:
    names = [f"k{i}" for i in range(key_columns)]
    schema = pa.schema([*((n, pa.int64()) for n in names), ("at", pa.timestamp("us", "UTC"))])
    side = SideSpec(
        schema, tuple(KeyColumn(i, pa.int64()) for i in range(key_columns)), (), key_columns, 0
    )
    output = (OutputColumn("left", 0, "k"), OutputColumn("right", key_columns, "seen"))
    return JoinSpec(side, side, -1_000_000, 1_000_000, output)


def batch_of(number: int, draw: Callable[[np.random.Generator, int], Any], rows: int) -> Batch:
    rng = np.random.default_rng((number, 3))
    sides = []
    for _ in range(2):
        drawn = draw(rng, rows)
        columns = drawn if isinstance(drawn, tuple) else (drawn,)
        at = np.sort(rng.integers(0, 1_000_000, rows)) + number * 1_000_000
        arrays = [*(pa.array(c, pa.int64()) for c in columns),
                  pa.array(at).cast(pa.timestamp("us", "UTC"))]  # fmt: skip
        names = [*(f"k{i}" for i in range(len(columns))), "at"]
        sides.append(([pa.RecordBatch.from_arrays(arrays, names)],))
    return Batch(*sides)


def zipf(hot: int) -> Callable[[np.random.Generator, int], Any]:
    """Half of the rows have one key."""
    return lambda rng, rows: np.where(rng.random(rows) < 0.5, hot, rng.integers(0, 2_000, rows))


def run(driver: Driver, first: int, last: int, draw: Any, rows: int = 400) -> list[BatchReport]:
    reports = []
    for number in range(first, last):
        report = driver.run(number, batch_of(number, draw, rows)).report
        assert report is not None
        reports.append(report)
    return reports


def work_over_mean(report: BatchReport) -> float:
    """Evenness by what was counted, which no clock disturbs."""
    work = np.array([load.rows + load.pairs for load in report.instances])
    return float(work.max() / work.mean())


@pytest.mark.quick(1)
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
@pytest.mark.parametrize("key_columns", [1, 2])
def test_results_do_not_depend_on_the_strategy(strategy: Balancing, key_columns: int) -> None:
    def draw(rng: np.random.Generator, rows: int) -> tuple[Any, ...]:
        hot = zipf(int(rng.integers(3)))(rng, rows)
        return (hot,) if key_columns == 1 else (hot, rng.integers(0, 3, rows))

    seen, changed = [], 0
    for setup in (Setup(instances=1, slots=16), Setup(strategy, 4, 16)):
        with tempfile.TemporaryDirectory() as root:
            driver = Driver(root, spec_of(key_columns), setup)
            outcomes = [driver.run(n, batch_of(n, draw, 400)) for n in range(8)]
            seen.append([outcome.rows for outcome in outcomes])
            changed = sum(d.accepted for o in outcomes if o.report for d in o.report.decisions)
    assert seen[0] == seen[1]
    assert changed > 0


def check_drifting_skew(case: Case, strategy: Balancing, instances: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        driver = Driver(root, case.spec, Setup(strategy, instances, 8))
        outcomes = driver.run_all(case.batches)
    expected: Counter[Any] = sum((answer.rows for answer in case.answers()), Counter())
    assert sum((outcome.rows for outcome in outcomes), Counter()) == expected


DRIFTING = (cases(batches_min=4), st.sampled_from(STRATEGIES), st.integers(2, 5))


@examples(25)
@given(*DRIFTING)
def test_random_streams_under_every_strategy(
    case: Case, strategy: Balancing, instances: int
) -> None:
    check_drifting_skew(case, strategy, instances)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(4000)
@given(*DRIFTING)
def test_random_streams_under_every_strategy_at_length(
    case: Case, strategy: Balancing, instances: int
) -> None:
    check_drifting_skew(case, strategy, instances)


def test_auto_evens_out_a_hot_key_and_lets_go_of_it(tmp_path: Path) -> None:
    strategy = Auto(floor_ms=0, noise=0)
    driver = Driver(tmp_path, spec_of(), Setup(strategy, 4, 64))
    uneven = run(driver, 0, 2, zipf(7))
    assert all(work_over_mean(report) > 2 for report in uneven)
    even = run(driver, 2, 8, zipf(7))
    assert np.median([work_over_mean(report) for report in even]) < 1.25
    split = [d for r in uneven + even for d in r.decisions if d.kind == "split" and d.accepted]
    assert split[0].subject == "key 7"
    assert "% of the work, an even share is 25.0%" in split[0].reason
    assert "key 7 carries" in even[-1].verdict
    assert "split" in even[-1].verdict
    run(driver, 8, 14, lambda rng, rows: rng.integers(0, 2_000, rows))
    assert driver.coordinator.placing.placement is not None
    assert (
        driver.coordinator.placing.placement.isolated_key(keys.hash_of_value(7, spec_of().left))
        is None
    )


def test_uniform_data_is_left_alone(tmp_path: Path) -> None:
    driver = Driver(tmp_path, spec_of(), Setup(Auto(floor_ms=0), 4, 64))
    reports = run(driver, 0, 8, lambda rng, rows: rng.integers(0, 100_000, rows), rows=20_000)
    assert [d for report in reports for d in report.decisions] == []


def test_a_composite_key_with_one_skewed_column_is_left_alone(tmp_path: Path) -> None:
    """No key is hot, however hot a column is."""

    def draw(rng: np.random.Generator, rows: int) -> tuple[Any, Any]:
        return np.zeros(rows), rng.integers(0, 50_000, rows)

    driver = Driver(tmp_path, spec_of(2), Setup(Auto(floor_ms=0), 4, 64))
    reports = run(driver, 0, 6, draw, rows=20_000)
    assert [d for report in reports for d in report.decisions] == []
    assert sum(load.rows for load in reports[-1].instances) == 40_000  # nobody probed twice


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    setup = Setup(Auto(floor_ms=0, noise=0), 4, 64)
    driver = Driver(tmp_path, spec_of(), setup)
    run(driver, 0, 4, zipf(7))
    placement = driver.coordinator.placing.placement
    assert placement is not None
    assert placement != Placement.spread(64, 4)
    driver.reopen()
    assert driver.coordinator.placing.placement == placement
    last = CommitLog(driver.query.folder).latest()
    assert last is not None
    assert Placement.from_json(last.operators["join"].facts["placement"]) == placement
    assert work_over_mean(run(driver, 4, 5, zipf(7))[0]) < 1.5


def test_other_sizes_start_anew(tmp_path: Path) -> None:
    driver = Driver(tmp_path, spec_of(), Setup(Auto(floor_ms=0, noise=0), 4, 64))
    run(driver, 0, 4, zipf(7))
    driver.reopen(Setup(Auto(), 3, 64))
    assert driver.coordinator.placing.placement == Placement.spread(64, 3)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path, spec_of(), Setup(Auto(floor_ms=0, noise=0, dry_run=True), 4, 64))
    reports = run(driver, 0, 4, zipf(7))
    decisions = [d for report in reports for d in report.decisions]
    assert decisions
    assert not any(d.accepted for d in decisions)
    assert all(d.reason.startswith("dry run; ") for d in decisions)
    assert driver.coordinator.placing.placement == Placement.spread(64, 4)


def test_a_pinned_key_is_where_it_was_put(tmp_path: Path) -> None:
    strategy = Auto(floor_ms=0, noise=0, pin={7: 2})
    driver = Driver(tmp_path, spec_of(), Setup(strategy, 4, 64))
    reports = run(driver, 0, 5, zipf(7))
    busiest = [max(r.instances, key=lambda load: load.pairs).instance for r in reports]
    assert busiest == [2] * 5
    assert not any(d.subject == "key 7" for r in reports for d in r.decisions if d.accepted)


LONG = "x" * 20_000


def two_hot(rng: np.random.Generator, rows: int) -> Any:
    return np.where(rng.random(rows) < 0.8, rng.choice([7, 8], rows), rng.integers(0, 1000, rows))


def with_long_keys(batch: Batch) -> Batch:
    """The same rows, whose keys are texts that differ in their last characters alone."""
    texts = pa.array([f"{LONG}{i}" for i in range(1000)])

    def rekeyed(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.set_column(0, "k0", texts.take(rows["k0"]))

    left, right = ([[*map(rekeyed, task)] for task in side] for side in (batch.left, batch.right))
    return Batch(tuple(left), tuple(right))


def test_long_keys_are_placed_as_others_are_and_told_in_short(tmp_path: Path) -> None:
    plain, kind = spec_of(), pa.string()
    schema = pa.schema([("k0", kind), plain.left.schema.field("at")])
    side = SideSpec(schema, (KeyColumn(0, kind),), (), 1, 0)
    spec = JoinSpec(side, side, plain.lower_us, plain.upper_us, plain.output)
    strategy = Auto(tolerance=0.05, floor_ms=0, noise=0, pin={f"{LONG}7": 2}, **EAGER)
    driver = Driver(tmp_path / "long", spec, Setup(strategy, 4, 64))
    short = Driver(tmp_path / "short", plain, Setup(Auto(), 4, 64))
    for number in range(4):
        drawn = batch_of(number, two_hot, 100)
        told = driver.run(number, with_long_keys(drawn)).report
        same = short.run(number, drawn).report
        assert told.matches == same.matches
        found = [sorted(key.share for key in report.heavy_keys) for report in (told, same)]
        assert found[0] == found[1], "none is taken for another"
        driver.reopen()
    pinned = keys.hash_of_value(f"{LONG}7", side)
    assert driver.coordinator.placing.placement.isolated_key(pinned).instances == (2,)
    for place in ("history", "commits"):
        texts = [file.read_text() for file in (tmp_path / "long" / place).iterdir()]
        assert any("xxx" in text for text in texts), place
        assert not any(LONG[:300] in text for text in texts), place


def test_a_pin_beyond_the_instances_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="instances from 0 to 3"):
        Driver(tmp_path, spec_of(), Setup(Auto(pin={7: 4}), 4, 64))


@pytest.mark.parametrize("value", ["x", None, (1, 2), 1.5])
def test_a_pin_must_be_a_key(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        keys.hash_of_value(value, spec_of().left)


def test_moved_rows_are_counted(tmp_path: Path) -> None:
    driver = Driver(tmp_path, spec_of(), Setup(Auto(floor_ms=0, noise=0), 4, 64))
    decisions = [d for r in run(driver, 0, 4, zipf(7)) for d in r.decisions if d.accepted]
    assert sum(d.rows for d in decisions) > 200


def test_a_report_of_figures_survives_json(tmp_path: Path) -> None:
    driver = Driver(tmp_path, spec_of(), Setup(Auto(floor_ms=0, noise=0), 4, 64))
    report = run(driver, 0, 3, zipf(7))[-1]
    again = BatchReport.from_json(report.to_json())
    assert again == report
    assert again.slots is not None
    assert report.slots is not None
    assert np.allclose(again.slots.probing_left, report.slots.probing_left)
    assert again.keys == report.keys
