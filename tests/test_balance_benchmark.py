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
        "benchmark", "machine", "evenness", "one_sided", "uniform", "targets",
    }  # fmt: skip
    assert all(set(run) == RUN for run in told["evenness"])
    assert {run["strategy"] for run in told["evenness"]} == {"Auto", "Hash", "FastJoin", "LSStream"}
    assert len(told["targets"]) == 2


def test_it_can_be_shown(report: dict[str, Any]) -> None:
    out = Console(width=140)
    with out.capture() as captured:
        balance.show(out, report)
    shown = captured.get()
    for word in ("FastJoin", "LSStream", "reshuffled", "uniform", balance.WORST):
        assert word in shown


def test_moving_keys_or_slots_beats_hashing_and_dividing_keys_beats_both(
    report: dict[str, Any],
) -> None:
    """With a key that has a tenth of all rows, at 16 instances."""
    runs = [run for run in report["evenness"] if run["instances"] == 16]
    for zipf in (0.4, 1.2):
        hot = {
            run["strategy"]: run["busiest_over_mean"]["hot key"]
            for run in runs
            if run["zipf"] == zipf
        }
        assert hot["Auto"] < min(hot["FastJoin"], hot["LSStream"])
        assert max(hot["FastJoin"], hot["LSStream"]) <= hot["Hash"]


def test_auto_meets_its_targets(report: dict[str, Any]) -> None:
    assert [target["met"] for target in report["targets"]] == [True, True], report["targets"]
