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
from benchmarks.three_way import AUTO, CHAIN, COLUMNS, CYCLE, PAIRS, TREE, TRIJOIN, Size
from benchmarks.three_way_core import STRATEGIES, Case, measure
from skewless.workloads import SixFields

TOY = Case(CYCLE, SixFields(40), window=120, instances=4, batch_rows=60, batches=2, fill=2,
           warmup=2)  # fmt: skip
SIZE = Size((TOY, replace(TOY, shape=CHAIN)), (2,), (300,), 1, 1)


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(json.dumps(three_way.measure_core(SIZE)))
    return measured


def test_strategies_agree_in_every_case(cases: dict[str, Any]) -> None:
    assert list(cases) == [
        f"{shape}, {what}" for shape in (CYCLE, CHAIN) for what in ("base", "2 times the partners")
    ]
    for name, case in cases.items():
        assert case["same_triples"], name
        assert list(case["strategies"]) == list(STRATEGIES)
        found = {figures["triples"] for figures in case["strategies"].values()}
        assert found.pop() > 0, name
        for figures in case["strategies"].values():
            assert figures.keys() >= set(COLUMNS)
            assert 0 < figures["latency_ms"] <= figures["latency_p99_ms"] <= figures["done_ms"] * 3


def test_figures_that_are_known_beforehand(cases: dict[str, Any]) -> None:
    for case in cases.values():
        by = case["strategies"]
        if case["shape"] == CYCLE:  # of four instances, r's group has two, the others one each
            assert by[TRIJOIN]["sent_per_row"] == pytest.approx((2 + 3 + 3) / 3, abs=0.01)
        assert by[TREE]["intermediates"] > 0
        assert by[TRIJOIN]["intermediates"] < by[PAIRS]["intermediates"]
        assert by[TRIJOIN]["intermediate_bytes"] < by[PAIRS]["intermediate_bytes"]
        assert by[TRIJOIN]["comparisons_per_row"] < by[PAIRS]["comparisons_per_row"]


def test_denser_data_have_more_triples(cases: dict[str, Any]) -> None:
    for shape in (CYCLE, CHAIN):
        few, many = (case for case in cases.values() if case["shape"] == shape)
        assert few["strategies"][AUTO]["triples"] < many["strategies"][AUTO]["triples"]


def test_a_longer_window_finds_more() -> None:
    triples = [
        measure(replace(TOY, window=window, data=SixFields(400)), STRATEGIES[AUTO]).triples
        for window in (60, 240)
    ]
    assert triples[0] < triples[1]


@pytest.mark.parametrize("same", [True, False])
def test_it_says_all_it_promises(
    cases: dict[str, Any],
    same: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = cases | {f"{CYCLE}, base": cases[f"{CYCLE}, base"] | {"same_triples": same}}
    monkeypatch.setattr(three_way, "measure_core", lambda size: measured)
    if same:
        three_way.main(as_json=True, spark=False)
    else:
        with pytest.raises(typer.Exit):
            three_way.main(as_json=True, spark=False)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"benchmark", "machine", "settings", "cases", "on_spark", "targets"}
    assert len(told["targets"]) == 1


@pytest.mark.parametrize(("auto", "met"), [(3.7, True), (3.9, False)])
def test_auto_is_to_be_no_slower_than_the_better_one(auto: float, met: bool) -> None:
    by = {name: {"latency_ms": ms} for name, ms in ((TREE, 10), (TRIJOIN, 3.7), (AUTO, auto))}
    runs = [{"rows_per_batch": 100, "over_spark": {AUTO: ratio}} for ratio in (9.9, 10.0)]
    judged = three_way.judged({"x": {"strategies": by}}, runs)
    assert [target["met"] for target in judged] == [met, False, True]


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
        "targets": three_way.judged(cases, [on_spark]),
    }
    out = Console(width=200)
    with out.capture() as captured:
        three_way.show(out, report)
    shown = captured.get()
    for word in (*STRATEGIES, "cycle, base", "on Spark", "not met"):
        assert word in shown


@pytest.mark.slow
@pytest.mark.spark
def test_spark_and_all_strategies_find_the_same(tmp_path: Path) -> None:
    run = three_way.measure_spark(SIZE, 300, tmp_path, instances=2)
    assert run["same_result_rows"] is True
    assert run["contestants"]["spark"]["result_rows"] > 0
    assert set(run["over_spark"]) == {TREE, TRIJOIN, AUTO}
