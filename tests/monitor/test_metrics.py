"""What Prometheus is told: read by its own parser, against sums over the reports."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import skewless as sk
from skewless.engine.report import BatchReport
from skewless.errors import ArgumentError
from skewless.monitor.metrics import BatchMetrics, HistoryMetrics, metrics_of
from tests.driver import Driver, Setup
from tests.monitor.histories import Story, Written, batch_report, checkpoint
from tests.operators.two_way.test_balanced import batch_of, spec_of, zipf

BOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana.json"
STORY = Story(hot_from=4, split_after=8)

Samples = dict[str, dict[tuple[str, ...], float]]


def samples(text: str) -> Samples:
    """Values by name and labels, the query's among them."""
    found: Samples = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sorted(sample.labels.items(), key=lambda item: item[0] != "query")
            found[sample.name][tuple(value for _, value in labels)] = sample.value
    return found


def scraped(url: str) -> Samples:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return samples(answer.read().decode())


def told_by(metrics: BatchMetrics) -> Samples:
    from prometheus_client import generate_latest

    return samples(generate_latest(metrics.registry).decode())


def test_sums_are_those_of_the_reports() -> None:
    metrics, reports = BatchMetrics(), [batch_report(STORY, b) for b in range(20)]
    for report in reports:
        metrics.observe("ckpt", report)
    told, q = told_by(metrics), ("ckpt",)
    assert told["skewless_batches_total"][q] == 20
    for side in ("left", "right"):
        rows = sum(r.rows[side] for r in reports)
        assert told["skewless_rows_in_total"][*q, side] == rows
    assert told["skewless_rows_out_total"][q] == sum(r.matches for r in reports)
    assert told["skewless_dropped_rows_total"][*q, "late"] == sum(r.late for r in reports)
    assert told["skewless_dropped_rows_total"][*q, "null keys"] == 6
    seconds = sum(r.duration_ms for r in reports) / 1000
    assert told["skewless_batch_seconds_sum"][q] == pytest.approx(seconds)
    assert told["skewless_batch_seconds_count"][q] == 20
    ingest = sum(r.phases_ms["ingest"] for r in reports) / 1000
    assert told["skewless_phase_seconds_total"][*q, "ingest"] == pytest.approx(ingest)
    assert told["skewless_changes_total"] == {(*q, "move"): 1, (*q, "split"): 1}
    assert told["skewless_changes_refused_total"] == {(*q, "move"): 1}
    last = reports[-1]
    assert last.watermark_us and last.latest_us
    for name, value in {
        "last_batch": 19,
        "state_rows": last.state_rows,
        "state_bytes": last.state_bytes,
        "instances": 8,
        "busiest_over_mean": last.busiest_over_mean,
        "watermark_lag_seconds": (last.latest_us - last.watermark_us) / 1e6,
        "watermark_timestamp_seconds": last.watermark_us / 1e6,
    }.items():
        assert told[f"skewless_{name}"][q] == pytest.approx(value), name


def test_from_a_driver(tmp_path: Path) -> None:
    """A real query in this process: what is told is what its history says."""
    driver = Driver(str(tmp_path / "skewless"), spec_of(), Setup())
    driver.run(0, batch_of(0, zipf(3), 50))
    with sk.metrics(port=0) as told:
        assert scraped(told.url)["skewless_batches_total"] == {}
        for number in (1, 2):
            driver.run(number, batch_of(number, zipf(3), 50))
        found = scraped(told.url)
    reports = sk.history(str(tmp_path))
    assert found["skewless_batches_total"] == {(str(tmp_path),): 2}
    assert found["skewless_rows_out_total"][str(tmp_path),] == sum(r.matches for r in reports[1:])
    assert found["skewless_last_batch"][str(tmp_path),] == 2
    told.stop()
    driver.run(3, batch_of(3, zipf(3), 50))  # nobody listens any more


def test_from_checkpoints(tmp_path: Path) -> None:
    one, two = checkpoint(tmp_path / "1", STORY, 40), checkpoint(tmp_path / "2", STORY, 3)
    metrics = HistoryMetrics([str(one.root), str(two.root)])
    metrics.look()
    begun = told_by(metrics.metrics)["skewless_batches_total"]
    assert begun == {(str(one.root),): 1, (str(two.root),): 1}, "the last one, not all of history"
    metrics.look()
    assert told_by(metrics.metrics)["skewless_batches_total"] == begun
    one.run(STORY, range(40, 150))
    metrics.look()
    found = told_by(metrics.metrics)
    assert found["skewless_batches_total"] == {(str(one.root),): 111, (str(two.root),): 1}
    new = [batch_report(STORY, b) for b in range(39, 150)]
    assert found["skewless_rows_in_total"][str(one.root), "left"] == sum(r.rows_left for r in new)
    assert found["skewless_last_batch"][str(one.root),] == 149


def test_batches_are_counted_once_across_restarts_and_absence(tmp_path: Path) -> None:
    written = checkpoint(tmp_path / "ckpt", STORY, 5)
    metrics = HistoryMetrics([str(written.root)])

    def batches() -> float:
        metrics.look()
        return told_by(metrics.metrics)["skewless_batches_total"][str(written.root),]

    assert batches() == 1
    written.own(2, after=4)
    assert batches() == 1
    written.run(STORY, range(5, 7))
    assert batches() == 3
    away = written.root.with_name("away")
    written.root.rename(away)
    assert batches() == 3
    away.rename(written.root)
    assert batches() == 4, "who comes back begins with its last batch"
    Written(written.root, epoch=2).run(STORY, range(7, 8))
    assert batches() == 5


def test_a_checkpoint_that_is_not_there_yet(tmp_path: Path) -> None:
    with metrics_of([str(tmp_path / "later")], "127.0.0.1", 0) as told:
        assert scraped(told.url)["skewless_batches_total"] == {}


@pytest.mark.parametrize("port", [-1, 65_536, "9100", True])
def test_bad_ports(port: Any) -> None:
    with pytest.raises(ArgumentError, match="`port` must be a number"):
        sk.metrics(port=port)


def test_a_port_that_is_taken() -> None:
    with sk.metrics(port=0) as told:
        port = int(told.url.split(":")[2].split("/")[0])
        with pytest.raises(ArgumentError, match="that are free"):
            sk.metrics(port=port)


def every_name() -> set[str]:
    metrics = BatchMetrics()
    story = Story(hot_from=0, split_after=9)
    reports: list[BatchReport] = [batch_report(story, b) for b in range(12)]
    for report in reports:
        metrics.observe("ckpt", report)
    return {n for n in told_by(metrics) if not n.endswith("_created")}


def test_the_board_asks_for_what_there_is() -> None:
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    asked = " ".join(t["expr"] for p in board["panels"] for t in p.get("targets", ()))
    asked += " ".join(v["query"] for v in board["templating"]["list"] if "query" in v)
    used = set(re.findall(r"skewless_\w+", asked))
    there = every_name()
    assert used - there == set(), "names that nobody tells"
    unused = {n for n in there if not n.endswith(("_count", "_sum"))} - used
    assert unused == set(), "names that the board does not show"
    ids = [p["id"] for p in board["panels"]]
    assert len(ids) == len(set(ids)) and all("title" in p for p in board["panels"])
