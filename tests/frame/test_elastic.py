"""Instances come and go in mid-query: the result of every operator and pipeline is the same."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine import sizing
from skewless.engine.pipeline import Pipeline
from skewless.state import compaction
from tests.frame.kit import Kit
from tests.frame.kits import KITS
from tests.frame.test_frame import (
    BATCHES,
    EVERY_KIT,
    QUICK_OR_SLOW,
    Frame,
    busy_frame,
    stories,
)
from tests.strategies import examples


def elastic(kit: Kit) -> Kit:
    """The same query with as many instances as batches need; of joins, slots are divided too."""

    def pipeline(setup: Any) -> Pipeline:
        nodes = []
        for node in kit.pipeline(setup).nodes:
            more = {"slots_each": 8} if hasattr(node.operator, "slots_each") else {}
            operator: Any = replace(node.operator, elastic=True, **more)  # type: ignore[type-var]
            nodes.append(replace(node, operator=operator))
        return Pipeline(tuple(nodes))

    return replace(kit, pipeline=pipeline)


def every_core_has_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are as many instances as cores, however few rows come: no work is small."""
    monkeypatch.setattr(sizing, "ROWS_UNMEASURED", 1)
    monkeypatch.setattr(sizing, "ROWS_PRICED_MIN", 1)
    monkeypatch.setattr(sizing, "TASK_MS", 1e-6)
    monkeypatch.setattr(sizing, "SMALL_MS", 0.0)
    monkeypatch.setattr(sizing, "PATIENCE", 1)


@pytest.fixture(autouse=True)
def _every_row_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any change of the cores is one of the number of instances."""
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    every_core_has_work(monkeypatch)


def check_any_cores(data: st.DataObject, kit: Kit) -> None:
    _, arriving, cut = data.draw(stories(kit))
    cores = data.draw(st.lists(st.integers(1, 6), min_size=BATCHES, max_size=BATCHES))
    restarts = data.draw(st.sets(st.integers(1, BATCHES - 1)))
    with tempfile.TemporaryDirectory() as folder:
        frame = Frame(elastic(kit), Path(folder), arriving, cut)
        for number in range(BATCHES):
            if number in restarts:
                frame.restart(number)
            frame.batch(number, cores=cores[number])
        frame.check()


def test_instances_come_and_go(tmp_path: Path) -> None:
    """Else what follows would try nothing."""
    frame, seen = busy_frame(elastic(KITS["join"]), tmp_path), []
    cores = (3, 2, 4, 1, 5)
    for number, count in enumerate(cores):
        frame.batch(number, cores=count)
        seen += [size.now for size in frame.run.query.sizes.values()]
    assert seen == list(cores)


@QUICK_OR_SLOW
@examples(2)
@given(data=st.data())
def test_any_number_of_cores(data: st.DataObject, kit: Kit) -> None:
    check_any_cores(data, kit)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@EVERY_KIT
@examples(300)
@given(data=st.data())
def test_any_number_of_cores_at_length(data: st.DataObject, kit: Kit) -> None:
    check_any_cores(data, kit)
