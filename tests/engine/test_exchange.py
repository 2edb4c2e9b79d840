"""Rows on their way through packets into segments, and what instances fetch of these."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from skewless.arrays import keys
from skewless.arrays.columns import Columns
from skewless.arrays.keys import hash_of_value
from skewless.arrays.types import HASH_MAX
from skewless.cli.inspect import hosts_table
from skewless.engine.exchange import DEALS, Homes, MergeTask, Outbox, Packet
from skewless.engine.operator import Arrival
from skewless.engine.pipeline import Pipeline
from skewless.engine.report import BatchReport
from skewless.operators.aggregate.operator import AggregateOperator
from skewless.operators.join_type import JOIN_TYPES
from skewless.operators.pair import JoinSpec
from skewless.operators.shares import shares_of
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.balancing import Auto
from skewless.placement.grouping import BatchAware, Grouping, ShuffleGrouping
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.routing import Hash
from skewless.placement.strategy import PlacementStrategy
from skewless.placement.units import slot_bounds, slot_of
from skewless.state import parts
from skewless.state.cache import SegmentCache
from skewless.state.files import Folder
from skewless.state.segments import Rows, SegmentInfo, read_segment, write_segment
from skewless.state.shares import Share
from skewless.state.stores.remote import RemoteStore
from tests.frame.kits import aggregation, band_spec, joined
from tests.frame.specs import join_spec, side_spec
from tests.frame.streams import SECOND_US, busy, schema_of
from tests.queries import PipelineRun, Streams
from tests.s3 import S3Server

SCHEMA = pa.schema({"id": pa.int64()})
HASHES = st.lists(
    st.integers(0, HASH_MAX) | st.sampled_from([0, 5, 1 << 60, HASH_MAX]), min_size=1, max_size=60
)


def rows_with(hashes: list[int]) -> Rows:
    ordered = np.array(sorted(hashes), np.uint64)
    return Rows(ordered, np.arange(len(hashes)), Columns([pa.array(range(len(hashes)))]))


def decoded(packet: Packet) -> pa.RecordBatch:
    schema = pa.schema([("0", pa.uint64()), ("1", pa.int64())])
    return pa.ipc.read_record_batch(pa.py_buffer(packet.data), schema)


@settings(deadline=None, max_examples=50)
@given(HASHES, st.integers(1, 70))
def test_every_row_is_in_one_packet_of_its_bucket(hashes: list[int], buckets: int) -> None:
    outbox = Outbox("join", "left", buckets)
    outbox.put("left", rows_with(hashes))
    found: list[int] = []
    for packet in outbox.taken():
        mine, ids = decoded(packet).columns
        low, high = slot_bounds(packet.bucket, packet.bucket, buckets)
        assert all(low <= h <= high for h in mine.to_pylist())
        assert 0 <= packet.deal < DEALS
        found += ids.to_pylist()
    assert sorted(found) == list(range(len(hashes)))
    assert outbox.taken() == []


def test_a_hot_key_is_dealt_out_by_its_share() -> None:
    outbox = Outbox("join", "left", 64)
    hashes = [7] * 5_000 + [i << 50 for i in range(5_000)]
    outbox.put("left", rows_with(hashes))
    homes = Homes({"join": ([bucket // 8 for bucket in range(64)], 8)})
    sent = Counter[int]()
    for packet in outbox.taken():
        sent[homes.place(packet)] += decoded(packet).column(0).to_pylist().count(7)
    assert [place for place, rows in sent.items() if rows > 500] == [0, 1, 2, 3], "half of all"


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_parts_hold_every_row_once(data: st.DataObject) -> None:
    hashes = np.array(sorted(data.draw(HASHES)), np.uint64)
    cells, size = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 1 << 24))
    apart = data.draw(st.lists(st.sampled_from(hashes.tolist()) | st.integers(0, HASH_MAX)))
    cuts = parts.cuts_of(hashes, size, cells, apart)
    assert all(begin < end for begin, end in cuts)
    assert [begin for begin, _ in cuts] == [0, *(end for _, end in cuts[:-1])]
    assert cuts[-1][1] == len(hashes)


@pytest.fixture
def store(s3: S3Server, cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A remote folder, with a cache of its own."""
    monkeypatch.setattr(parts, "PART_BYTES_MIN", 1)
    folder = s3.folder()
    folder.make("segments")
    return folder


@settings(deadline=None, max_examples=50)
@given(
    hashes=HASHES,
    wanted=st.lists(st.integers(0, HASH_MAX) | st.sampled_from([5]), min_size=2, max_size=2),
    apart=st.lists(st.sampled_from([0, 5, 1 << 60, HASH_MAX])),
)
def test_what_is_read_has_all_that_is_asked_for(
    hashes: list[int],
    wanted: list[int],
    apart: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = Folder(str(tmp_path_factory.mktemp("state")))
    folder.make("segments")
    rows, ends = rows_with(hashes), (min(wanted), max(wanted))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "FORCED", True)
        patch.setattr(parts, "PART_BYTES_MIN", 1)
        segment = write_segment(
            folder, "left", SCHEMA, rows, floor_us=0, level=0, batch_id=0, apart=apart
        )
        segment = SegmentInfo.from_json(json.loads(json.dumps(segment.to_json())))
        found = SegmentCache().rows(folder, segment, None, "", SCHEMA, [ends])
        whole = read_segment(folder, segment, None, SCHEMA)
    asked = {i for i, h in enumerate(sorted(hashes)) if ends[0] <= h <= ends[1]}
    assert asked <= set(found.columns[0].to_pylist())
    assert whole.columns[0].to_pylist() == list(range(len(hashes)))


def test_shares_of_those_who_work_on_it() -> None:
    own = IsolatedKey(5, "5", 0, (0, 1), (1,))
    table = Placement(2, np.array([0, 1]), (own,)).table("Auto")
    mine, other = shares_of(table)
    assert Share(5, 5, 0, 2) in mine
    assert Share(5, 5, 1, 2) in other
    rows = rows_with([1, 5, 5, 5, 9, HASH_MAX])
    split = [[share.of(rows).columns[0].to_pylist() for share in some] for some in (mine, other)]
    assert sorted(i for some in split for ids in some for i in ids) == list(range(6))


def test_packets_become_one_segment_a_side(store: Folder) -> None:
    operator = JoinOperator(joined("a", "b", "a_k", "a_t"), Hash(), 2, slots=8)
    [stream] = busy("a")
    task = Pipeline.of(operator).root.ingest("left", store)
    made = [m for n in range(3) for m in task([stream.batch(0, len(stream.rows))], n)]
    packets = [m for m in made if isinstance(m, Packet)]
    stored = list(MergeTask({"join": operator}, store)(packets))
    assert [len(arrival.runs) for arrival in stored] == [1]
    told = [m for m in made if isinstance(m, Arrival)]
    dropped = sum(sum(a.dropped.values()) for a in told)
    assert stored[0].runs[0].segment.rows == sum(a.rows for a in told) - dropped
    assert stored[0].traffic.counts["written_bytes"] == stored[0].runs[0].segment.bytes
    assert not any(a.runs for a in told)


def batch_of(
    name: str, rows: int, seed: int, hot: float = 0.0, begin_us: int = 0
) -> pa.RecordBatch:
    """Rows of many keys, of one in part; times within one second."""
    random, schema = np.random.default_rng(seed), schema_of(name)
    keys = np.where(random.random(rows) < hot, 1, random.integers(2, 1 << 40, rows))
    columns = []
    for field in schema:
        times = begin_us + np.arange(rows) * SECOND_US // rows
        values = keys if field.name == f"{name}_k" else times
        columns.append(pa.array(values).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def run_on_many_hosts(run: PipelineRun, number: int, streams: Streams) -> BatchReport:
    """A batch in which every task is taken for a host."""
    hosts = iter(f"host-{i:03d}" for i in range(1_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skewless.engine.hosts.host", lambda: next(hosts))
        patch.setattr(RemoteStore, "keep", lambda self, name, data: None)
        report = run.run_streams(number, streams).report
    assert report is not None
    return report


def fetched_by_each(report: BatchReport) -> list[int]:
    return [c["fetched_bytes"] for c in report.hosts.values() if "fetched_bytes" in c]


def written_by_all(report: BatchReport) -> int:
    return sum(c.get("written_bytes", 0) for c in report.hosts.values())


@pytest.mark.parametrize("strategy", [Hash(), Auto(floor_ms=0, noise=0, patience=1)], ids=str)
def test_each_instance_fetches_its_share(store: Folder, strategy: PlacementStrategy) -> None:
    """Every instance is taken for a host: it fetches about 1/n of what others have written."""
    n, rows = 4, 20_000
    operator = JoinOperator(joined("a", "b", "a_k", "a_t"), strategy, n, slots=64)
    run = PipelineRun(store, Pipeline.of(operator))
    for number in range(4):
        sides = [[[batch_of(side, rows, 10 * number + t)] for t in range(3)] for side in "ab"]
        report = run_on_many_hosts(run, number, sides)
        fetched = fetched_by_each(report)
        assert len(fetched) == n
        assert max(fetched) < 1.1 * written_by_all(report) / n
        assert sum(c["requests"] for c in report.hosts.values()) == 4 * n, "2 written, 2 fetched"
    again = BatchReport.from_json(json.loads(json.dumps(report.to_json())))
    assert again.hosts == report.hosts
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(hosts_table([report]))
    shown = console.export_text().splitlines()
    assert [line.split()[0] for line in shown if "host-" in line] == sorted(report.hosts)


def late_join(how: str) -> JoinSpec:
    """Rows within a second of one another, which are kept for much longer."""
    left, right = (side_spec(schema_of(n), [f"{n}_k"], f"{n}_t", late_s=100) for n in "ab")
    return replace(join_spec(left, right, -1, 1), how=JOIN_TYPES[how])


@dataclass
class Moved:
    """A join on hosts none of which has stored anything of what it works on."""

    run: PipelineRun
    cache: Path
    every: dict[str, list[pa.RecordBatch]]

    def batch(self, number: int) -> BatchReport:
        """Of rows that begin one and a half seconds after those of the batch before."""
        for side, some in self.every.items():
            seed, begin_us = number + ord(side), number * 3 * SECOND_US // 2
            some.append(batch_of(side, 20_000, seed, 0.01, begin_us))
        shutil.rmtree(self.cache, ignore_errors=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("skewless.engine.instance.CACHE", SegmentCache())
            return run_on_many_hosts(
                self.run, number, [[[some[-1]]] for some in self.every.values()]
            )


@pytest.mark.parametrize(("how", "fetched"), [("inner", 2), ("left", 2), ("left_semi", 2)])
def test_stored_rows_that_can_be_no_partners_are_not_fetched(
    store: Folder, cache_folder: Path, how: str, fetched: int
) -> None:
    """Of four batches only the last is near enough to the new one. How many rows lie in each slot
    is told all the same."""
    spec = late_join(how)
    operator = JoinOperator(spec, Hash(), instances=4, slots=16)
    moved = Moved(PipelineRun(store, Pipeline.of(operator)), cache_folder, {"a": [], "b": []})
    reports = [moved.batch(number) for number in range(5)]
    written = written_by_all(reports[-1])
    assert sum(fetched_by_each(reports[-1])) == pytest.approx(fetched * written, rel=0.05)
    every = [batch.column(0) for some in moved.every.values() for batch in some]
    hashes = np.concatenate([keys.hash_keys([column], spec.left, None) for column in every])
    slots, key_figures = reports[-1].slots, reports[-1].key_figures
    assert slots is not None and key_figures is not None
    exact = np.bincount([slot_of(h, 16) for h in hashes.tolist()], minlength=16)
    np.testing.assert_allclose(slots.stored_left + slots.stored_right, exact, rtol=0.05)
    hot = [key.value for key in reports[-1].keys].index("1")
    stored = key_figures.stored_left[hot] + key_figures.stored_right[hot]
    assert stored == pytest.approx(sum(c.to_pylist().count(1) for c in every), rel=0.1)
    a, b = (pa.Table.from_batches(some) for some in moved.every.values())
    near = f"a_k = b_k AND abs(epoch_us(a_t) - epoch_us(b_t)) <= {SECOND_US}"
    left, right = duckdb.from_arrow(a), duckdb.from_arrow(b)
    pairs = left.set_alias("a").join(right.set_alias("b"), near)
    if how == "inner":  # others emit rows besides
        assert sum(report.matches for report in reports) == len(pairs)


@pytest.mark.parametrize("how", ["inner", "left", "left_semi"])
def test_each_instance_of_a_band_join_fetches_its_share(store: Folder, how: str) -> None:
    """Rows go to the three cells that they probe, so each is written three times; but of the whole
    an instance fetches its share. Only partners of rows that are looked up may lie anywhere."""
    n, rows = 4, 20_000
    operator = JoinOperator(band_spec(how), Hash(), n, slots=64)
    run = PipelineRun(store, Pipeline.of(operator))
    for number in range(3):
        sides = [[[batch_of(side, rows, 10 * number + t)] for t in range(3)] for side in "ab"]
        report = run_on_many_hosts(run, number, sides)
        fetched, written = fetched_by_each(report), written_by_all(report)
        assert len(fetched) == n
        stored = written / 6  # of each side
        anywhere = 0.0 if how == "inner" else stored * (n - 1) / n
        assert max(fetched) < 1.1 * written / n + anywhere


@pytest.mark.parametrize("hot", [0.0, 0.6])
@pytest.mark.parametrize("grouping", [ShuffleGrouping(), BatchAware()], ids=str)
def test_each_instance_of_an_aggregation_fetches_its_rows(
    store: Folder, grouping: Grouping, hot: float
) -> None:
    n, rows = 4, 20_000
    spec = aggregation(schema_of("a"), "a_k", "a_t", "a_x")
    tasks = [[batch_of("a", rows, t, hot).select([0, 1, 2])] for t in range(3)]
    run = PipelineRun(store, Pipeline.of(AggregateOperator(spec, grouping, n)))
    report = run_on_many_hosts(run, 0, [tasks])
    arrived = 3 * rows * 8 * (1 + 3)  # a hash and three columns
    assert len(fetched_by_each(report)) == n
    assert max(fetched_by_each(report)) < 1.2 * arrived / n


def test_a_key_with_a_place_of_its_own_is_sent_there_and_read_alone(store: Folder) -> None:
    """Whoever has the range around it fetches none of its rows, and the other way round."""
    n, spec = 4, joined("a", "b", "a_k", "a_t")
    key = hash_of_value(1, spec.left)
    elsewhere = (slot_of(key, n) + 1) % n
    operator = JoinOperator(spec, Auto(pin={1: elsewhere}), n, slots=64)
    coordinators = {"join": operator.coordinator(None, store)}
    homes = Pipeline.of(operator).homes(store, coordinators, {"join": n})
    made = Pipeline.of(operator).root.ingest("left", store)([batch_of("a", 20_000, 1, 0.1)], 0)
    packets = [m for m in made if isinstance(m, Packet)]
    assert {homes.place(p) for p in packets if p.key == key} == {elsewhere}
    task = MergeTask({"join": operator}, store).by(homes)
    [arrival] = task(p for p in packets if p.bucket == slot_of(key, 64))
    [run] = arrival.runs
    alone = run.segment.parts_in([(key, key)])
    around = run.segment.parts_in([(0, key - 1), (key + 1, HASH_MAX)])
    assert alone is not None and around is not None
    assert 1_900 < sum(p.rows for p in alone) < 2_100
    assert sum(p.rows for p in around) + sum(p.rows for p in alone if p.key == key) == (
        run.segment.rows
    )
    assert not any(p.key == key for p in around)


def test_a_hot_key_is_written_by_many(store: Folder) -> None:
    """Half of all rows have one key: still no task stores much more than its share."""
    n, rows = 4, 20_000
    operator = JoinOperator(joined("a", "b", "a_k", "a_t"), Hash(), n, slots=64)
    task, homes = Pipeline.of(operator).root.ingest("left", store), Homes({
        "join": (operator.coordinator(None, store).homes(64, n), n)
    })  # fmt: skip
    made = list(task([batch_of("a", rows, 1, hot=0.5)], 0))
    sent = Counter[int]()
    for packet in (m for m in made if isinstance(m, Packet)):
        sent[homes.place(packet)] += len(packet.data)
    assert max(sent.values()) < 2 * sum(sent.values()) / n
