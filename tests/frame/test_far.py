"""As on a remote store: rows are exchanged by ranges of hashes, and only what is needed is read.
The result of every operator and pipeline is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine import exchange
from skewless.state import compaction, parts
from tests.frame.kit import Kit
from tests.frame.test_elastic import elastic, every_core_has_work
from tests.frame.test_frame import (
    BATCHES,
    EVERY_KIT,
    QUICK_OR_SLOW,
    Frame,
    check_any_crashes,
    check_any_cutting,
    stories,
)
from tests.strategies import examples


@pytest.fixture(autouse=True)
def _far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store is remote, every row a part of its own, and keys are hot that come twice."""
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    monkeypatch.setattr(compaction, "PORTION_ROWS", 2)
    monkeypatch.setattr(parts, "FORCED", True)
    monkeypatch.setattr(parts, "PART_BYTES_MIN", 1)
    monkeypatch.setattr(exchange, "PACKET_BYTES_MAX", 64)
    every_core_has_work(monkeypatch)


def check_moving(data: st.DataObject, kit: Kit) -> None:
    """Instances come and go, so that what one has written is another's."""
    _, arriving, cut = data.draw(stories(kit))
    cores = data.draw(st.lists(st.integers(1, 6), min_size=BATCHES, max_size=BATCHES))
    twice = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder:
        frame = Frame(elastic(kit), Path(folder), arriving, cut)
        for number in range(BATCHES):
            frame.batch(number, twice=twice, cores=cores[number])
        frame.check()


@QUICK_OR_SLOW
@examples(3)
@given(data=st.data())
def test_any_cutting_far_away(data: st.DataObject, kit: Kit) -> None:
    check_any_cutting(data, kit)


@QUICK_OR_SLOW
@examples(3)
@given(data=st.data())
def test_any_move_far_away(data: st.DataObject, kit: Kit) -> None:
    check_moving(data, kit)


@QUICK_OR_SLOW
@examples(2)
@given(data=st.data())
def test_any_crashes_far_away(data: st.DataObject, kit: Kit) -> None:
    check_any_crashes(data, kit)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("check", [check_any_cutting, check_moving, check_any_crashes])
@EVERY_KIT
@examples(200)
@given(data=st.data())
def test_far_away_at_length(data: st.DataObject, kit: Kit, check) -> None:  # type: ignore[no-untyped-def]
    check(data, kit)
