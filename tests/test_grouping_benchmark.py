"""The grouping benchmark at toy sizes: that it runs, says all it promises and judges rightly."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console

from benchmarks import grouping
from benchmarks.grouping import IMBALANCE, MEMORY, NS, REPLICATION, Size

TOY = Size(messages=67_000, batches=3, skews=(1.0, 2.0), instances=(16, 64))
STREAMS = ["zipf 1.0", "zipf 2.0", "DS", "HT"]
RUN = {"stream", "grouping", "instances", *grouping.QUANTITIES}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(
        json.dumps(grouping.measure(TOY, list(grouping.GROUPINGS)))
    )
    return measured


def runs_of(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [run for run in report["runs"] if run["grouping"] == name]


def test_it_says_all_it_promises(
    report: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(grouping, "measure", lambda size, names: report)
    grouping.main(quick=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["benchmark"] == "grouping"
    assert set(told) == {"benchmark", "machine", "messages", "streams", "runs", "targets"}
    assert [fact["stream"] for fact in told["streams"]] == STREAMS
    assert all(set(run) == RUN for run in told["runs"])
    assert len(told["runs"]) == len(STREAMS) * len(TOY.instances) * len(grouping.GROUPINGS)


def test_it_can_be_shown(report: dict[str, Any]) -> None:
    out = Console(width=140)
    with out.capture() as captured:
        grouping.show(out, report)
    shown = captured.get()
    for word in (*STREAMS, *grouping.QUANTITIES.values(), "BatchAware", "no target"):
        assert word in shown


def test_streams_are_those_that_were_asked_for(report: dict[str, Any]) -> None:
    by_name = {fact["stream"]: fact for fact in report["streams"]}
    assert by_name["zipf 2.0"]["messages"] == TOY.messages
    assert by_name["zipf 2.0"]["first_share"] == pytest.approx(0.608, abs=0.01)
    assert by_name["DS"]["messages"] == TOY.messages * 1.2
    assert by_name["DS"]["keys"] / by_name["DS"]["messages"] == pytest.approx(0.2, rel=0.05)
    assert by_name["HT"]["messages"] == TOY.messages
    assert by_name["HT"]["first_share"] == pytest.approx(0.085, abs=0.01)


def test_figures_that_are_known_beforehand(report: dict[str, Any]) -> None:
    for run in runs_of(report, "KeyGrouping"):
        assert run[REPLICATION] == 1
    for run in runs_of(report, "ShuffleGrouping"):
        assert run[IMBALANCE] < 64 / TOY.messages
    for run in runs_of(report, "PKG"):
        assert run[REPLICATION] <= 2
    # Two instances share the first key, which has 60.8 % of the messages.
    pkg = [run for run in runs_of(report, "PKG") if run["stream"] == "zipf 2.0"]
    for run in pkg:
        assert run[IMBALANCE] == pytest.approx(0.608 / 2 * run["instances"] - 1, rel=0.05)


def test_measuring_agrees_with_counting() -> None:
    keys = np.random.default_rng(1).zipf(1.3, 3000) % 500
    batches = [grouping.hashed(part) for part in np.array_split(keys.astype(np.int64), 3)]
    ran = grouping.run(grouping.GROUPINGS["PKG"], 8, batches)
    found = ran.to_json()
    grouper = grouping.GROUPINGS["PKG"].build(instances=8, seed=0)
    targets = np.concatenate([grouper.assign(batch) for batch in batches]).tolist()
    loads = [targets.count(instance) for instance in range(8)]
    pairs = set(zip(keys.tolist(), targets, strict=True))
    assert found[IMBALANCE] == pytest.approx((max(loads) - 375) / 375)
    assert found[REPLICATION] == pytest.approx(len(pairs) / len(set(keys.tolist())))
    assert found[NS] > 0
    assert ran.last.tolist() == targets[-1000:]


def test_batches_cover_a_stream_once() -> None:
    assert list(grouping.cuts(10, Size(messages=9, batches=3))) == [(0, 3), (3, 6), (6, 9), (9, 10)]


def made_up(name: str, stream: str, instances: int, **figures: float) -> dict[str, Any]:
    run = {"grouping": name, "stream": stream, "instances": instances}
    return {**run, MEMORY: 1000, NS: 100.0, **figures}


def test_the_worst_run_is_judged() -> None:
    runs = [
        made_up("PdStream", "DS", 128, load_imbalance=1e-6, replication_factor=3.0),
        made_up("PdStream", "zipf 2.0", 128, load_imbalance=6e-5, replication_factor=1.7),
        made_up("DAGreedy", "zipf 1.6", 16, load_imbalance=0.9, replication_factor=1.0),
        made_up("DAGreedy", "zipf 1.6", 128, load_imbalance=1.1, replication_factor=1.0),
    ]
    met = {target["figure"]: target["met"] for target in grouping.judged([], runs)}
    assert met == {
        "PdStream: load imbalance": False,
        "PdStream: replication factor, zipf 2.0, 128 instances": True,
        "PdStream: ns per tuple, 128 instances": True,
        "DAGreedy: load imbalance": False,
    }


def test_groupings_are_chosen_by_name() -> None:
    assert grouping.chosen(None) == list(grouping.GROUPINGS)
    assert grouping.chosen("PKG, PdStream") == ["PKG", "PdStream"]
    with pytest.raises(typer.BadParameter, match=r"'Pkg'.*KeyGrouping, ShuffleGrouping, PKG"):
        grouping.chosen("Pkg")
