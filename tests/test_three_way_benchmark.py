"""The three-way benchmark at toy sizes: that it runs, agrees and says all it promises."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from benchmarks import three_way
from benchmarks.three_way import AUTO, CHAIN, COLUMNS, CYCLE, PAIRS, TREE, TRIJOIN, Case, Size
from benchmarks.three_way_contestants import STRATEGIES, core

TOY = Case(CYCLE, window=120, instances=3, batch_rows=60, values=40, eps=1, batches=2, fill=2,
           warmup=2)  # fmt: skip
SIZE = Size((TOY, replace(TOY, shape=CHAIN)), (60,), (), (), (), (300,), 1, 1)


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(json.dumps(three_way.measure_core(SIZE)))
    return measured


def test_strategies_agree_in_every_case(cases: dict[str, Any]) -> None:
    assert list(cases) == [
        f"{shape}, {what}" for shape in (CYCLE, CHAIN) for what in ("base", "window 60")
    ]
    for name, case in cases.items():
        assert case["same_triples"], name
        found = {figures["triples"] for figures in case["strategies"].values()}
        assert found.pop() > 0, name
        assert (PAIRS in case["strategies"]) == name.endswith("base")
        for figures in case["strategies"].values():
            assert figures.keys() >= set(COLUMNS)
            assert figures["last_triple_mean_ms"] > 0
            assert 0 < figures["latency_mean_ms"] <= figures["latency_p99_ms"]


def test_figures_that_are_known_beforehand(cases: dict[str, Any]) -> None:
    for case in cases.values():
        by = case["strategies"]
        assert by[TRIJOIN]["shipped_per_row"] >= case["instances"]
        assert by[TREE]["intermediates"] > 0
        if PAIRS in by:
            assert by[TRIJOIN]["intermediates"] < by[PAIRS]["intermediates"]
            assert by[TRIJOIN]["intermediate_bytes"] < by[PAIRS]["intermediate_bytes"]
            assert by[TRIJOIN]["comparisons_per_row"] < by[PAIRS]["comparisons_per_row"]


def test_cases_vary_one_thing_each() -> None:
    size = replace(SIZE, instances=(4,), batch_rows=(90,), denser=(2,))
    cases = {name: case for name, case in size.cases().items() if case.shape == CYCLE}
    assert cases == {
        "cycle, base": TOY,
        "cycle, window 60": replace(TOY, window=60),
        "cycle, instances 4": replace(TOY, instances=4),
        "cycle, batch rows 90": replace(TOY, batch_rows=90),
        "cycle, 2 times the partners": replace(TOY, values=20),
    }


def test_a_longer_window_finds_more() -> None:
    triples = [
        core(replace(TOY, window=window, values=400), STRATEGIES[AUTO])["triples"]
        for window in (60, 240)
    ]
    assert triples[0] < triples[1]


@pytest.mark.parametrize("same", [True, False])
def test_it_says_all_it_promises(
    cases: dict[str, Any],
    same: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    measured = cases | {f"{CYCLE}, base": cases[f"{CYCLE}, base"] | {"same_triples": same}}
    monkeypatch.setattr(three_way, "measure_core", lambda size: measured)
    if same:
        three_way.main(as_json=True, spark=False, plots=tmp_path)
    else:
        with pytest.raises(typer.Exit):
            three_way.main(as_json=True, spark=False)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {
        "benchmark", "machine", "settings", "cases", "on_spark", "notes", "targets",
    }  # fmt: skip
    assert len(told["targets"]) == 11
    assert len(list(tmp_path.iterdir())) == (6 if same else 0)


def test_targets_are_those_of_the_paper() -> None:
    def figures(latency: float, rows: float, held: int) -> dict[str, float]:
        return {"latency_mean_ms": latency, "rows_per_s": rows, "intermediates": held}

    by = {
        TREE: figures(10, 100, 50),
        PAIRS: figures(9, 100, 100),
        TRIJOIN: figures(3.7, 107, 30),
        AUTO: figures(3.8, 106, 0),
    }
    judged = three_way.judged({"cycle, base": {"shape": CYCLE, "strategies": by}}, [])
    met = {target["figure"]: target["met"] for target in judged}
    assert met == {
        "cycle, base, TriJoin over Tree: latency": True,
        "cycle, base, TriJoin over Tree: rows/s": True,
        "cycle, base, auto over Tree: latency": False,
        "cycle, base, auto over Tree: rows/s": False,
        "cycle, base, packs over pairs: intermediates": False,
        "auto over the better of Tree and TriJoin: latency, worst case": True,
    }
    runs = [{"rows_per_batch": 100, "over_spark": {AUTO: ratio}} for ratio in (9.9, 10.0)]
    spark = three_way.judged({"x": {"shape": CYCLE, "strategies": by}}, runs)
    assert [target["met"] for target in spark[-2:]] == [False, True]


def test_it_can_be_shown(cases: dict[str, Any]) -> None:
    contestant = {"rows_per_s": 1000, "median_ms": 20.0, "result_rows": 5}
    contestant |= {"memory": {"anonymous_peak_bytes": 3_000_000}}
    on_spark = {
        "contestants": {"spark": contestant, AUTO: contestant},
        "rows_per_batch": 900, "instances": 4, "over_spark": {AUTO: 1.0}, "same_result_rows": True,
    }  # fmt: skip
    report = {
        "cases": cases,
        "on_spark": [on_spark],
        "notes": three_way.notes(cases),
        "targets": three_way.judged(cases, [on_spark]),
    }
    out = Console(width=200)
    with out.capture() as captured:
        three_way.show(out, report)
    shown = captured.get()
    for word in (*STRATEGIES, "cycle, base", "on Spark", "not met", "by the paper's model"):
        assert word in shown


@pytest.mark.slow
@pytest.mark.spark
def test_spark_and_all_strategies_find_the_same(tmp_path: Path) -> None:
    run = three_way.measure_spark(SIZE, 300, tmp_path, instances=2)
    assert run["same_result_rows"] is True
    assert run["contestants"]["spark"]["result_rows"] > 0
    assert set(run["over_spark"]) == {TREE, TRIJOIN, AUTO}
