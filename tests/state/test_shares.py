"""Rewriting where fetching costs: in pieces that are the same rows, whoever works on what."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.arrays.columns import Columns
from skewless.arrays.types import HASH_MAX
from skewless.state import parts
from skewless.state.cache import SegmentCache
from skewless.state.commits import CUT, FORMAT, Commit, OperatorState
from skewless.state.compaction import Portion, choose_compactions
from skewless.state.files import Folder
from skewless.state.rewriting import Compaction, Layout, rewrite
from skewless.state.segment_set import Rewriting, SegmentSet
from skewless.state.segments import Rows, SegmentInfo, read_segment, write_segment
from skewless.state.shares import Share, Shares, even_shares

SCHEMA = pa.schema({"id": pa.int64()})
# Some have the same leading bits, some are the same.
HASH = st.integers(0, HASH_MAX) | st.sampled_from([0, 5, 6, 1 << 60, (1 << 60) + 1, HASH_MAX])
HASHES = st.lists(HASH, min_size=1, max_size=30)
SOURCES = st.lists(HASHES, min_size=1, max_size=3) | st.integers(2, 9).flatmap(
    lambda rows: st.lists(st.lists(HASH, min_size=rows, max_size=rows), min_size=2, max_size=3)
)  # those that are equally large, too


def stored(folder: Folder, hashes: list[int], first: int = 0) -> SegmentInfo:
    folder.make("segments")
    ids = np.arange(first, first + len(hashes))
    rows = Rows(np.array(sorted(hashes), np.uint64), ids, Columns([pa.array(ids)]))
    return write_segment(folder, "left", SCHEMA, rows, floor_us=0, level=0, batch_id=0)


@st.composite
def tables(draw: st.DrawFn) -> Shares:
    """Who works on what: ranges of one instance each, or of all."""
    instances = draw(st.integers(1, 3))
    cuts = sorted({0, HASH_MAX + 1, *draw(st.lists(HASH, max_size=5))})
    found: list[list[Share]] = [[] for _ in range(instances)]
    for low, after in pairwise(cuts):
        one = draw(st.integers(0, instances))
        if one < instances:
            found[one].append(Share(low, after - 1))
            continue
        for part, mine in enumerate(found):
            mine.append(Share(low, after - 1, part, instances))
    return tuple(map(tuple, found))


def rewritten(
    folder: Folder, portion: Portion, shares: Shares | None, instances: int
) -> list[SegmentInfo]:
    """What all instances make of a portion, each of what it has said that it reads."""
    layouts = {"left": Layout(SCHEMA, None)}
    compaction = Compaction((portion,), layouts, {"left": -1}, shares=shares)
    found: list[SegmentInfo] = []
    for instance in range(instances):
        wanted = compaction.reads(instance).get("left")

        def read(segment: SegmentInfo, wanted: object = wanted) -> Rows:
            return SegmentCache().rows(folder, segment, None, "", SCHEMA, wanted)  # type: ignore[arg-type]

        found += rewrite(folder, compaction, (instance, instances), 1, read)
    return found


def ids_of(folder: Folder, segments: list[SegmentInfo]) -> list[int]:
    rows = (read_segment(folder, segment, None, SCHEMA) for segment in segments)
    return sorted(i for some in rows for i in some.columns[0].to_pylist())


@pytest.mark.parametrize("begun", ["by hash", "by rows"])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_every_row_is_written_once_whoever_works_on_what(
    begun: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tables and the order of segments change from batch to batch; a checkpoint may be moved to
    another kind of store."""
    folder = Folder(str(tmp_path_factory.mktemp("state")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "FORCED", True)
        patch.setattr(parts, "PART_BYTES_MIN", 1)
        lists = data.draw(SOURCES)
        sources = [stored(folder, some, 100 * n) for n, some in enumerate(lists)]
        pieces = data.draw(st.integers(1, 6))
        ranges = even_shares(sources, pieces) if begun == "by hash" else ()
        rewriting = Rewriting(
            "left", 0, (0,), len(ranges) or pieces, data.draw(st.integers(1, 3)), 0, SegmentSet(),
            ranges,
        )  # fmt: skip
        while rewriting.done < rewriting.pieces:
            told = Rewriting.from_json(folder, rewriting.to_json())
            some = SegmentSet(data.draw(st.permutations(sources)), (), [told])
            [portion] = choose_compactions(some, 1)
            shares = data.draw(st.none() | tables())
            instances = 2 if shares is None else len(shares)
            rewriting = portion.after(rewritten(folder, portion, shares, instances))
        assert ids_of(folder, list(rewriting.written)) == ids_of(folder, sources)


def test_what_older_versions_have_begun_begins_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """They cut by whichever of the largest segments came first, which differed between batches."""
    folder = Folder(str(tmp_path_factory.mktemp("state")))
    sources = [stored(folder, [1, 2, 3]), stored(folder, [4, 5, 6], 10)]
    half = stored(folder, [1, 2, 3], 20)
    told = Rewriting("left", 0, (0,), 4, 2, 2, SegmentSet([half])).to_json()
    del told["cut_by"]
    begun = Rewriting.from_json(folder, told)
    assert (begun.done, list(begun.written)) == (0, [])
    [portion] = choose_compactions(SegmentSet(sources, (), [begun]), 1)
    assert portion.rewriting.cut_by in {s.name for s in sources}


def test_versions_that_cut_otherwise_must_not_go_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    under_way = Rewriting("left", 0, (0,), 4, 2, 2, SegmentSet(), cut_by="segments/x")
    by_hash = Rewriting("left", 0, (0,), 1, 1, 0, SegmentSet(), (Share(0, HASH_MAX),))
    for rewritings, form in (([under_way], CUT), ([by_hash], FORMAT), ([], FORMAT)):
        state = OperatorState(0, {}, SegmentSet((), (), rewritings))
        assert Commit(0, {"join": state}).form == form
    assert "cut_by" not in by_hash.to_json(), "an unknown field would stop versions that can go on"


def test_pieces_are_even_also_of_one_key(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FORCED", True)
    monkeypatch.setattr(parts, "PART_BYTES_MIN", 1 << 10)
    folder = Folder(str(tmp_path_factory.mktemp("state")))
    many = np.random.default_rng(1).integers(0, HASH_MAX, 4_000, np.uint64, endpoint=True).tolist()
    sources = [stored(folder, [*many, *[7 << 60] * 4_000])]
    rows = read_segment(folder, sources[0], None, SCHEMA)
    sizes = [len(piece.of(rows)) for piece in even_shares(sources, 8)]
    assert sum(sizes) == 8_000
    assert 8 <= len(sizes) <= 12
    assert max(sizes) <= 1_400


def test_only_what_is_rewritten_now_is_read() -> None:
    pieces = (Share(0, 99), Share(100, 199), Share(200, HASH_MAX))
    rewriting = Rewriting("left", 0, (0,), 3, 1, 1, SegmentSet(), pieces)
    mine = ((Share(50, 120), Share(190, 300)), (Share(121, 189),))
    compaction = Compaction((Portion(rewriting, ()),), {}, {}, shares=mine)
    assert compaction.reads(0) == {"left": [(100, 120), (190, 199)]}
    assert compaction.reads(1) == {"left": [(121, 189)]}
    of_one_key = Rewriting("left", 0, (0,), 3, 1, 1, SegmentSet(), (Share(100, 199, 1, 3),) * 3)
    compaction = Compaction((Portion(of_one_key, ()),), {}, {}, shares=mine)
    assert compaction.reads(1) == {"left": [(100, 199)]}, "to know where rows lie"
