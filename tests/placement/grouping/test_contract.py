"""What every grouping must do, checked for every one in the registry."""

from __future__ import annotations

import pickle
import struct
import zlib
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import ArgumentError, StateDamagedError, StateFormatError
from skewless.placement.grouping import (
    PKG,
    BatchAware,
    Dalton,
    DChoices,
    Grouping,
    KeyGrouping,
    PdStream,
    ShuffleGrouping,
    WChoices,
    home_of,
)
from skewless.placement.units import slot_bounds
from tests.placement.grouping.streams import (
    CONFIGURATIONS,
    GROUPINGS,
    INSTANCES,
    SEEDS,
    STREAMS,
    UInts,
    zipf_stream,
)
from tests.strategies import examples

every_grouping = pytest.mark.parametrize("grouping", CONFIGURATIONS, ids=repr)
EXAMPLES = 30


def test_every_grouping_is_found() -> None:
    names = {grouping.__name__ for grouping in GROUPINGS}
    assert names >= {"ShuffleGrouping", "KeyGrouping", "PKG", "DChoices", "WChoices", "DAGreedy"}
    assert names >= {"Dalton", "PdStream", "BatchAware"}
    assert "HotKeyGrouping" not in names


@every_grouping
@examples(EXAMPLES)
@given(hashes=STREAMS, instances=INSTANCES, seed=SEEDS)
def test_every_tuple_has_an_instance(
    grouping: Grouping, hashes: UInts, instances: int, seed: int
) -> None:
    grouper = grouping.build(instances, seed)
    assert (grouper.instances, grouper.seed) == (instances, seed)
    assert grouper.loads.tolist() == [0] * instances
    targets = grouper.assign(hashes)
    assert targets.dtype == np.int32
    assert targets.shape == hashes.shape
    assert set(targets.tolist()) <= set(range(instances))
    assert grouper.loads.tolist() == np.bincount(targets, minlength=instances).tolist()
    again = grouping.build(instances, seed).assign(hashes.view(np.int64))
    assert again.tolist() == targets.tolist()


@every_grouping
@examples(EXAMPLES)
@given(hashes=STREAMS, instances=INSTANCES, seed=SEEDS, cuts=st.lists(st.integers(0, 120)))
def test_a_stream_may_be_cut_and_resumed_anywhere(
    grouping: Grouping, hashes: UInts, instances: int, seed: int, cuts: list[int]
) -> None:
    pieces = np.split(hashes, sorted(min(cut, len(hashes)) for cut in cuts))
    steady, resumed = grouping.build(instances, seed), grouping.build(instances, seed)
    expected, got = [], []
    for piece in pieces:
        expected += steady.assign(piece).tolist()
        got += resumed.assign(piece).tolist()
        resumed = grouping.resume(resumed.snapshot())
    assert got == expected
    assert resumed.loads.tolist() == steady.loads.tolist()
    assert resumed.snapshot() == steady.snapshot()
    if not isinstance(grouping, BatchAware):  # which by its nature sees each batch whole
        assert grouping.build(instances, seed).assign(hashes).tolist() == expected


@every_grouping
def test_long_streams_may_be_cut_and_resumed(grouping: Grouping) -> None:
    hashes = zipf_stream(20_000, 1.2)
    steady, resumed = grouping.build(12, 5), grouping.build(12, 5)
    for piece in np.array_split(hashes, 7):
        expected = steady.assign(piece)
        assert resumed.assign(piece).tolist() == expected.tolist()
        resumed = grouping.resume(resumed.snapshot())
    assert steady.loads.sum() == len(hashes)


@every_grouping
def test_one_instance_gets_everything(grouping: Grouping) -> None:
    grouper = grouping.build(1)
    assert set(grouper.assign(zipf_stream(1000, 1.0)).tolist()) == {0}
    assert grouper.loads.tolist() == [1000]


@every_grouping
def test_no_tuples_change_nothing(grouping: Grouping) -> None:
    grouper = grouping.build(3)
    before = grouper.snapshot()
    assert grouper.assign(np.array([], np.int64)).tolist() == []
    assert grouper.snapshot() == before


@every_grouping
def test_input_may_be_read_only_or_strided_and_stays_as_it_was(grouping: Grouping) -> None:
    hashes = zipf_stream(500, 1.0)
    spread = np.repeat(hashes, 2)
    frozen = hashes.copy()
    frozen.flags.writeable = False
    expected = grouping.build(4).assign(hashes).tolist()
    assert grouping.build(4).assign(frozen).tolist() == expected
    assert grouping.build(4).assign(spread[::2]).tolist() == expected
    assert hashes.tolist() == frozen.tolist()
    assert hashes.flags.writeable


@every_grouping
def test_memory_and_loads_are_told(grouping: Grouping) -> None:
    grouper = grouping.build(16)
    before = grouper.memory_bytes
    grouper.assign(zipf_stream(5000, 1.0))
    assert grouper.memory_bytes == before >= grouper.loads.nbytes
    with pytest.raises(ValueError, match="read-only"):
        grouper.loads[0] = 1


@every_grouping
def test_configurations_are_frozen_and_comparable(grouping: Grouping) -> None:
    assert pickle.loads(pickle.dumps(grouping)) == grouping
    assert hash(grouping) == hash(pickle.loads(pickle.dumps(grouping)))
    assert grouping.__doc__
    for field in fields(grouping):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(grouping, field.name, 1)


@every_grouping
def test_damaged_snapshots_are_refused(grouping: Grouping) -> None:
    grouper = grouping.build(3)
    grouper.assign(zipf_stream(100, 1.0))
    good = grouper.snapshot()
    for place in (30, len(good) // 2, len(good) - 1):
        bad = bytearray(good)
        bad[place] ^= 1
        with pytest.raises(StateDamagedError, match=r"checksum does not fit\. Resume from"):
            grouping.resume(bytes(bad))
    for bad in (b"", b"x" * 200, good[:20], good[1:]):
        with pytest.raises(StateDamagedError, match="no snapshot of a grouper"):
            grouping.resume(bytes(bad))
    with pytest.raises(StateDamagedError, match="checksum"):
        grouping.resume(good[:-1])


def test_foreign_snapshots_are_refused() -> None:
    for mine in CONFIGURATIONS:
        snapshot = mine.build(3).snapshot()
        for other in CONFIGURATIONS:
            if other != mine:
                with pytest.raises(StateFormatError) as error:
                    other.resume(snapshot)
                assert repr(mine) in str(error.value)
                assert repr(other) in str(error.value)
                assert "build a new grouper" in str(error.value)


def test_unknown_formats_are_refused() -> None:
    snapshot = PKG().build(3).snapshot()
    begin = snapshot.index(b"\n") + 1
    newer = snapshot[:begin] + struct.pack("<I", 2) + snapshot[begin + 4 :]
    with pytest.raises(StateFormatError, match="of format 2; this version of skewless knows"):
        PKG().resume(newer)
    body = snapshot[begin + 16 :].replace(b'"loads"', b'"lodes"')
    renamed = snapshot[: begin + 4] + struct.pack("<I", zlib.crc32(body))
    with pytest.raises(StateFormatError, match="arrays are not those of this version"):
        PKG().resume(renamed + snapshot[begin + 8 : begin + 16] + body)


@pytest.mark.parametrize("instances", [0, -1, 1.5, "2", None, True, 1 << 21])
def test_what_is_no_number_of_instances_is_refused(instances: object) -> None:
    for grouping in CONFIGURATIONS:
        with pytest.raises(ArgumentError, match="`instances` must be a whole number of 1 to"):
            grouping.build(instances)


@pytest.mark.parametrize("seed", [-1, 1 << 64, 0.5, None])
def test_what_is_no_seed_is_refused(seed: object) -> None:
    with pytest.raises(ArgumentError, match="`seed` must be a whole number of 0 to"):
        PKG().build(3, seed)


@pytest.mark.parametrize("hashes", [[1.5], np.zeros((2, 2), np.int64), ["a"], np.zeros(2, "i4")])
def test_what_are_no_hashes_is_refused(hashes: object) -> None:
    with pytest.raises(ArgumentError, match="`hashes` must be a one-dimensional array of int64"):
        PKG().build(3).assign(hashes)


BAD = [
    (PdStream, "length_factor", 0),
    (PdStream, "length_factor", 1.5),
    (PdStream, "expected", 0),
    (PdStream, "expected", 1.0),
    (PdStream, "expected", "high"),
    (PdStream, "expected", True),
    (PdStream, "epsilon", -1),
    (PdStream, "epsilon", "0.1"),
    (WChoices, "threshold", 0.0),
    (WChoices, "threshold", True),
    (WChoices, "threshold", 1e-8),
    (WChoices, "counters", 0),
    (DChoices, "epsilon", 2),
    (DChoices, "refresh", 0),
    (DChoices, "threshold", float("nan")),
    (Dalton, "epsilon", 1.5),
    (Dalton, "epsilon", True),
    (Dalton, "learning_rate", 0),
    (BatchAware, "tracked", 0),
    (BatchAware, "least", 0),
    (BatchAware, "tolerance", -0.1),
]


@pytest.mark.parametrize(("grouping", "argument", "value"), BAD)
def test_bad_configurations_are_refused(
    grouping: type[Grouping], argument: str, value: object
) -> None:
    with pytest.raises(ArgumentError, match=f"`{argument}` must be a .*received"):
        grouping(**{argument: value})


def test_bounds_are_accepted_where_they_make_sense() -> None:
    assert Dalton(epsilon=0).build(4).assign(zipf_stream(50, 1.0)).shape == (50,)
    assert Dalton(epsilon=1.0).build(4).assign(zipf_stream(50, 1.0)).shape == (50,)
    assert WChoices(threshold=1e-9, counters=5).build(4).memory_bytes < 1000


def test_seeds_stand_for_different_hash_functions() -> None:
    hashes = zipf_stream(2000, 0.5)
    for grouping in [grouping() for grouping in GROUPINGS]:
        one, two = (grouping.build(7, seed).assign(hashes).tolist() for seed in (0, 1))
        assert one != two, grouping


def test_shuffle_is_even_and_key_grouping_never_splits() -> None:
    hashes = zipf_stream(1001, 1.0)
    loads = sorted(_loads(ShuffleGrouping(), hashes, 10))
    assert loads == [100] * 9 + [101]
    targets = KeyGrouping().build(10).assign(hashes)
    assert len(set(zip(hashes, targets, strict=True))) == len(set(hashes))


def _loads(grouping: Grouping, hashes: UInts, instances: int) -> list[int]:
    grouper = grouping.build(instances)
    grouper.assign(hashes)
    loads: list[int] = grouper.loads.tolist()
    return loads


@examples(100)
@given(instances=st.integers(1, 1 << 20), data=st.data())
def test_homes_are_ranges_of_hashes(instances: int, data: st.DataObject) -> None:
    instance = data.draw(st.integers(0, instances - 1))
    edges = np.array(slot_bounds(instance, instance, instances), np.uint64)
    assert home_of(edges, instances).tolist() == [instance, instance]
    assert KeyGrouping().build(instances).assign(edges).tolist() == [instance, instance]
