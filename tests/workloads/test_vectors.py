"""Vectors: where they lie and when, how many of them are alike, and that they repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from skewless.errors import ArgumentError
from skewless.workloads.vectors import Vectors, angles
from skewless.workloads.zipf import EPOCH


def matrix(table: pa.Table) -> npt.NDArray[np.float64]:
    return np.array(table["vector"].to_pylist())


@pytest.mark.parametrize("dimension", [1, 2, 8, 64, 384])
def test_vectors_fill_the_box_evenly_and_in_time(dimension: int) -> None:
    table = Vectors(dimension).table(0, 1000, 10.5, 2.0, stretch=2)
    assert table.schema.types == [
        pa.int64(), pa.list_(pa.float64()), pa.timestamp("us", tz="UTC"),
    ]  # fmt: skip
    assert table["id"].to_pylist() == list(range(2_000_000_000, 2_000_001_000))
    vectors = matrix(table)
    assert vectors.shape == (1000, dimension)
    assert np.abs(vectors).max() <= 1
    assert abs(vectors.mean()) < 0.05
    assert vectors.std() == pytest.approx(1 / np.sqrt(3), rel=0.05)
    since = table["at"].cast(pa.int64()).to_numpy() - int(EPOCH.timestamp()) * 1_000_000
    assert (np.diff(since) >= 0).all()
    assert since[0] >= 10_500_000 and since[-1] < 12_500_000


def test_clusters_are_as_wide_and_as_heavy_as_told() -> None:
    data = Vectors(dimension=8, clusters=5, spread=0.001, heat=1.0)
    vectors = matrix(data.table(0, 4000, 0, 60))
    _, sizes = np.unique(vectors.round(1), axis=0, return_counts=True)
    whole = np.sort(sizes)[::-1]
    assert len(whole) >= 5
    first = np.linalg.norm(vectors - vectors[0], axis=1) < 0.1
    assert vectors[first].std(axis=0) == pytest.approx([0.001] * 8, rel=0.25)
    near = (np.linalg.norm(vectors[:, None] - vectors[None, :400], axis=2) < 0.1).sum(axis=0)
    expected = 4000 / sum(1 / r for r in range(1, 6))
    assert near.max() == pytest.approx(expected, rel=0.1)


def test_streams_share_their_clusters() -> None:
    data = Vectors(dimension=4, clusters=3, spread=0.001)
    left, right = (matrix(data.table(stream, 300, 0, 60)) for stream in (0, 1))
    apart = np.linalg.norm(left[:, None] - right, axis=2)
    assert apart.min(axis=1).max() < 0.02
    assert apart.min() > 0


def test_centers_drift_and_stay_in_the_box() -> None:
    still = Vectors(dimension=2, clusters=1, spread=0.0)
    moving = Vectors(dimension=2, clusters=1, spread=0.0, drift=0.1)
    begin = matrix(still.table(0, 1, 0, 1))[0]
    assert (matrix(still.table(0, 100, 600, 60, 3)) == begin).all()
    minute_later = matrix(moving.table(0, 1, 60, 1e-6))[0]
    assert np.linalg.norm(minute_later - begin) == pytest.approx(0.1)
    far = matrix(moving.table(0, 2000, 0, 60 * 1000))
    assert np.abs(far).max() <= 1
    assert (far.max(axis=0) - far.min(axis=0) > 1.5).all()
    steps = np.linalg.norm(np.diff(far, axis=0), axis=1)
    assert np.median(steps) < 0.1  # half a minute apart on average


@pytest.mark.parametrize(
    "data",
    [
        Vectors(),
        Vectors(dimension=8),
        Vectors(dimension=64, clusters=10),
        Vectors(dimension=8, clusters=10, heat=1.0, drift=0.2),
    ],
)
@pytest.mark.parametrize("selectivity", [0.1, 0.01])
def test_threshold_gives_the_wanted_selectivity(data: Vectors, selectivity: float) -> None:
    threshold = data.threshold(selectivity, sample=1000)
    left, right = (matrix(data.table(stream, 1500, 0, 60)) for stream in (0, 1))
    share = (angles(left, right) <= threshold).mean()
    assert share == pytest.approx(selectivity, rel=0.2)


def test_threshold_is_of_the_distance_told() -> None:
    one_number = Vectors(dimension=1)
    # Two numbers from -1 to 1 are within t of each other with probability t - t² / 4.
    found = one_number.threshold(0.19, lambda a, b: np.abs(a - b.T))
    assert found == pytest.approx(0.2, rel=0.05)


def test_angles_are_told_over_pi() -> None:
    a = np.array([[1.0, 0.0], [0.0, 3.0]])
    b = np.array([[2.0, 0.0], [-1.0, 0.0], [1.0, 1.0]])
    assert angles(a, b) == pytest.approx(np.array([[0, 1, 0.25], [0.5, 0.5, 0.25]]))


def test_vectors_repeat_by_seed_stream_and_stretch() -> None:
    for data in (Vectors(), Vectors(clusters=3, heat=0.5)):
        first = data.table(1, 100, 0, 1, stretch=3)
        assert data.table(1, 100, 0, 1, stretch=3).equals(first)
        others = [
            Vectors(clusters=data.clusters, heat=data.heat, seed=2).table(1, 100, 0, 1, stretch=3),
            data.table(0, 100, 0, 1, stretch=3),
            data.table(1, 100, 0, 1, stretch=4),
        ]
        assert not any(other["vector"].equals(first["vector"]) for other in others)


def test_there_may_be_no_vectors() -> None:
    for data in (Vectors(), Vectors(clusters=2, drift=1.0)):
        assert data.table(0, 0, 0, 1).num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dimension": 0}, "dimension"),
        ({"clusters": -1}, "clusters"),
        ({"spread": -0.1}, "spread"),
        ({"clusters": 1, "heat": float("nan")}, "heat"),
        ({"heat": 1.0}, "heat"),
        ({"drift": 1.0}, "drift"),
        ({"clusters": 1, "drift": float("inf")}, "drift"),
        ({"seed": -1}, "seed"),
    ],
)
def test_refuses_data_that_cannot_be(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        Vectors(**arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((-1, 1, 0, 1), "stream"),
        ((0, -1, 0, 1), "rows"),
        ((0, 1, -1, 1), "begin_s"),
        ((0, 1, 0, 0), "seconds"),
        ((0, 1, 0, 1, -1), "stretch"),
    ],
)
def test_refuses_a_stretch_that_cannot_be(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        Vectors().table(*arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0.0,), "selectivity"), ((1.1,), "selectivity"), ((0.1, angles, 0), "sample")],
)
def test_refuses_a_threshold_that_cannot_be(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        Vectors().threshold(*arguments)
