"""The Hilbert curve: against its recursive definition, and by the properties that define it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ArgumentError
from skewless.workloads.hilbert import MAX_ORDER, hilbert_index, hilbert_xy


def recursive_curve(order: int) -> list[tuple[int, int]]:
    """The textbook construction: four copies of the smaller curve, the outer two turned."""
    if order == 0:
        return [(0, 0)]
    smaller = recursive_curve(order - 1)
    half = 1 << (order - 1)
    return (
        [(y, x) for x, y in smaller]
        + [(x, y + half) for x, y in smaller]
        + [(x + half, y + half) for x, y in smaller]
        + [(2 * half - 1 - y, half - 1 - x) for x, y in smaller]
    )


@pytest.mark.parametrize("order", range(7))
def test_matches_the_recursive_definition(order: int) -> None:
    x, y = hilbert_xy(np.arange(4**order), order)
    assert list(zip(x.tolist(), y.tolist(), strict=True)) == recursive_curve(order)


@pytest.mark.parametrize("order", range(1, 9))
def test_visits_every_cell_once_by_steps_to_a_neighbour(order: int) -> None:
    x, y = hilbert_xy(np.arange(4**order), order)
    side = 1 << order
    assert np.array_equal(np.sort(x * side + y), np.arange(4**order))
    assert (np.abs(np.diff(x)) + np.abs(np.diff(y)) == 1).all()


@pytest.mark.parametrize("order", range(7))
def test_index_is_a_bijection(order: int) -> None:
    x, y = np.divmod(np.arange(4**order), 1 << order)
    assert np.array_equal(np.sort(hilbert_index(x, y, order)), np.arange(4**order))


@given(st.data(), st.integers(0, MAX_ORDER))
def test_round_trip(data: st.DataObject, order: int) -> None:
    positions = data.draw(st.lists(st.integers(0, 4**order - 1), max_size=20))
    d = np.array(positions, dtype=np.int64)
    x, y = hilbert_xy(d, order)
    assert np.array_equal(hilbert_index(x, y, order), d)


@given(st.integers(1, MAX_ORDER).flatmap(lambda k: st.tuples(st.just(k), st.integers(1, 4**k - 1))))
def test_neighbours_on_the_curve_are_neighbours_on_the_grid(place: tuple[int, int]) -> None:
    order, d = place
    x, y = hilbert_xy(np.array([d - 1, d]), order)
    assert abs(int(x[1] - x[0])) + abs(int(y[1] - y[0])) == 1


def test_leaves_its_arguments_alone() -> None:
    x, y = np.arange(8), np.arange(8)[::-1].copy()
    hilbert_index(x, y, 3)
    assert x.tolist() == list(range(8))
    assert y.tolist() == list(range(7, -1, -1))


@pytest.mark.parametrize("order", [-1, MAX_ORDER + 1])
def test_refuses_an_order_out_of_range(order: int) -> None:
    with pytest.raises(ArgumentError, match=f"`order` must be between 0 and 31; received {order}"):
        hilbert_xy(np.array([0]), order)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_refuses_cells_outside_the_grid(wrong: int) -> None:
    good, bad = np.array([0, 1]), np.array([0, wrong])
    with pytest.raises(ArgumentError, match=f"`x` must be between 0 and 3; received {wrong}"):
        hilbert_index(bad, good, 2)
    with pytest.raises(ArgumentError, match=f"`y` must be between 0 and 3; received {wrong}"):
        hilbert_index(good, bad, 2)
    with pytest.raises(ArgumentError, match="`d` must be between 0 and 15; received 16"):
        hilbert_xy(np.array([3, 16]), 2)


def test_refuses_fractions() -> None:
    with pytest.raises(TypeError, match="Cannot cast"):
        hilbert_xy(np.array([0.5]), 2)
