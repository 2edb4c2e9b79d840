"""Who listens hears of every batch, and can do no harm."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skewless as sk
from skewless.engine import listeners
from skewless.engine.report import BatchReport
from skewless.errors import ArgumentError
from tests.driver import Driver, Setup
from tests.operators.two_way.test_balanced import batch_of, spec_of, zipf

Heard = list[tuple[str, BatchReport]]


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    yield
    assert listeners._subscriptions == []


def run(root: Path, batches: range, rows: int = 50) -> list[BatchReport | None]:
    driver = Driver(str(root / "ckpt" / "skewless"), spec_of(), Setup())
    return [driver.run(n, batch_of(n, zipf(3), rows)).report for n in batches]


def test_every_batch_is_told_with_its_checkpoint(tmp_path: Path) -> None:
    heard: Heard = []
    with sk.on_batch(lambda checkpoint, report: heard.append((checkpoint, report))):
        reports = run(tmp_path, range(3))
    assert [checkpoint for checkpoint, _ in heard] == [str(tmp_path / "ckpt")] * 3
    assert [report for _, report in heard] == reports
    assert [report for _, report in heard] == sk.history(str(tmp_path / "ckpt"))


def test_a_batch_that_was_committed_before_is_not_told_again(tmp_path: Path) -> None:
    run(tmp_path, range(2))
    heard: Heard = []
    with sk.on_batch(lambda *told: heard.append(told)):
        assert run(tmp_path, range(1, 3))[0] is None
    assert [report.batch_id for _, report in heard] == [2]


def test_who_is_removed_hears_no_more(tmp_path: Path) -> None:
    heard: Heard = []
    subscription = sk.on_batch(lambda *told: heard.append(told))
    run(tmp_path, range(1))
    subscription.remove()
    subscription.remove()
    run(tmp_path, range(1, 2))
    assert len(heard) == 1


def test_one_may_remove_oneself_while_one_is_told(tmp_path: Path) -> None:
    heard: Heard = []

    def once(checkpoint: str, report: BatchReport) -> None:
        heard.append((checkpoint, report))
        subscription.remove()

    subscription = sk.on_batch(once)
    run(tmp_path, range(2))
    assert len(heard) == 1


def test_what_a_listener_raises_is_logged_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: Heard = []

    def bad(checkpoint: str, report: BatchReport) -> None:
        raise RuntimeError("no room on the board")

    with (
        caplog.at_level(logging.ERROR, "skewless"),
        sk.on_batch(bad),
        sk.on_batch(lambda *told: heard.append(told)),
    ):
        assert None not in run(tmp_path, range(2))
    assert len(heard) == 2
    assert "failed on batch 1" in caplog.text and "no room on the board" in caplog.text


@pytest.mark.parametrize("listener", [None, 3, "print"])
def test_what_cannot_be_called_is_refused(listener: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`listener` must be a function"):
        sk.on_batch(listener)


def test_reports_say_when_it_was_and_how_far_events_have_come(tmp_path: Path) -> None:
    first, second = run(tmp_path, range(2))
    assert first and second and first.ended_us and second.ended_us
    assert first.ended_us < second.ended_us
    batch = batch_of(1, zipf(3), 50)
    times = [t["at"].cast("int64").to_pylist() for side in batch.tables() for t in [side]]
    assert second.latest_us == max(max(t) for t in times)
    read = sk.history(str(tmp_path / "ckpt"))[1]
    assert (read.ended_us, read.latest_us) == (second.ended_us, second.latest_us)
