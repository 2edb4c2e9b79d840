"""The similarity benchmark at toy sizes: that it runs, agrees and says all it promises."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from benchmarks import similarity
from benchmarks.similarity import (
    AUTO,
    BASE,
    BLAS,
    BRUTE,
    CLUSTERS,
    COLUMNS,
    FULL,
    MOVED,
    SPARK,
    STILL,
    Size,
)
from benchmarks.similarity_contestants import blas
from benchmarks.similarity_core import STRATEGIES, WINDOW_S, Case, core
from skewless.workloads import Vectors

TOY = replace(BASE, instances=2, rows=120, batches=1)
SIZE = Size(TOY, (0.1,), (3,), 100, 80, 40, 60, 1, 1, 1)


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    def in_process(function: Callable[[Any], Any], parameters: Any) -> Any:
        return json.loads(json.dumps(function(json.loads(json.dumps(parameters)))))

    measured: dict[str, Any] = similarity.measure_core(SIZE, in_process)
    return measured


def test_strategies_agree_in_every_case(cases: dict[str, Any]) -> None:
    assert list(cases) == [
        "2 dimensions, even, selectivity 10 %",
        "3 dimensions, even",
        "3 dimensions, clusters",
        "3 dimensions, drifting clusters",
        "hamming",
        "jaccard",
        "haversine",
        "batches of a second",
        "many rows, 2 dimensions, even",
        "many rows, 8 dimensions, even",
        "many rows, 8 dimensions, clusters",
        "many rows, 64 dimensions, clusters",
        "one hot and drifting cluster",
    ]
    for name, case in cases.items():
        assert case["same_pairs"], name
        for figures in case["strategies"].values():
            assert figures.keys() >= set(COLUMNS)
            assert figures["pairs"] > 0, name
            assert min(figures["busiest_over_mean"]) >= 1
            assert figures["busiest_p99_ms"] > 0


def test_figures_that_are_known_beforehand(cases: dict[str, Any]) -> None:
    for name, case in cases.items():
        by = case["strategies"]
        assert by[AUTO]["stored"] == 1, name
        for figures in by.values():
            # Every pair that was found was compared, or decided by the triangle inequality.
            assert figures["compared"] + figures["inner"] >= 1 - 1e-3, name
        if BRUTE not in by:
            assert set(by) == {STILL, MOVED, AUTO}
            assert by[STILL]["moves"] == 0
            continue
        assert by[BRUTE]["stored"] == by[BRUTE]["looks"] == 1
        assert by[BRUTE]["inner"] == by[BRUTE]["centers"] == 0
        if CLUSTERS in by:
            assert by[CLUSTERS]["inner"] == 0 < by[CLUSTERS]["centers"]
            assert by[MOVED]["stored"] >= 1
    brute = cases["3 dimensions, even"]["strategies"][BRUTE]
    every = TOY.rows * TOY.rows * TOY.windows  # pairs within a window
    assert brute["compared"] * brute["pairs"] == pytest.approx(every, rel=1e-2)


def test_the_wanted_share_of_pairs_is_found() -> None:
    case = Case(Vectors(), 0.1, instances=2, rows=400, windows=2, batches=2)
    found = core(case, STRATEGIES[AUTO])["pairs"]
    assert found == pytest.approx(0.1 * 400 * 400 * 2, rel=0.1)


def test_streams_lie_in_whole_windows() -> None:
    stretches = list(TOY.stretches())
    assert len(stretches) == TOY.windows * TOY.batches
    for number, tables in enumerate(stretches):
        for table in tables:
            windows = {t // (WINDOW_S * 1_000_000) for t in table["at"].cast("int64").to_pylist()}
            assert len(windows) == 1
            first = stretches[0][0]["at"].cast("int64")[0].as_py() // (WINDOW_S * 1_000_000)
            assert windows == {first + number // TOY.batches}


def test_threads_of_matrix_products_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with similarity.one_thread_each():
        assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("metric", ["hamming", "jaccard", "haversine"])
def test_other_metrics_find_about_the_wanted_share(metric: str) -> None:
    data = Vectors(2 if metric == "haversine" else 8, clusters=0 if metric == "haversine" else 4)
    case = Case(data, 0.1, instances=2, rows=200, windows=1, batches=1, metric=metric)
    found = core(case, STRATEGIES[BRUTE])["pairs"] / 200**2
    assert 0.05 <= found <= 0.4, "distances of few values come in steps"


def test_full_size_has_all_dimensions() -> None:
    assert {named.case.data.dimension for named in FULL.cases()} == {2, 8, 64, 384}


@pytest.mark.parametrize("same", [True, False])
def test_it_says_all_it_promises(
    cases: dict[str, Any],
    same: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    name = "3 dimensions, even"
    measured = cases | {name: cases[name] | {"same_pairs": same}}
    monkeypatch.setattr(similarity, "measure_core", lambda size: measured)
    if same:
        similarity.main(as_json=True, spark=False, plots=tmp_path)
    else:
        with pytest.raises(typer.Exit):
            similarity.main(as_json=True, spark=False)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"benchmark", "machine", "settings", "cases", "on_spark", "targets"}
    few = sum(name.startswith(("many rows", "batches")) for name in cases)  # windows
    assert len(told["targets"]) == 2 * len(cases) - few - 1
    assert len(list(tmp_path.iterdir())) == (2 if same else 0)


def test_auto_is_judged_beside_brute_force() -> None:
    def figures(rows_per_s: int, last: float) -> dict[str, Any]:
        return {"rows_per_s": rows_per_s, "busiest_over_mean": [3.0, 3.0, 3.0, last]}

    cases = {
        "slow": {"strategies": {AUTO: figures(89, 1.15), BRUTE: figures(100, 9)}},
        "uneven": {"strategies": {AUTO: figures(90, 1.16), BRUTE: figures(100, 9)}},
    }
    assert {target["figure"]: target["met"] for target in similarity.judged(cases)} == {
        "slow, auto: rows/s over BruteForce's": False,
        "slow, auto: busiest/mean after three windows": True,
        "uneven, auto: rows/s over BruteForce's": True,
        "uneven, auto: busiest/mean after three windows": False,
    }


def test_it_can_be_shown(cases: dict[str, Any]) -> None:
    contestant = {"rows_per_s": 1000, "window_s": 0.5, "pairs": 5}
    contestant |= {"memory": {"anonymous_peak_bytes": 3_000_000}}
    run = {
        "contestants": {SPARK: contestant, similarity.SKEWLESS: contestant},
        "skewless_over": {SPARK: 1.0},
        "same_pairs": True,
    }
    report = {"cases": cases, "on_spark": {"few": run}, "targets": similarity.judged(cases)}
    out = Console(width=200)
    with out.capture() as captured:
        similarity.show(out, report)
    shown = captured.get()
    for word in (*STRATEGIES, "one hot and drifting cluster", "on Spark", "1.00×"):
        assert word in shown


def test_the_product_of_matrices_finds_what_the_core_finds(tmp_path: Path) -> None:
    vectors = Vectors(dimension=8, clusters=4)
    folder = similarity.vector_files(tmp_path, vectors, 50, 2)
    assert similarity.vector_files(tmp_path, vectors, 50, 2) == folder  # made once
    case = Case(vectors, 0.05, instances=2, rows=50, windows=2, batches=1)
    parameters = {"folder": str(folder), "threshold": case.threshold, "rows_per_batch": 100}
    found = sum(blas(parameters | {"warmup": window})["pairs"] for window in (0, 1))
    assert found == core(case, STRATEGIES[MOVED])["pairs"] > 0


@pytest.mark.slow
@pytest.mark.spark
def test_spark_finds_the_same(tmp_path: Path) -> None:
    runs = similarity.measure_spark(SIZE, tmp_path, instances=2)
    assert all(run["same_pairs"] for run in runs.values())
    assert [set(run["skewless_over"]) for run in runs.values()] == [{SPARK, BLAS}, {BLAS}]
