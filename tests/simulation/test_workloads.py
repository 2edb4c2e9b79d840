"""Streams of counts: their shares, their seeds and their changes."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.errors import ArgumentError
from skewless.simulation.workloads import Given, HotKey, Stream, Zipf

SIZES = {"keys": 200, "rows_left": 40_000, "rows_right": 20_000}


def streams() -> list[Stream]:
    zipf = Zipf(**SIZES, left=1.0, right=0.5, seed=3)
    even = np.full(200, 1 / 200)
    return [zipf, HotKey.on(zipf, since=2, every=3), Given(**SIZES, of=lambda _: (even, even))]


@pytest.mark.parametrize("stream", streams(), ids=lambda s: type(s).__name__)
def test_a_batch_depends_on_seed_and_number_only(stream: Stream) -> None:
    late, again = stream.batch(5), stream.batch(5)
    assert late.left.tolist() == again.left.tolist()
    assert late.right.tolist() == again.right.tolist()
    assert late.left.tolist() != stream.batch(6).left.tolist()


@pytest.mark.parametrize("stream", streams(), ids=lambda s: type(s).__name__)
def test_shares_add_up_and_counts_follow_them(stream: Stream) -> None:
    for number in range(8):
        left, right = stream.shares(number)
        assert left.sum() == pytest.approx(1)
        assert right.sum() == pytest.approx(1)
        batch = stream.batch(number)
        assert abs(batch.left.sum() - 40_000) < 5 * 200
        assert abs(batch.right.sum() - 20_000) < 5 * 142
        assert np.abs(batch.left - 40_000 * left).max() < 6 * np.sqrt(40_000 * left.max())


def test_groups_have_an_exponent_per_side() -> None:
    left, right = Zipf(**SIZES, left=2.0, right=0.0).shares(0)
    assert left.max() == pytest.approx(0.6, abs=0.03)
    assert right.max() == pytest.approx(1 / 200)


def test_sides_share_their_hot_keys_unless_apart() -> None:
    left, right = Zipf(**SIZES, left=1.0, right=1.5).shares(0)
    assert (left.argsort() == right.argsort()).all()
    left, right = Zipf(**SIZES, left=1.0, right=1.5, apart=True).shares(0)
    assert (left.argsort() != right.argsort()).any()


def test_ranks_are_dealt_anew() -> None:
    stream = Zipf(**SIZES, reshuffled=(4,))
    shares = [stream.shares(number)[0] for number in (0, 3, 4, 9)]
    assert shares[0].tolist() == shares[1].tolist()
    assert shares[2].tolist() == shares[3].tolist()
    assert sorted(shares[0]) == sorted(shares[2])
    assert shares[0].tolist() != shares[2].tolist()


def test_a_hot_key_comes_and_moves_on() -> None:
    base = Zipf(**SIZES, left=0.0, right=0.0)
    stream = HotKey.on(base, share=0.3, since=2, every=3)
    tops = [(stream.shares(n)[0].argmax(), stream.shares(n)[0].max()) for n in range(2, 8)]
    assert stream.shares(1)[0].max() == pytest.approx(1 / 200)
    assert all(top == pytest.approx(0.3 + 0.7 / 200) for _, top in tops)
    assert len({key for key, _ in tops[:3]}) == len({key for key, _ in tops[3:]}) == 1
    assert tops[0][0] != tops[3][0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Zipf(keys=0, rows_left=1, rows_right=1),
        lambda: Zipf(**SIZES, left=-1.0),
        lambda: HotKey.on(Zipf(**SIZES), share=1.5),
        lambda: HotKey.on(Zipf(**SIZES), every=0),
    ],
)
def test_senseless_streams_are_refused(make: object) -> None:
    with pytest.raises(ArgumentError):
        make()  # type: ignore[operator]
