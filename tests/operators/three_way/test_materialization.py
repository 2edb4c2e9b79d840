"""Pairs are materialized where that pays, dropped where it does not, and say why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from skewless.operators.three_way.materialization import PATIENCE
from skewless.operators.three_way.spec import ThreeSpec
from skewless.operators.three_way.strategies import AutoThree, TriJoin
from tests.operators.three_way.driver import Batch, Outcome, Setup, ThreeDriver
from tests.operators.three_way.oracle import Pair, Question
from tests.operators.three_way.strategies import spec_of

BATCHES = 11
ROWS = {"r": 30, "s": 400}


def chain() -> ThreeSpec:
    """r and s rarely fit, t fits many rows of s."""
    pairs = (
        Pair(0, 1, ((2, 2),), (), (-1_500, 1_500)),
        Pair(1, 2, ((3, 2),), (), (-1_500, 1_500)),
    )
    question = Question(pairs, 0, (0, 0, 0))
    return spec_of(question, [["whole"], ["whole", "whole"], ["whole"]])


def batch_of(spec: ThreeSpec, number: int, few: int, many: int, t_rows: int = 200) -> Batch:
    rng = np.random.default_rng(number)
    keys = {"r": [many], "s": [many, few], "t": [few]}
    tasks = []
    for x, name in enumerate("rst"):
        rows = t_rows if name == "t" else ROWS[name]
        at = np.sort(rng.integers(0, 1000, rows)) + 1000 * number
        columns = [pa.array(at).cast(pa.timestamp("us", "UTC")), pa.array(np.arange(rows))]
        columns += [pa.array(rng.integers(0, k, rows)) for k in keys[name]]
        schema = spec.streams[x].schema
        tasks.append([[pa.RecordBatch.from_arrays(columns, schema=schema)]])
    return tasks


def run(
    root: Path, spec: ThreeSpec, setup: Setup, few: int, many: int, batches: int = BATCHES
) -> list[Outcome]:
    driver = ThreeDriver(root, spec, setup)
    return [driver.run(n, batch_of(spec, n, few, many)) for n in range(batches)]


def test_selective_pairs_are_kept_and_save_candidates(tmp_path: Path) -> None:
    spec = chain()
    outcomes = run(tmp_path / "auto", spec, Setup(AutoThree(), 3), few=4, many=4_000)
    decisions = [d for o in outcomes for d in o.report.decisions]
    kept = [d for d in decisions if d.kind == "keep pairs"]
    assert [d.subject for d in kept] == ["pairs of s and r"]
    assert "candidates" in kept[0].reason and "packs" in kept[0].reason
    number = next(n for n, o in enumerate(outcomes) if kept[0] in o.report.decisions)
    assert number >= PATIENCE - 1
    before, after = outcomes[number].report, outcomes[number + 1].report
    assert before.intermediates == 0 < after.intermediates
    met = [sum(load.pairs for load in report.instances) for report in (before, after)]
    assert met[1] < met[0] / 2
    paper = run(tmp_path / "trijoin", spec, Setup(TriJoin(), 3), few=4, many=4_000)
    assert [o.rows for o in outcomes] == [o.rows for o in paper]
    assert sum(o.rows.total() for o in outcomes) > 0


def test_pairs_that_all_fit_are_not_kept(tmp_path: Path) -> None:
    outcomes = run(tmp_path, chain(), Setup(AutoThree(), 2), few=200, many=20, batches=9)
    assert all(o.report.intermediates == 0 for o in outcomes)
    assert not [d for o in outcomes for d in o.report.decisions if d.kind == "keep pairs"]


def test_pairs_are_dropped_when_they_become_many(tmp_path: Path) -> None:
    spec = chain()
    driver = ThreeDriver(tmp_path, spec, Setup(AutoThree(), 2))
    for n in range(11):
        driver.run(n, batch_of(spec, n, few=4, many=4_000))
    assert driver.state.facts == {"materialized": "s-r"}
    reports = [driver.run(n, batch_of(spec, n, 4, 30, t_rows=4)).report for n in range(11, 22)]
    dropped = [d for r in reports for d in r.decisions if d.kind == "drop pairs"]
    assert [d.reason for d in dropped] == ["no pairs pay any more"]
    assert reports[-1].intermediates == 0


@pytest.mark.parametrize("instances", [1, 4])
def test_what_is_kept_survives_a_restart(tmp_path: Path, instances: int) -> None:
    spec = chain()
    driver = ThreeDriver(tmp_path, spec, Setup(AutoThree(), 2))
    for n in range(11):
        driver.run(n, batch_of(spec, n, few=4, many=4_000))
    driver.reopen(Setup(AutoThree(), instances))
    assert driver.run(11, batch_of(spec, 11, few=4, many=4_000)).report.intermediates > 0
