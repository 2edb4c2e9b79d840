"""The demo's folder: what is written, continued, replaced and left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from skewless.cli.demo.folder import DemoFolder, Plan
from skewless.errors import CheckpointInUseError, SkewlessError
from skewless.state.files import Folder
from skewless.state.owner import CheckpointLock

PLAN = Plan(batches=2, rows=50, drift=0.0, seed=7)


def written(folder: DemoFolder, plan: Plan, *, fresh: bool = False) -> DemoFolder:
    folder.prepare(plan, fresh=fresh)
    writing = folder.write(plan)
    writing.join(60)
    assert writing.is_done and writing.error is None
    return folder


def test_the_same_plan_writes_the_same_rows(tmp_path: Path) -> None:
    one, two = (written(DemoFolder(tmp_path / name), PLAN) for name in "ab")
    for name in ("orders/0001.parquet", "tracks/0001.parquet"):
        assert pq.read_table(one.input / name).equals(pq.read_table(two.input / name))
    rows = (
        pq.read_table(one.input / "orders").num_rows,
        pq.read_table(one.input / "tracks").num_rows,
    )
    assert rows == (2 * PLAN.orders, 2 * PLAN.tracks) == (10, 90)


def test_what_is_written_is_not_written_again(tmp_path: Path) -> None:
    folder = written(DemoFolder(tmp_path), PLAN)
    inode = (folder.input / "orders" / "0000.parquet").stat().st_ino
    folder.prepare(PLAN, fresh=False)
    assert folder.write(PLAN).is_done
    assert (folder.input / "orders" / "0000.parquet").stat().st_ino == inode


def test_more_batches_continue_other_plans_do_not(tmp_path: Path) -> None:
    folder = written(DemoFolder(tmp_path), PLAN)
    first = pq.read_table(folder.input / "tracks" / "0000.parquet")
    written(folder, Plan(3, 50, 0.0, 7))
    assert pq.read_table(folder.input / "tracks" / "0000.parquet").equals(first)
    for other in (PLAN, Plan(3, 60, 0.0, 7), Plan(3, 50, 0.5, 7), Plan(3, 50, 0.0, 8)):
        with pytest.raises(SkewlessError, match="--fresh to replace it"):
            folder.prepare(other, fresh=False)


def test_fresh_deletes_what_the_demo_made(tmp_path: Path) -> None:
    folder = written(DemoFolder(tmp_path), PLAN)
    for who in ("spark", "hash", "auto"):
        place = folder.place(who)
        (place.checkpoint / "skewless").mkdir(parents=True)
        place.output.mkdir()
        (place.output / "batch-000000000000-part.parquet").touch()
    (folder.place("spark").output / "batch-000001").mkdir()
    (folder.place("spark").output / "batch-000001" / "part-0.parquet").touch()
    for file in ("notes.txt", "turns.jsonl", "story.svg", "report.html", "spark.log"):
        (tmp_path / file).touch()
    written(folder, Plan(1, 60, 0.0, 9), fresh=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.json", "input", "notes.txt"]
    assert [f.name for f in (folder.input / "orders").iterdir()] == ["0000.parquet"]


@pytest.mark.parametrize("name", ["auto/joined/mine.txt", "input/orders/mine.parquet"])
def test_fresh_deletes_nothing_else(tmp_path: Path, name: str) -> None:
    folder = written(DemoFolder(tmp_path), PLAN)
    folder.place("auto").output.mkdir(parents=True)
    (tmp_path / name).touch()
    with pytest.raises(SkewlessError, match="holds what the demo did not make"):
        folder.prepare(PLAN, fresh=True)
    assert (tmp_path / name).exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    folder.place("hash").checkpoint.mkdir(parents=True)
    for fresh in (False, True):
        with pytest.raises(SkewlessError, match="holds what the demo did not make"):
            folder.prepare(PLAN, fresh=fresh)
    assert folder.place("hash").checkpoint.exists()


@pytest.mark.parametrize("who", ["hash", "auto"])
def test_a_demo_that_runs_is_left_alone(tmp_path: Path, who: str) -> None:
    folder = written(DemoFolder(tmp_path), PLAN)
    lock = CheckpointLock(Folder(str(folder.place(who).checkpoint / "skewless")))
    lock.acquire()
    try:
        with pytest.raises(CheckpointInUseError):
            folder.prepare(PLAN, fresh=True)
    finally:
        lock.release()
    assert (folder.input / "orders" / "0000.parquet").exists()


def test_what_an_earlier_version_left_is_replaced_on_request(tmp_path: Path) -> None:
    folder = written(DemoFolder(tmp_path), PLAN)
    marker = json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))
    del marker["version"]
    (tmp_path / "demo.json").write_text(json.dumps(marker), encoding="utf-8")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "joined").mkdir()
    (tmp_path / "joined" / "batch-000000000000-part.parquet").touch()
    with pytest.raises(SkewlessError, match="another version of skewless"):
        folder.prepare(PLAN, fresh=False)
    folder.prepare(PLAN, fresh=True)
    assert [path.name for path in tmp_path.iterdir()] == ["demo.json"]
