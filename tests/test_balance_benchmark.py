"""The balance benchmark at toy sizes: that it runs and says all it promises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from benchmarks import balance

RUN = {
    "strategy", "zipf", "instances", "busiest_over_mean", "worst", "migrated_share",
    "extra_probes_per_row", "decisions", "refused", "isolated_keys", "units",
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(json.dumps(balance.measure(balance.QUICK)))
    return measured


def test_it_says_all_it_promises(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(balance, "measure", lambda size: report)
    balance.main(quick=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["benchmark"] == "balance"
    assert set(told) == {
        "benchmark", "machine", "papers", "thresholds", "evenness", "one_sided", "uniform",
        "targets",
    }  # fmt: skip
    assert all(set(run) == RUN for run in told["evenness"])
    assert {run["strategy"] for run in told["evenness"]} == {"Auto", "Hash", "FastJoin", "LSStream"}
    assert {"ratios", "runs", "notes"} == set(told["papers"])
    assert len(told["targets"]) == 2


def test_it_can_be_shown(report: dict[str, Any]) -> None:
    out = Console(width=140)
    with out.capture() as captured:
        balance.show(out, report)
    shown = captured.get()
    for word in ("FastJoin over BiStream", "theta", "reshuffled", "uniform", balance.WORST):
        assert word in shown


def test_balancing_beats_hashing_in_every_paper_figure(report: dict[str, Any]) -> None:
    by_name = {row["figure"]: row for row in report["papers"]["ratios"]}
    assert by_name["FastJoin over BiStream, 48 instances: throughput"]["ours"] > 0
    assert by_name["LS-Stream over BiStream, zipf 1.0 on both sides: throughput"]["ours"] > 0


def test_auto_meets_its_targets(report: dict[str, Any]) -> None:
    assert [target["met"] for target in report["targets"]] == [True, True], report["targets"]
