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
from benchmarks.similarity_contestants import STRATEGIES, WINDOW_S, Case, blas, core
from skewless.workloads import Vectors

TOY = replace(BASE, instances=2, rows=60, batches=1)
SIZE = Size(TOY, (0.1,), (5,), (3,), 80, 40, 60, 1, 1)


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    def in_process(function: Callable[[Any], Any], parameters: Any) -> Any:
        return json.loads(json.dumps(function(json.loads(json.dumps(parameters)))))

    measured: dict[str, Any] = similarity.measure_core(SIZE, in_process)
    return measured


def test_strategies_agree_in_every_case(cases: dict[str, Any]) -> None:
    assert list(cases) == [
        "table 2, selectivity 10 %",
        "table 3, 5 instances",
        "3 dimensions, even",
        "3 dimensions, clusters",
        "3 dimensions, drifting clusters",
        "figure 6, even",
        "figure 6, one hot and drifting cluster",
    ]
    for name, case in cases.items():
        assert case["same_pairs"], name
        for figures in case["strategies"].values():
            assert figures.keys() >= set(COLUMNS)
            assert figures["pairs"] > 0, name
            assert len(figures["busiest_over_mean"]) == TOY.windows
            assert min(figures["busiest_over_mean"]) >= 1
            assert 0 < figures["busiest_median_ms"] <= figures["busiest_p99_ms"]


def test_figures_that_are_known_beforehand(cases: dict[str, Any]) -> None:
    for name, case in cases.items():
        by = case["strategies"]
        assert all(figures["duplication"] >= 1 for figures in by.values()), name
        for figures in by.values():
            # Every pair that was found was compared, or decided by the triangle inequality.
            assert figures["comparisons"] + figures["inner"] >= 1 - 1e-3
        if BRUTE not in by:
            assert set(by) == {STILL, MOVED, AUTO}
            assert by[STILL]["moves"] == 0
            continue
        assert by[BRUTE]["duplication"] == 1
        assert by[BRUTE]["worksets"] == 1
        assert by[CLUSTERS]["inner"] == by[BRUTE]["inner"] == 0
        every = 2 * TOY.rows * TOY.rows * TOY.windows / 2  # pairs within a window
        assert by[BRUTE]["comparisons"] * by[BRUTE]["pairs"] == pytest.approx(every, rel=1e-2)
        assert by[MOVED]["comparisons"] < by[BRUTE]["comparisons"]


def test_the_wanted_share_of_pairs_is_found() -> None:
    case = Case(Vectors(), 0.1, instances=2, rows=400, windows=2, batches=2)
    found = core(case, STRATEGIES[AUTO])["pairs"]
    assert found == pytest.approx(0.1 * 400 * 400 * 2, rel=0.1)


def test_streams_lie_in_whole_windows() -> None:
    stretches = list(TOY.stretches())
    assert len(stretches) == TOY.windows * TOY.batches
    for number, tables in enumerate(stretches):
        for table in tables.values():
            windows = {t // (WINDOW_S * 1_000_000) for t in table["at"].cast("int64").to_pylist()}
            assert len(windows) == 1
            first = stretches[0]["left"]["at"].cast("int64")[0].as_py() // (WINDOW_S * 1_000_000)
            assert windows == {first + number // TOY.batches}


def test_threads_of_matrix_products_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with similarity.one_thread_each():
        assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["OPENBLAS_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS" not in os.environ


def test_full_size_has_the_tables_of_the_paper() -> None:
    papers = {named.name: named.paper for named in FULL.cases() if named.paper is not None}
    assert len(papers) == 8
    one = papers["table 2, selectivity 1 %"]
    assert (one.duplication, one.comparisons, one.cluster_duplication, one.cluster_comparisons) == (
        1.94, 1.77, 6.17, 9.70,
    )  # fmt: skip
    assert papers["table 3, 20 instances"].duplication == 2.62
    assert {named.case.data.dimension for named in FULL.cases()} == {2, 8, 64, 384}


@pytest.mark.parametrize("same", [True, False])
def test_it_says_all_it_promises(
    cases: dict[str, Any],
    same: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    name = "figure 6, even"
    measured = cases | {name: cases[name] | {"same_pairs": same}}
    monkeypatch.setattr(similarity, "measure_core", lambda size: measured)
    if same:
        similarity.main(as_json=True, spark=False, plots=tmp_path)
    else:
        with pytest.raises(typer.Exit):
            similarity.main(as_json=True, spark=False)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"benchmark", "machine", "settings", "cases", "on_spark", "targets"}
    assert len(told["targets"]) == 2 * 2 + len(cases)
    assert len(list(tmp_path.iterdir())) == (3 if same else 0)


def test_targets_are_those_of_the_paper() -> None:
    def figures(duplication: float, comparisons: float, last: float) -> dict[str, Any]:
        uneven = [3.0, 3.0, 3.0, last]
        return {"duplication": duplication, "comparisons": comparisons, "busiest_over_mean": uneven}

    by = {MOVED: figures(1.95, 1.77, 2.0), AUTO: figures(9, 9, 1.15)}
    paper = vars(similarity.BY_SELECTIVITY[0.01])
    judged = similarity.judged({"x": {"strategies": by, "paper": paper}})
    assert {target["figure"]: target["met"] for target in judged} == {
        "x, S3J: duplication": False,
        "x, S3J: comparisons": True,
        "x, auto: busiest/mean after three windows": True,
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
    for word in (*STRATEGIES, "paper: S3J", "figure 6, even", "on Spark", "1.00×"):
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
