"""Distances: equal to textbook formulas, true to the laws of a metric, and what has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import DataError
from skewless.operators.similarity import metrics
from skewless.operators.similarity.metrics import EARTH_RADIUS_M, METRICS, OwnMetric
from skewless.operators.similarity.points import unfit
from tests.operators.similarity.oracle import distance
from tests.strategies import examples

Matrix = npt.NDArray[np.float64]

REAL = st.integers(-3, 3).map(float) | st.floats(-1e6, 1e6, allow_subnormal=False)
PLACE = st.tuples(st.floats(-90, 90), st.floats(-180, 180)).map(list)
# An empty vector has no direction, and squares of what is left here do not vanish.
DIRECTED = st.lists(REAL, min_size=3, max_size=3).filter(lambda v: max(map(abs, v)) > 1e-6)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "euclidean": st.lists(REAL, min_size=3, max_size=3),
    "manhattan": st.lists(REAL, min_size=4, max_size=4),
    "hamming": st.lists(st.integers(0, 2).map(float), min_size=5, max_size=5),
    "angular": DIRECTED,
    "jaccard": st.lists(st.integers(-4, 4) | st.sampled_from([2**62, -(2**62)]), max_size=6),
    "haversine": PLACE,
}
# What a textbook loses to rounding: the arc cosine half of the digits of a small angle, the arc
# sine those of what is missing to the antipode.
TEXTBOOK_SLACK = {"angular": 3e-8, "haversine": 0.5}
METRIC_NAMES = pytest.mark.parametrize("metric", sorted(METRICS))


def test_every_metric_is_tested() -> None:
    assert sorted(VALUES) == sorted(METRICS)


def column_of(metric: str, values: Sequence[Any]) -> pa.Array:
    element = pa.int64() if metric == "jaccard" else pa.float64()
    return pa.array(values, pa.list_(element))


def by_pairs(metric: str, values: Sequence[Any]) -> Matrix:
    """The distances of all values from all, one pair at a time."""
    points, count = METRICS[metric].points([column_of(metric, values)]), len(values)
    rows, others = np.repeat(np.arange(count), count), np.tile(np.arange(count), count)
    return METRICS[metric].pairs(points, rows, points, others).reshape(count, count)


def crossed(metric: str, values: Sequence[Any]) -> Matrix:
    points = METRICS[metric].points([column_of(metric, values)])
    return METRICS[metric].cross(points, points)


def apart(metric: str, a: Sequence[float], b: Sequence[float]) -> float:
    return float(by_pairs(metric, [a, b])[0, 1])


# Formulas --------------------------------------------------------------------------------------


@METRIC_NAMES
@examples(60)
@given(st.data())
def test_equals_the_textbook(metric: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[metric], min_size=1, max_size=5))
    expected = [[distance(metric, a, b) for b in values] for a in values]
    slack = TEXTBOOK_SLACK.get(metric, 0.0)
    np.testing.assert_allclose(by_pairs(metric, values), expected, rtol=1e-12, atol=slack)
    largest = max(map(max, expected))
    found = crossed(metric, values)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=slack + 1e-9 * largest)


@METRIC_NAMES
@examples(60)
@given(st.data())
def test_obeys_the_laws_of_a_metric(metric: str, data: st.DataObject) -> None:
    a, b, c = (data.draw(VALUES[metric]) for _ in range(3))
    between = by_pairs(metric, [a, b, c])
    assert (between >= 0).all()
    assert (between <= METRICS[metric].largest * (1 + 1e-15)).all()
    assert (np.diag(between) == 0).all()
    assert (between == between.T).all(), "it would matter which of two rows looks for the other"
    slack = TEXTBOOK_SLACK["haversine"] if metric == "haversine" else 1e-12 * (1 + between.max())
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        assert between[i, j] <= between[i, k] + between[k, j] + slack


# Values that are near one another, down to the last digits, and near the threshold.
NEAR_VALUES = VALUES | {
    "euclidean": VALUES["euclidean"]
    | st.lists(st.integers(-2, 2).map(lambda n: n * 1e-160), min_size=3, max_size=3),
    "angular": DIRECTED
    | st.floats(-1e-7, 1e-7).map(lambda turn: [math.cos(turn), math.sin(turn), 0.0])
    | st.floats(-1e-7, 1e-7).map(lambda turn: [-math.cos(turn), math.sin(turn), 0.0]),
}


def test_places_so_near_that_their_distance_vanishes_are_found() -> None:
    points = METRICS["haversine"].points([column_of("haversine", [[0.0, 0.0], [1e-174, 0.0]])])
    assert METRICS["haversine"].pairs(points, np.array([0]), points, np.array([1])) == [0.0]
    rows, first, last = np.array([0]), np.array([1]), np.array([2])
    near = METRICS["haversine"].near(points, rows, points, first, last, 0.0)
    assert [partners.tolist() for _, partners, _ in near] == [[1]]


@METRIC_NAMES
@examples(100)
@given(st.data())
def test_near_pairs_are_those_whose_distance_is(metric: str, data: st.DataObject) -> None:
    """A threshold that is one of the distances, or next to it: nothing is decided by a bound that
    is not decided so by the distance."""
    values = data.draw(st.lists(NEAR_VALUES[metric], min_size=1, max_size=7))
    points, between = METRICS[metric].points([column_of(metric, values)]), by_pairs(metric, values)
    threshold = data.draw(st.sampled_from(between.ravel().tolist()))
    threshold = float(np.nextafter(threshold, data.draw(st.sampled_from([-1.0, threshold, 1e30]))))
    ends = st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))
    ranges = [tuple(sorted(data.draw(ends))) for _ in values]
    rows = np.array(data.draw(st.permutations(range(len(values)))), np.int64)
    first, last = (np.array([r[n] for r in ranges], np.int64) for n in (0, 1))
    with (
        mock.patch.object(metrics, "PAIRS_PER_CHUNK", data.draw(st.integers(1, 9))),
        mock.patch.object(metrics, "NEAR_PER_CHUNK", data.draw(st.integers(1, 9))),
    ):
        near = METRICS[metric].near(points, rows, points, first, last, threshold)
        found = [one for some in near for one in zip(*(x.tolist() for x in some), strict=True)]
    assert found == [
        (row, k, between[row, k])
        for row, (begin, end) in zip(rows.tolist(), ranges, strict=True)
        for k in range(begin, end)
        if between[row, k] <= threshold
    ]


@METRIC_NAMES
@pytest.mark.parametrize("product_from", [1, 16])
@examples(60)
@given(st.data())
def test_centers_within_bounds_and_the_nearest(
    metric: str, product_from: int, data: st.DataObject
) -> None:
    """By loops as by matrix products: no center within its bound is left out, and no more are told
    than rounding excuses; the nearest one is, as far as rounding lets one see."""
    values, centers = (
        data.draw(st.lists(NEAR_VALUES[metric], min_size=1, max_size=6)) for _ in range(2)
    )
    of, count = METRICS[metric], len(values)
    between = by_pairs(metric, [*values, *centers])[:count, count:]
    drawn = [data.draw(st.sampled_from(between[:, j].tolist())) for j in range(len(centers))]
    bounds = np.array([np.nextafter(b, data.draw(st.sampled_from([-1.0, b, 1e30]))) for b in drawn])
    a, b = (of.points([column_of(metric, points)]) for points in (values, centers))
    with mock.patch.object(metrics, "PRODUCT_FROM", product_from):
        rows, numbers = of.within(a, b, bounds)
        found, distances = of.nearest(a, b)
        error = of.cross_error(a, b)
    told = np.zeros(between.shape, np.bool_)
    told[rows, numbers] = True
    assert len(rows) == told.sum(), "a pair came twice"
    assert told[between <= bounds].all()
    slack = 3 * error + 1e-12 * (1 + between.max())
    assert not told[between > bounds + slack].any()
    chosen = between[np.arange(count), found]
    np.testing.assert_allclose(distances, chosen, rtol=0, atol=slack)
    assert (chosen <= between.min(axis=1) + slack + TEXTBOOK_SLACK.get(metric, 0.0)).all()


@METRIC_NAMES
def test_is_not_zero_for_everything(metric: str) -> None:
    a, b = ([1, 2], [5]) if metric == "jaccard" else ([1.0, 2.0], [-3.0, 4.0])
    assert by_pairs(metric, [a, b])[0, 1] > 0.1
    assert METRICS[metric].pairs(
        METRICS[metric].points([column_of(metric, [a])]), np.zeros(0, np.int64),
        METRICS[metric].points([column_of(metric, [b])]), np.zeros(0, np.int64),
    ).shape == (0,)  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "a", "b", "expected"),
    [
        ("euclidean", [1e8, 1e8], [1e8 + 3, 1e8 + 4], 5.0),
        ("euclidean", [1e8, 1.0], [1e8 + 2**-20, 1.0], 2**-20),
        ("euclidean", [], [], 0.0),
        ("manhattan", [1.0, -2.0], [-1.0, 2.0], 6.0),
        ("hamming", [1.0, 0.0, -0.0, 2.0], [1.0, -0.0, 0.0, 3.0], 0.25),
        ("hamming", [], [], 0.0),
        ("jaccard", [], [], 0.0),
        ("jaccard", [], [7], 1.0),
        ("jaccard", [1, 1, 1, 2], [2, 1], 0.0),
        ("jaccard", [3, 1, 2], [4, 3, 2], 0.5),
        ("angular", [1.0, 0.0], [0.0, 5.0], 0.5),
        ("angular", [3.0, -4.0], [30.0, -40.0], 0.0),
        ("angular", [3.0, -4.0], [-0.03, 0.04], 1.0),
        ("angular", [1e300, 1e300], [1e-300, 0.0], 0.25),
        ("angular", [5e-324, 0.0], [0.0, 5e-324], 0.5),
    ],
)
def test_cases_worked_by_hand(metric: str, a: list[float], b: list[float], expected: float) -> None:
    assert apart(metric, a, b) == pytest.approx(expected, rel=1e-15, abs=1e-16)


@pytest.mark.parametrize("angle", [1e-3, 1e-7, 1e-9, 1e-12])
@pytest.mark.parametrize("beyond", [0.0, math.pi / 2, math.pi])
def test_small_angles_keep_their_digits(angle: float, beyond: float) -> None:
    """Around 0, where the arc cosine rounds to nothing, and around a right and a straight one."""
    a, b = [1.0, 0.0], [math.cos(beyond + angle), math.sin(beyond + angle)]
    expected = (beyond + angle if beyond < math.pi else beyond - angle) / math.pi
    assert apart("angular", a, b) == pytest.approx(expected, abs=1e-16 + 4e-16 * bool(beyond))
    if not beyond:
        assert apart("angular", a, b) == pytest.approx(angle / math.pi, rel=1e-12)


# Matrix products ---------------------------------------------------------------------------------

SCALES = st.sampled_from([1.0, 1e-3, 1e-12, 1e-40, 1e15, 1e25])


def check_products(metric: str, seed: int, dimension: int, scale: float, offset: float) -> None:
    """Rows around one another at any scale, far from the origin or not; the threshold is the very
    distance of one of the pairs."""
    rng = np.random.default_rng(seed)
    b = scale * (offset + rng.normal(size=(5, dimension)))
    a = b[[0, 1, 2, 0]] + scale * rng.choice([0.0, 1e-9, 1e-3, 1.0]) * rng.normal(
        size=(4, dimension)
    )
    values = [list(row) for row in [*a, *b]]
    points = METRICS[metric].points([column_of(metric, values)])
    between = by_pairs(metric, values)[:4, 4:]
    for threshold in (0.0, *between.ravel().tolist()):
        with np.errstate(all="ignore"):
            near = METRICS[metric].maybe_near(points[:4], points[4:], threshold)
        assert near is not None
        assert near[between <= threshold].all()


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
@examples(100)
@given(st.integers(0, 2**32), st.integers(1, 40), SCALES, st.sampled_from([0.0, 1.0, 1e6]))
def test_products_rule_nothing_out_that_is_near(
    metric: str, seed: int, dimension: int, scale: float, offset: float
) -> None:
    check_products(metric, seed, dimension, scale, offset)


def test_products_of_tiny_numbers_rule_nothing_out() -> None:
    for seed in range(20):
        check_products("euclidean", seed, 16, 1e-22, 0.0)


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_products_rule_out_what_is_far(metric: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=(60, 20)).tolist()
    points = METRICS[metric].points([column_of(metric, values)])
    between = by_pairs(metric, values)
    threshold = float(np.quantile(between, 0.3))
    near = METRICS[metric].maybe_near(points, points, threshold)
    assert near is not None
    assert not near[between > 1.01 * threshold].any()


# Places on the globe ---------------------------------------------------------------------------


def great_circle_m(a: Sequence[float], b: Sequence[float]) -> float:
    """By the cross and the dot product of unit vectors, which is right everywhere."""
    (p, q), (r, s) = np.radians(a), np.radians(b)
    across = math.hypot(
        math.cos(r) * math.sin(s - q),
        math.cos(p) * math.sin(r) - math.sin(p) * math.cos(r) * math.cos(s - q),
    )
    along = math.sin(p) * math.sin(r) + math.cos(p) * math.cos(r) * math.cos(s - q)
    return EARTH_RADIUS_M * math.atan2(across, along)


HALF_WAY_M = math.pi * EARTH_RADIUS_M
DEGREE_M = HALF_WAY_M / 180


@pytest.mark.parametrize(
    ("a", "b", "expected", "slack"),
    [
        ([0.0, 179.9], [0.0, -179.9], 0.2 * DEGREE_M, 1e-6),
        ([60.0, 180.0], [60.0, -180.0], 0.0, 1e-6),
        ([90.0, 12.0], [90.0, -100.0], 0.0, 1e-6),
        ([89.0, 0.0], [89.0, 180.0], 2 * DEGREE_M, 1e-6),
        ([0.0, 0.0], [0.0, 1e-9], 1e-9 * DEGREE_M, 1e-12),
        ([0.0, 0.0], [0.0, 180.0], HALF_WAY_M, 1e-6),
        ([90.0, 0.0], [-90.0, 77.0], HALF_WAY_M, 1e-6),
        ([52.3, 13.4], [-52.3, -166.6], HALF_WAY_M, 0.5),
        ([10.0, 10.0], [-10.0, -169.0], None, 1e-4),
        ([48.8566, 2.3522], [40.7128, -74.0060], None, 1e-6),
    ],
)
def test_date_line_poles_and_antipodes(
    a: list[float], b: list[float], expected: float | None, slack: float
) -> None:
    found = apart("haversine", a, b)
    assert found == pytest.approx(great_circle_m(a, b), abs=slack)
    if expected is not None:
        assert found == pytest.approx(expected, abs=slack)


@examples(100)
@given(PLACE, PLACE)
def test_places_equal_the_great_circle(a: list[float], b: list[float]) -> None:
    expected = great_circle_m(a, b)
    slack = 0.5 if expected > HALF_WAY_M - 1000 else 1e-4
    assert apart("haversine", a, b) == pytest.approx(expected, rel=1e-12, abs=slack)


# What has no distance --------------------------------------------------------------------------

NAN, INF = math.nan, math.inf


def test_numbers_that_cannot_be_compared() -> None:
    rows = [[1.0, 2.0], [NAN, 1.0], [1.0, INF], [-INF, 0.0], [None, 1.0], [1.0], [1.0, 2.0, 3.0],
            [], None, [0.0, -0.0], [1e30, -1e30]]  # fmt: skip
    bad = [False, True, True, True, True, True, True, True, True, False, False]
    for kind in (pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.list_(pa.float32())):
        assert unfit([pa.array(rows, kind)], 2).tolist() == bad
    column = pa.array([[9.0], *rows, [NAN]], pa.list_(pa.float64()))
    assert unfit([column.slice(1, len(rows))], 2).tolist() == bad, "a slice of a column"
    whole = pa.array([[1, None], [1, 2], [1], None], pa.list_(pa.int32()))
    assert unfit([whole], 2).tolist() == [True, False, True, True]
    assert unfit([whole], None).tolist() == [True, False, False, True]


def test_numeric_columns_that_cannot_be_compared() -> None:
    x = pa.array([1.0, NAN, 2.0, None, 3.0, INF])
    y = pa.array([1, 2, None, 4, 5, 6], pa.int64())
    assert unfit([x, y], None).tolist() == [False, True, True, True, False, True]
    assert unfit([y], None).tolist() == [False, False, True, False, False, False]


def test_zero_vectors_have_no_direction() -> None:
    metric = METRICS["angular"]
    points = metric.points([column_of("angular", [[0.0, -0.0], [1.0, 0.0], [0.0, 5e-324]])])
    found = metric.unfit(points)
    assert found is not None
    assert found.tolist() == [True, False, False]
    assert METRICS["euclidean"].unfit(np.zeros((2, 2))) is None


def test_latitudes_beyond_the_poles() -> None:
    metric = METRICS["haversine"]
    places = [[90.0, 0.0], [-90.0, 400.0], [90.001, 0.0], [-91.0, 0.0], [0.0, -720.0]]
    found = metric.unfit(metric.points([column_of("haversine", places)]))
    assert found is not None
    assert found.tolist() == [False, False, True, True, False]
    in_space = metric.unfit(metric.points([column_of("haversine", [[1.0, 2.0, 3.0]])]))
    assert in_space is not None
    assert in_space.tolist() == [True]


# Columns ---------------------------------------------------------------------------------------

LISTS = [pa.list_(pa.float32()), pa.list_(pa.int8()), pa.large_list(pa.float64()),
         pa.list_(pa.decimal128(21, 2))]  # fmt: skip


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_any_numbers_are_vectors(kind: pa.DataType) -> None:
    metric = METRICS["manhattan"]
    assert metric.fits([kind])
    column = pa.array([[9, 9], [1, 2], [4, 8]], pa.list_(pa.int64())).cast(kind)
    points = metric.points([column.slice(1)])
    assert metric.cross(points, points).tolist() == [[0, 9], [9, 0]]


def test_what_fits() -> None:
    number, text, lists = pa.float32(), pa.string(), pa.list_(pa.int64())
    for name, metric in METRICS.items():
        assert metric.fits([lists])
        assert metric.fits([number, pa.int16()]) == (name != "jaccard")
        assert not metric.fits([text])
        assert not metric.fits([pa.list_(text)])
        assert not metric.fits([number, text])
        assert not metric.fits([lists, lists])
    assert not METRICS["jaccard"].fits([pa.list_(number)])


@pytest.mark.parametrize("metric", ["hamming", "manhattan"])
def test_whole_numbers_that_no_double_holds(metric: str) -> None:
    """Signatures are such numbers: equal or not is decided exactly, distances by the nearest
    double."""
    column = pa.array([[2**60 + 1], [7], [2**60]], pa.list_(pa.int64()))
    assert not unfit([column], 1).any()
    points = METRICS[metric].points([column])
    found = METRICS[metric].cross(points, points)
    assert found[0, 1] > 0.5
    assert found[0, 2] == (1.0 if metric == "hamming" else 0.0)


# Metrics of users ------------------------------------------------------------------------------


def largest_difference(a: Matrix, b: Matrix) -> Matrix:
    found: Matrix = np.abs(a - b).max(axis=1)
    return found


def squared(a: Matrix, b: Matrix) -> Matrix:
    found: Matrix = ((a - b) ** 2).sum(axis=1)
    return found


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_own_metric(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skewless.operators.similarity.metrics.PAIRS_AT_ONCE", at_once)
    metric = OwnMetric(largest_difference)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    expected = np.abs(a[:, None] - b[None]).max(axis=2)
    assert (metric.cross(a, b) == expected).all()
    rows, others = np.array([5, 0, 5]), np.array([1, 3, 1])
    assert (metric.pairs(a, rows, b, others) == expected[rows, others]).all()
    assert metric.pairs(a, rows[:0], b, others[:0]).shape == (0,)
    assert repr(metric) == "metric largest_difference"


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: 1.0,
        lambda a, b: np.abs(a - b),
        lambda a, b: np.abs(a - b).sum(axis=1)[:-1],
        lambda a, b: (a - b).sum(axis=1),
        lambda a, b: np.full(len(a), NAN),
    ],
    ids=["one number", "a matrix", "too few", "negative", "NaN"],
)
def test_what_own_metrics_may_not_give(function: Any) -> None:
    points = np.array([[1.0, 2.0], [3.0, 5.0]])
    with pytest.raises(DataError, match="one distance of at least 0 per row; for 4 rows"):
        OwnMetric(function).cross(points, points)


def test_triangles_are_checked() -> None:
    points = np.random.default_rng(2).normal(size=(100, 2))
    OwnMetric(largest_difference).check_triangles(points)
    with pytest.raises(DataError, match="squared is no metric: the way over a third value"):
        OwnMetric(squared).check_triangles(points)
    OwnMetric(squared).check_triangles(points[:2])  # two values have no third


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: np.maximum(a[:, 0] - b[:, 0], 0),
        lambda a, b: 1 + np.abs(a[:, 0] - b[:, 0]),
    ],
    ids=["one way", "far from itself"],
)
def test_symmetry_and_zero_are_checked(function: Any) -> None:
    with pytest.raises(DataError, match="symmetric, and 0 for equal values"):
        OwnMetric(function).check_triangles(np.arange(6.0).reshape(3, 2))
