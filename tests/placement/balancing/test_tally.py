"""Loads kept up change by change are those summed afresh."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from skewless.placement.balancing.changes import Change, Merge, Move, Split
from skewless.placement.balancing.expected import ExpectedTime, expected, still_growing_ms
from skewless.placement.balancing.loads import (
    LoadModel,
    MeasuredTime,
    StoredTimesProbing,
    WeightedResources,
)
from skewless.placement.balancing.tally import Tally
from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures, WatchedKey
from skewless.placement.places import IsolatedKey, Placement

SLOTS, INSTANCES = 8, 4


def a_view(seed: int) -> View:
    rng = np.random.default_rng(seed)
    keys = tuple(WatchedKey(i << 61, f"k{i}", i, isolated=i in (2, 5)) for i in range(SLOTS))
    of_keys = Figures(*(rng.random(SLOTS) for _ in fields(Figures)))
    # The figures of a slot include those of its key, unless that has a place of its own.
    rest = Figures(*(rng.random(SLOTS) for _ in fields(Figures)))
    inside = Figures(
        *(np.array([not k.isolated for k in keys]) * a for a in of_keys.arrays().values())
    )
    placement = Placement.spread(SLOTS, INSTANCES)
    placement = placement.with_isolated(IsolatedKey(2 << 61, "k2", 2, (0, 3), (1,), "stored"))
    placement = placement.with_isolated(IsolatedKey(5 << 61, "k5", 5, (3,), (3,)))
    return View(0, placement, rest.plus(inside), keys, of_keys, row_ms=0.3, pair_ms=0.1)


def changes(view: View) -> list[Change]:
    two = IsolatedKey(2 << 61, "k2", 2, (0, 1, 2), (1, 2), "probers", "stored")
    six = IsolatedKey(6 << 61, "k6", 6, (0, 2), (0, 1))
    return [
        Move(6, 3, 0, ""), Split(six, 0, ""), Move(6, 0, 1, ""), Split(two, 0, ""),
        Move(5, 3, 1, "", view.keys[5]), Merge(two, 1, ""), Merge(six, 1, ""), Move(2, 1, 3, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "model", [MeasuredTime(), StoredTimesProbing(), WeightedResources(), ExpectedTime()]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_tally_agrees_with_summing_afresh(model: LoadModel, seed: int) -> None:
    view = a_view(seed)
    placement, tally = view.placement, Tally(view, view.placement, model)
    np.testing.assert_allclose(tally.loads(), model.of_instances(view, placement))
    for change in changes(view):
        after = change.on(placement)
        np.testing.assert_allclose(
            tally.loads_after(change, after), model.of_instances(view, after)
        )
        np.testing.assert_allclose(tally.loads(), model.of_instances(view, placement))
        tally.enact(change, after)
        placement = after
        np.testing.assert_allclose(tally.loads(), model.of_instances(view, placement))


def growing(stored: float) -> View:
    """Slots whose state is ten batches deep, and a key in the first with so many stored rows."""
    slots, key = Figures.zeros(4), Figures.zeros(1)
    for figures, rows, state in ((slots, 1000.0, 10_000.0), (key, 900.0, stored)):
        for side in ("left", "right"):
            getattr(figures, f"probing_{side}")[:] = rows
            getattr(figures, f"stored_{side}")[:] = state
            getattr(figures, f"pairs_{side}")[:] = rows * state
    return View(0, Placement.spread(4, 2), slots, (WatchedKey(1, "k", 0),), key)


def test_a_key_with_few_stored_rows_is_expected_to_grow() -> None:
    young, old = growing(1800.0), growing(9000.0)
    assert expected(old).key_figures.time_left_ms.tolist() == pytest.approx(
        old.key_figures.time_left_ms.tolist()
    )
    assert still_growing_ms(old).tolist() == pytest.approx([0.0])
    assert expected(young).key_figures.time_left_ms[0] > young.key_figures.time_left_ms[0]
    assert still_growing_ms(young)[0] > 0
    more = expected(young).slots.time_left_ms - young.slots.time_left_ms
    assert more[0] > 0
    assert more[1:].tolist() == [0, 0, 0]
