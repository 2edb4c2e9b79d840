"""The benchmark of `auto` beside BruteForce, at toy sizes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any
from unittest import mock

import pytest

from benchmarks import similarity_choice
from benchmarks.similarity_choice import BASE, Times, cases, in_turn, measure, named, spent_s
from skewless.operators.similarity.strategies import AutoSimilarity, BruteForce

TOY = Times(2, 10, 60).of(replace(BASE, selectivity=0.1), 80, tasks=3)


def test_a_case_says_how_many_rows_a_batch_has_and_when_they_meet() -> None:
    assert (TOY.rows, TOY.batches) == (160, 2)
    assert [table.num_rows for table in next(TOY.stretches())] == [80, 80]
    spec = TOY.spec()
    assert (spec.lower_us, spec.upper_us, spec.window_us) == (-10_000_000, 10_000_000, None)
    assert spec.left.late_us == 60_000_000
    window = Times(2).of(TOY, 80).spec()
    assert window.window_us == window.upper_us == 60_000_000 and not window.left.late_us
    told = "euclidean, 2 dimensions, even, 10 %, within 10 s, late 60 s, 2 × 80 rows in 3 tasks"
    assert named(TOY) == told


def test_all_metrics_and_dimensions_have_cases_that_differ() -> None:
    every = [named(case) for case in cases()]
    assert len(every) == len(set(every))
    for told in ("angular", "manhattan", "hamming", "jaccard", "haversine", "2 dim", "384 dim"):
        assert any(told in name for name in every)


def test_it_tells_whether_there_were_worksets() -> None:
    with mock.patch.object(AutoSimilarity, "_pays", lambda *given: True):
        spent, with_sets = spent_s(TOY, [AutoSimilarity(), BruteForce()])
    assert spent.shape == (2, 2) and (spent > 0).all() and with_sets > 0
    assert spent_s(TOY, [BruteForce()])[1] == 0


def test_what_looks_slow_is_measured_again_and_the_most_is_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = []

    def once(case: Any, count: int) -> Any:
        rounds.append(count)
        ratio = 1.05 if count > 1 else 1.2
        return {"ratio": ratio, "first": 1.0, "brute_force_ms": 1.0, "batches": 2,
                "with_worksets": 0}  # fmt: skip

    monkeypatch.setattr(similarity_choice, "measure", once)
    found = in_turn({"cases": [asdict(TOY)], "rounds": 1})["cases"]
    assert rounds == [1, similarity_choice.AGAIN] and found[0]["case"] == named(TOY)
    monkeypatch.setattr(similarity_choice, "measured", lambda chosen, rounds: found)
    similarity_choice.main(quick=True, as_json=True, rounds=1)
    told = json.loads(capsys.readouterr().out)
    assert told["cases"] == found and [t["met"] for t in told["targets"]] == [True]
    similarity_choice.main(quick=True, as_json=False, rounds=1)
    assert named(TOY)[:30] in capsys.readouterr().out


def test_figures_of_a_case_are_of_all_its_batches() -> None:
    figures = measure(TOY, 1)
    assert figures["batches"] == 2 and figures["with_worksets"] == 0
    assert figures["ratio"] > 0 < figures["first"]
