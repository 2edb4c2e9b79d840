"""What is lost is told: how much, why, and which `late` would have kept it. That `late` does."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.durations import parse_duration_us
from skewless.engine.loss import (
    LossLog,
    by_lateness,
    late_needed_us,
    loss_text,
    put_together,
    readable_duration,
    rounded_up,
)
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import BatchReport, OperatorReport
from tests.frame.kit import Kit
from tests.frame.kits import KITS
from tests.frame.streams import Stream, ended
from tests.frame.test_frame import BATCHES, even_cut
from tests.queries import PipelineRun
from tests.strategies import examples

FAR = 1 << 61


@examples(200)
@given(st.lists(st.integers(1, FAR) | st.integers(1, 40), min_size=1, max_size=50))
def test_a_lateness_is_told_a_little_too_long_and_never_too_short(behind: list[int]) -> None:
    given_us, found = np.array(behind), rounded_up(np.array(behind))
    assert (found >= given_us).all()
    assert (found - given_us <= given_us // 8).all()
    assert sum(by_lateness(given_us).values()) == len(behind)


def test_there_are_few_different_ones() -> None:
    assert len(by_lateness(np.arange(1, 1_000_000))) < 150


@examples(200)
@given(
    st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=300), min_size=1, max_size=4),
    st.integers(0, 10**7),
)
def test_what_is_needed_keeps_99_of_100(batches: list[list[int]], late_us: int) -> None:
    lateness = put_together([by_lateness(np.array(b)) for b in batches], late_us)
    needed = late_needed_us(lateness)
    assert needed is not None
    behind = np.concatenate(batches) + late_us
    assert (behind <= needed).mean() >= 0.99
    # Little less would not have done.
    assert (behind <= late_us + (needed - late_us) * 7 // 8 - 1).mean() < 0.99


@examples(200)
@given(st.integers(1, FAR // 2))
def test_a_readable_duration_is_long_enough_and_reads_back(us: int) -> None:
    read = parse_duration_us(readable_duration(us), "late")
    assert us <= read <= us + max(us // 10, 1000)


def test_nothing_is_said_of_what_is_normal() -> None:
    assert late_needed_us({}) is None
    assert loss_text({"left": 60, "right": 40}, {"late": 1}, {"7": 1}) == ""
    assert loss_text({}, {}, {}) == ""


def test_what_is_said_of_a_loss() -> None:
    text = loss_text({"left": 50, "right": 50}, {"late": 1, "null keys": 1}, {"90500000": 1})
    assert text == (
        "2 of 100 rows (2.0%) were dropped: 1 late, 1 null keys; "
        'late="91 seconds" would have kept 99 % of the late ones'
    )
    assert "late=" not in loss_text({"input": 9}, {"null keys": 5}, {})


def lossy(batch_id: int, **changes: Any) -> BatchReport:
    plain = {"name": "join", "rows": {"left": 10}, "dropped": {"late": 3}, "lateness": {"5": 3}}
    return BatchReport(batch_id=batch_id, **(plain | changes))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "skewless"]


def test_a_query_that_goes_on_losing_warns_ever_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    losses = LossLog()
    with caplog.at_level(logging.WARNING, "skewless"):
        for batch in range(100):
            losses.watch(lossy(batch))
            losses.watch(lossy(batch, dropped={}, lateness={}))
    told = warnings_of(caplog)
    assert len(told) == 7
    assert told[0].startswith("batch 0 loses rows: join: 3 of 10 rows (30.0%) were dropped: 3 late")
    assert told[-1].startswith("batch 63 loses rows (64 batches so far): ")


def test_of_several_operators_those_that_lose_are_named(caplog: pytest.LogCaptureFixture) -> None:
    lower = OperatorReport(name="join-1", rows={"left": 10}, dropped={"null keys": 1})
    upper = OperatorReport(name="aggregate-2", rows={"input": 5})
    LossLog().watch(lossy(7, operators=(lower, upper)))
    [told] = warnings_of(caplog)
    assert "join-1: 1 of 10 rows" in told and "aggregate-2" not in told


# What is told of every operator is true -----------------------------------------------------------

ALONE = {name: kit for name, kit in KITS.items() if len(kit.pipeline(kit.setups[0]).nodes) == 1}


def with_late(value: Any, late_us: int) -> Any:
    """A spec, an operator or a part of one, with another lateness."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(with_late(item, late_us) for item in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    names = [f.name for f in dataclasses.fields(value) if f.init]
    changed = {n: late_us if n == "late_us" else with_late(getattr(value, n), late_us)
               for n in names}  # fmt: skip
    return replace(value, **{n: v for n, v in changed.items() if v is not getattr(value, n)})


def straggling(*names: str) -> tuple[Stream, ...]:
    """Streams whose rows come up to ten seconds after later ones."""
    return tuple(
        Stream(
            name, ended([(1 + i % 2, 40 + i - (i * 7 + n) % 11, float(i % 5)) for i in range(24)])
        )
        for n, name in enumerate(names)
    )


def run(folder: Path, kit: Kit, streams: tuple[Stream, ...], late_us: int) -> list[BatchReport]:
    operator = with_late(kit.pipeline(kit.setups[0]).root.operator, late_us)
    query, cut = PipelineRun(folder, Pipeline.of(operator)), even_cut(kit, streams)
    ran = [query.run_streams(n, cut.streams(streams, n)) for n in range(BATCHES)]
    return [r.report for r in ran if r.report is not None]


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", ["join", "aggregate", "deduplicate", *ALONE])
def test_every_operator_tells_the_late_that_it_needs(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    kit, streams = ALONE[name], straggling(*ALONE[name].streams)
    before = run(tmp_path / "before", kit, streams, 0)
    late = sum(r.late for r in before)
    assert late > 2, "there is something to tell"
    for report in before:
        assert sum(report.lateness.values()) == report.late
        assert (report.late_needed_us is None) == (report.late == 0)
    assert warnings_of(caplog)[0].startswith("batch ")
    needed = late_needed_us(put_together([r.lateness for r in before]))
    assert needed is not None
    after = run(tmp_path / "after", kit, streams, needed)
    assert sum(r.late for r in after) <= late // 100
