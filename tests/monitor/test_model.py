"""Reading checkpoints and what comes of it: against the reports themselves, by plain loops."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

import skewless as sk
from skewless.engine.report import BatchReport
from skewless.monitor import model as model_module
from skewless.monitor.model import QueryModel
from skewless.monitor.reading import CheckpointReader, Status
from skewless.monitor.views import VIEWS, Window, overview
from skewless.state.files import Folder
from tests.monitor.histories import (
    FACTS,
    Story,
    Written,
    batch_report,
    checkpoint,
    composed_checkpoint,
)
from tests.s3 import BUCKET, S3Server

STORY = Story(hot_from=4, split_after=8)


def followed(root: Path) -> QueryModel:
    model = QueryModel(CheckpointReader(str(root)))
    caught_up(model)
    return model


def caught_up(model: QueryModel) -> None:
    model.refresh()
    while model.waiting:
        model.refresh()


def view(model: QueryModel, name: str, **window: Any) -> Any:
    """What a view tells, as it goes over the wire."""
    return json.loads(json.dumps(VIEWS[name](model, Window(**window)), allow_nan=False))


def told_by(model: QueryModel, name: str, stat: str = "mean") -> list[Any]:
    found: list[Any] = view(model, "series")["columns"][name][stat]
    return found


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return checkpoint(tmp_path, STORY, 20)


# Series


def test_series_are_the_reports(written: Written) -> None:
    reports = sk.history(str(written.root))
    model = followed(written.root)
    series = view(model, "series")
    assert (series["width"], series["at"]) == (1, list(range(20)))

    def close(name: str, expected: list[Any], stat: str = "mean") -> None:
        assert told_by(model, name, stat) == pytest.approx(expected, rel=1e-4)

    close("rows", [sum(r.rows.values()) for r in reports])
    close("rows/left", [r.rows_left for r in reports])
    close("out", [r.matches for r in reports])
    close("ms", [r.duration_ms for r in reports])
    close("rate", [sum(r.rows.values()) / r.duration_ms * 1000 for r in reports])
    close("phase/ingest", [r.phases_ms["ingest"] for r in reports])
    close("state_bytes", [r.state_bytes for r in reports])
    close("busiest", [r.busiest_over_mean for r in reports])
    close("dropped/late", [r.late for r in reports], "sum")
    close("late", [r.late for r in reports], "sum")
    lags = [
        None if r.watermark_us is None else (r.latest_us - r.watermark_us) / 1e6 for r in reports
    ]
    assert told_by(model, "lag_s") == lags
    assert told_by(model, "ended_s", "max") == [r.ended_us / 1e6 for r in reports]


def test_reports_of_older_versions_have_no_times(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    for batch in range(3):
        told = batch_report(STORY, batch).to_json()
        del told["ended_us"], told["latest_us"]
        written.folder.write(f"history/{batch:012d}.json", json.dumps(told).encode())
    written.commit(2, {"join": None})
    model = followed(tmp_path)
    assert model.last_batch == 2
    assert not {"lag_s", "ended_s", "behind_s"} & set(view(model, "series")["columns"])
    assert overview(model)["row"]["rows"] > 0


def test_the_last_batches_in_few_points(tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(figures=False, instances=2), 100)
    model = followed(tmp_path)
    reports = sk.history(str(tmp_path))
    series = view(model, "series", batches=50, points=10)
    assert series["width"] == 8
    assert series["at"] == [48, 56, 64, 72, 80, 88, 96]
    durations = [r.duration_ms for r in reports]
    ms = series["columns"]["ms"]
    for i, first in enumerate(series["at"]):
        here = durations[first : first + 8]
        assert ms["max"][i] == pytest.approx(max(here), rel=1e-4)
        assert ms["min"][i] == pytest.approx(min(here), rel=1e-4)


# Heat, keys, decisions, placement, hosts


def test_heat_is_the_work_of_every_instance(written: Written) -> None:
    reports = sk.history(str(written.root))
    heat = view(followed(written.root), "heat")
    assert (heat["instances"], heat["group"]) == (8, 1)
    expected = [[r.instances[i].work_ms for r in reports] for i in range(8)]
    for line, works in zip(heat["work_ms"], expected, strict=True):
        assert line == pytest.approx(works, rel=1e-2)


def test_many_instances_share_lines_which_show_the_busiest(tmp_path: Path) -> None:
    story = Story(instances=1000, slots_each=1, figures=False, hot_from=0, split_after=10**9)
    checkpoint(tmp_path, story, 3)
    heat = view(followed(tmp_path), "heat")
    assert (heat["instances"], heat["group"], len(heat["work_ms"])) == (1000, 8, 125)
    reports = sk.history(str(tmp_path))
    for line in (0, 60, story.hot_home // 8, 124):
        works = [
            max(r.instances[i].work_ms for i in range(line * 8, line * 8 + 8)) for r in reports
        ]
        assert heat["work_ms"][line] == pytest.approx(works, rel=1e-2)


def test_instances_that_come_later_have_done_nothing_before(tmp_path: Path) -> None:
    written = Written(tmp_path).begin()
    written.write(batch_report(Story(instances=2), b) for b in range(3))
    written.run(Story(instances=4), range(3, 5))
    heat = view(followed(tmp_path), "heat")
    assert heat["instances"] == 4
    assert [v is None for v in heat["work_ms"][3]] == [True, True, True, False, False]


def test_keys_by_their_share_of_all_rows(written: Written) -> None:
    reports = sk.history(str(written.root))
    every = sum(sum(r.rows.values()) for r in reports)
    of_hot = sum(
        k.share * sum(r.rows.values()) for r in reports for k in r.heavy_keys if k.value == "42"
    )
    keys = view(followed(written.root), "keys")
    hot = keys["keys"][0]
    assert hot["key"] == "42"
    assert hot["share"] == pytest.approx(of_hot / every, rel=1e-4)
    assert (hot["now"], hot["most"], hot["since"], hot["batches"]) == (0.22, 0.22, 0, 20)
    assert (hot["instances"], hot["apart"]) == (list(STORY.sharing), True)
    assert keys["shares"][0] == [0.02] * 4 + [0.22] * 16
    assert [k["key"] for k in keys["keys"][1:]] == list(STORY.others)


def test_decisions_with_what_came_of_them(written: Written) -> None:
    reports = sk.history(str(written.root))
    told = view(followed(written.root), "decisions")
    assert [(d["batch"], d["kind"], d["accepted"]) for d in told["decisions"]] == [
        (8, "split", True), (7, "move", False), (7, "move", True),
    ]  # fmt: skip
    split = told["decisions"][0]
    ratios = [r.busiest_over_mean for r in reports]
    assert split["before"] == round(ratios[8], 2)
    assert split["after"] == round(median(ratios[9:14]), 2)
    assert split["after"] < split["before"]
    assert (split["rows"], split["reason"]) == (42_000, reports[8].decisions[0].reason)
    assert (told["kinds"], told["refused"], told["all"]) == ({"move": 1, "split": 1}, 1, 3)
    assert told["notes"] == [{"batch": 12, "note": reports[12].notes[0]}]


def test_the_picture_of_a_placement(written: Written) -> None:
    told = view(followed(written.root), "placement")
    assert (told["strategy"], told["slots"], told["instances"]) == ("Auto", 64, 8)
    assert told["slots_of"] == [8] * 8
    last = sk.history(str(written.root))[-1]
    assert last.slots is not None
    for instance in range(8):
        work = sum(last.slots.time_left_ms[instance * 8 : instance * 8 + 8])
        assert told["on_slots_ms"][instance] == pytest.approx(work, rel=1e-3)
    (own,) = told["own"]
    assert (own["key"], own["instances"], own["split"]) == ("42", list(STORY.sharing), True)
    assert own["work_ms"] == 160
    assert told["cell_instance"] == [i for i in range(8) for _ in range(8)]


def test_very_many_slots_share_cells(tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(instances=1000, slots_each=8, figures=True), 1)
    told = view(followed(tmp_path), "placement")
    assert told["slots_per_cell"] == 2
    assert len(told["cell_ms"]) == 4000
    assert sum(told["cell_ms"]) == pytest.approx(sum(told["on_slots_ms"]), rel=1e-2)


def test_operators_without_slots_have_no_picture(tmp_path: Path) -> None:
    Written(tmp_path).begin().commit(0, {"join": None})
    assert view(followed(tmp_path), "placement")["strategy"] is None


def test_bytes_of_each_host(tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(hosts=("w-1", "w-2")), 10)
    told = view(followed(tmp_path), "hosts")["hosts"]
    assert [h["host"] for h in told] == ["w-1", "w-2"]
    assert told[1]["fetched_bytes"] == pytest.approx(1_800_000 + 1_000 * 4.5)
    assert told[0]["fetched"] == [900_000 + 1_000 * b for b in range(10)]
    assert (told[0]["hits"], told[0]["misses"], told[0]["requests"]) == (90, 10, 40)
    assert not any(n.startswith("host/") for n in view(followed(tmp_path), "series")["columns"])


def test_a_composed_query_and_its_operators(tmp_path: Path) -> None:
    composed_checkpoint(tmp_path, 12)
    model, reports = followed(tmp_path), sk.history(str(tmp_path))
    assert overview(model)["operators"] == ["join-1", "aggregate-2"]
    assert overview(model)["name"] == "join-1 → aggregate-2"
    for i, name in enumerate(("join-1", "aggregate-2")):
        rows = view(model, "series", operator=name)["columns"]["rows"]["mean"]
        assert rows == pytest.approx([sum(r.operators[i].rows.values()) for r in reports], rel=1e-4)
    lower = view(model, "series", operator="join-1")["columns"]
    assert {n for n in lower if n.startswith("phase/")} == {"phase/plan", "phase/join"}
    assert view(model, "placement", operator="join-1")["slots"] == 64
    assert view(model, "placement", operator="aggregate-2")["strategy"] is None
    assert view(model, "placement")["strategy"] is None, "the last operator has none"
    assert len(view(model, "heat", operator="aggregate-2")["work_ms"]) == 4


def test_what_a_decision_changed_is_told_of_its_operator(tmp_path: Path) -> None:
    composed_checkpoint(tmp_path, 70)
    model = followed(tmp_path)
    of_all = view(model, "decisions")["decisions"][0]
    assert (of_all["subject"], of_all["before"], of_all["after"]) == ("join-1: key 42", None, None)
    own = view(model, "decisions", operator="join-1")["decisions"][0]
    assert own["subject"] == "key 42" and own["after"] < own["before"]


# Following


def test_a_checkpoint_in_a_bucket(s3: S3Server) -> None:
    """It need not lie on a disk; nothing is written there, either."""
    folder = s3.folder("ckpt/skewless")
    written = Written(Path("unused"), far=folder).begin()
    written.run(STORY, range(40))
    before = sorted(s3.keys("ckpt/"))
    location = folder.root.removesuffix("/skewless")
    model = QueryModel(CheckpointReader(location, s3.hadoop))
    caught_up(model)
    assert (model.status, model.last_batch) == (Status.HERE, 39), model.why
    assert view(model, "placement")["own"][0]["key"] == "42"
    assert sorted(s3.keys("ckpt/")) == before
    written.run(STORY, range(40, 42))
    model.refresh()
    assert model.whole.ids.tolist() == list(range(42))
    for key in s3.keys("ckpt/"):
        s3.client.delete_object(Bucket=BUCKET, Key=key)
    model.refresh()
    assert (model.status, model.last_batch) == (Status.GONE, 41)
    unreachable = QueryModel(CheckpointReader("nowhere://x/y", {}))
    unreachable.refresh()
    assert unreachable.status is Status.UNREADABLE


def test_only_what_is_new_is_read(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    model = followed(written.root)
    read: list[str] = []
    listed: list[str] = []
    monkeypatch.setattr(Folder, "read", _noting(read, Folder.read))
    monkeypatch.setattr(Folder, "list", _noting(listed, Folder.list))
    model.refresh()
    assert not [n for n in read if n.startswith("history/")] and "history" not in listed
    written.run(STORY, range(20, 22))
    model.refresh()
    assert [n for n in read if n.startswith("history/")] == [
        f"history/{b:012d}.json" for b in (20, 21)
    ]
    assert "history" not in listed
    assert not [n for n in read if n.startswith("commits/")], "no decision: the placement is known"
    assert model.last_batch == 21


def _noting(into: list[str], function: Any) -> Any:
    def noting(self: Folder, name: str = "") -> Any:
        into.append(name)
        return function(self, name)

    return noting


def test_nothing_is_written(written: Written) -> None:
    def everything() -> dict[str, tuple[bytes, int]]:
        files = (f for f in written.root.rglob("*") if f.is_file())
        return {str(f): (f.read_bytes(), f.stat().st_mtime_ns) for f in files}

    before = everything()
    model = followed(written.root)
    for name in VIEWS:
        view(model, name)
    assert everything() == before


def test_the_newest_are_read_first(tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 100)
    model = QueryModel(CheckpointReader(str(tmp_path)))
    model.refresh(budget_s=0)
    assert model.whole.ids.tolist() == list(range(68, 100))
    assert model.waiting == 68
    generation = model.generation
    written = Written(tmp_path)
    written.run(STORY, range(100, 103))
    model.refresh(budget_s=0)
    assert model.generation > generation, "what one has is not the beginning of what there is"
    ids = model.whole.ids.tolist()
    assert ids == sorted(ids) and ids[-1] == 102
    while model.waiting:
        model.refresh(budget_s=0)
    assert model.whole.ids.tolist() == list(range(103))
    at_once = followed(tmp_path)
    for name in VIEWS:
        assert view(model, name) == view(at_once, name), name


def test_reports_whose_batch_is_not_committed_are_not_shown(written: Written) -> None:
    written.write([batch_report(STORY, 20)])
    model = followed(written.root)
    assert model.last_batch == 19
    written.commit(20, {"join": STORY.placement(20)})
    model.refresh()
    assert model.last_batch == 20


def test_batches_that_were_taken_back_are_forgotten(written: Written) -> None:
    model = followed(written.root)
    written.own(2, after=14)
    for batch in range(15, 20):
        written.folder.delete(f"commits/{batch:012d}-e1.json")
    other = Story(hot_from=4, split_after=8, rows=90_000)
    written.write(batch_report(other, b) for b in range(15, 25))
    written.commit(24, {"join": other.placement(24)})
    caught_up(model)
    rows = [sum(r.rows.values()) for r in sk.history(str(written.root))]
    assert told_by(model, "rows") == pytest.approx(rows, rel=1e-4)
    assert model.whole.ids.tolist() == list(range(25))
    assert view(model, "decisions")["all"] == 3


def test_a_restart_reads_nothing_again(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    model = followed(written.root)
    read: list[str] = []
    monkeypatch.setattr(Folder, "read", _noting(read, Folder.read))
    written.own(2, after=19)
    model.refresh()
    assert not [n for n in read if n.startswith("history/")]
    assert model.last_batch == 19


def test_while_a_driver_takes_over_what_is_known_stays(written: Written) -> None:
    model = followed(written.root)
    written.own(2, after=14)
    written.folder.delete("owner/000000000002.after.json")
    model.refresh()
    assert (model.status, model.last_batch) == (Status.HERE, 19)


def test_a_checkpoint_that_goes_and_comes_back(written: Written) -> None:
    model = followed(written.root)
    away = written.root.with_name("away")
    written.root.rename(away)
    model.refresh()
    assert (model.status, model.last_batch) == (Status.GONE, 19), "what was known is still shown"
    away.rename(written.root)
    caught_up(model)
    assert (model.status, model.last_batch) == (Status.HERE, 19)
    assert model.whole.ids.tolist() == list(range(20))


def test_another_checkpoint_in_its_place(written: Written) -> None:
    model = followed(written.root)
    shutil.rmtree(written.root)
    other = Written(written.root, {**FACTS, "within": "5 minutes"}).begin("another")
    other.run(Story(rows=10), range(30))
    caught_up(model)
    assert model.facts["within"] == "5 minutes"
    assert model.whole.ids.tolist() == list(range(30))
    assert max(told_by(model, "rows")) < 20


def test_what_is_not_there_yet_comes(tmp_path: Path) -> None:
    model = followed(tmp_path / "later")
    assert (model.status, overview(model)["last_batch"]) == (Status.GONE, -1)
    for name in VIEWS:
        view(model, name)
    written = Written(tmp_path / "later").begin()
    model.refresh()
    assert (model.status, overview(model)["last_batch"]) == (Status.HERE, -1)
    for name in VIEWS:
        view(model, name)
    written.run(STORY, range(3))
    model.refresh()
    assert model.last_batch == 2


def test_what_cannot_be_read_is_said(written: Written) -> None:
    written.folder.write("query.json", b"{")
    model = followed(written.root)
    assert model.status is Status.UNREADABLE
    assert "cannot be read as a state file" in overview(model)["why"]


def test_a_look_that_fails_loses_nothing(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    model = followed(written.root)
    written.own(2, after=14)
    other = Story(hot_from=4, split_after=8, rows=90_000)
    written.write(batch_report(other, b) for b in range(15, 25))
    written.commit(24, {"join": other.placement(24)})
    with monkeypatch.context() as broken:

        def torn(self: CheckpointReader, batch_id: int) -> None:
            raise OSError("the network is down")

        broken.setattr(CheckpointReader, "_report", torn)
        model.refresh()
    assert (model.status, model.why) == (Status.UNREADABLE, "the network is down")
    assert model.last_batch == 19
    caught_up(model)
    rows = [sum(r.rows.values()) for r in sk.history(str(written.root))]
    assert told_by(model, "rows") == pytest.approx(rows, rel=1e-4)


def test_a_torn_commit_does_not_hide_where_keys_are(written: Written) -> None:
    written.commit(20, {"join": STORY.placement(20)})
    name = next(n for n in written.folder.list("commits") if n.startswith(f"{20:012d}"))
    written.folder.write(f"commits/{name}", b"{")
    model = followed(written.root)
    assert model.status is Status.HERE
    division = model.division("")
    assert division is not None and division.placement == STORY.placement(19)


def test_reports_that_are_torn_or_gone_are_left_out(written: Written) -> None:
    written.folder.write(f"history/{7:012d}.json", b'{"batch')
    written.folder.delete(f"history/{9:012d}.json")
    model = followed(written.root)
    assert model.whole.ids.tolist() == [b for b in range(20) if b not in (7, 9)]


def test_memory_is_bounded(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "BATCHES_MAX", 10)
    model = followed(written.root)
    assert model.whole.ids.tolist() == list(range(10, 20))
    assert len(model.whole.loads) == len(model.whole.keys.shares) == 10
    assert model.whole.decided == []


def test_keys_that_are_long_gone_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "BATCHES_MAX", 10)
    monkeypatch.setattr(model_module, "NAMES_MAX", 60)
    written = Written(tmp_path).begin()
    model = followed(tmp_path)
    for batch in range(60):  # four other keys in every batch
        others = tuple(f"{batch}-{i}" for i in range(4))
        written.run(Story(others=others, hot_from=0), [batch])
        model.refresh()
    assert len(model.whole.keys.names) <= 60 + 5 < 60 * 4
    reports = sk.history(str(tmp_path))[-10:]
    expected = {k.value for r in reports for k in r.heavy_keys}
    number = model.whole.keys.number
    for value in expected:
        shares = [next((k.share for k in r.heavy_keys if k.value == value), 0) for r in reports]
        assert model.whole.keys.share(number(value)).tolist() == pytest.approx(shares), value


def test_a_name_that_comes_up_later_was_nothing_before(tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 12)
    model = followed(tmp_path)
    assert told_by(model, "dropped/null keys", "sum") == [0.0] * 9 + [3.0] + [0.0] * 2


def test_the_last_report_is_of_the_last_batch(written: Written) -> None:
    model = followed(written.root)
    assert isinstance(model.whole.last, BatchReport)
    assert model.whole.last.batch_id == 19
    assert np.all(np.diff(model.whole.ids) == 1)
