"""State folders that cannot be used: full, read-only, damaged, of another query, in use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless as sk
from skewless.errors import (
    CheckpointInUseError,
    CheckpointMismatchError,
    StateAccessError,
    StateDamagedError,
    StateError,
    StateFormatError,
)
from skewless.state.commits import CUT, FORMAT
from tests.crashes import alter
from tests.spark.support import (
    FileStream,
    assert_same,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    read_parquet,
    run,
)

Pair = tuple[FileStream, FileStream]


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pair]:
    """A query that has run some batches."""
    folder = tmp_path_factory.mktemp("finished")
    pair = keyed_pair(folder / "streams", batches=3)
    run(keyed_join(pair[0].read(spark), pair[1].read(spark)), folder)
    return folder, pair


@pytest.fixture
def again(spark: SparkSession, tmp_path: Path, finished: tuple[Path, Pair]) -> sk.Joined:
    """The same join, with a copy of the finished query's folders to continue from."""
    folder, (left, right) = finished
    for name in ("checkpoint", "out"):
        shutil.copytree(folder / name, tmp_path / name)
    return keyed_join(left.read(spark), right.read(spark))


def test_the_copy_can_be_continued(again: sk.Joined, tmp_path: Path, finished: Any) -> None:
    assert_same(read_parquet(run(again, tmp_path)), keyed_oracle(*finished[1]))


# Damage ----------------------------------------------------------------------------------------


def some_segment(folder: Path) -> Path:
    last = sorted((folder / "checkpoint" / "skewless" / "commits").iterdir())[-1]
    listed = json.loads(last.read_text())["content"]["operators"]["join"]["segments"]
    return folder / "checkpoint" / "skewless" / listed[0]["name"]


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 8)


def empty(file: Path) -> None:
    os.truncate(file, 0)


@pytest.mark.parametrize("damage", [truncate, empty, alter, Path.unlink])
def test_damaged_segment(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """That a file is missing is found at once; what is in it, by the first task that reads it."""
    left, right = keyed_pair(tmp_path, batches=1)
    joined = keyed_join(left.read(spark), right.read(spark))
    run(joined, tmp_path)
    segment = some_segment(tmp_path)
    damage(segment)
    left.add(*left.tables[:1])
    with pytest.raises((StateDamagedError, StreamingQueryException)) as caught:
        run(joined, tmp_path)
    assert isinstance(caught.value, StateDamagedError) == (damage is Path.unlink)
    told = str(caught.value)
    assert str(segment) in told
    assert ("missing" if damage is Path.unlink else "truncated or altered") in told
    assert "new checkpointLocation" in told


def last_commit(folder: Path) -> Path:
    return sorted((folder / "checkpoint" / "skewless" / "commits").iterdir())[-1]


def query_file(folder: Path) -> Path:
    return folder / "checkpoint" / "skewless" / "query.json"


@pytest.mark.parametrize("damage", [truncate, empty, alter])
def test_damaged_commit(again: sk.Joined, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Spark has committed that batch and does not repeat it: people have to decide."""
    file = last_commit(tmp_path)
    damage(file)
    with pytest.raises(StateDamagedError) as caught:
        run(again, tmp_path)
    assert str(file) in str(caught.value)
    assert "new checkpointLocation" in str(caught.value)
    assert f"skewless rollback {tmp_path / 'checkpoint'} --to" in str(caught.value)


@pytest.mark.quick(1)
@pytest.mark.parametrize("damage", [truncate, empty, alter])
def test_damaged_commit_that_spark_repeats(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """As after a loss of power on a disk that does not keep its word."""
    left, right = keyed_pair(tmp_path, batches=3)
    joined = keyed_join(left.read(spark), right.read(spark))
    run(joined, tmp_path)
    file = last_commit(tmp_path)
    damage(file)
    for name in ("2", ".2.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    shown = list((tmp_path / "out").glob(f"batch-{2:012d}-*"))
    assert shown
    with pytest.raises(StateDamagedError, match="Files of batch 2 are shown already"):
        run(joined, tmp_path)
    for output in shown:
        output.unlink()
    checkpoint = str(tmp_path / "checkpoint")
    assert [report.batch_id for report in sk.history(checkpoint)] == [0, 1]
    (operator,) = sk.explain(joined, checkpoint=checkpoint).operators
    assert operator.state_rows == sk.history(checkpoint)[-1].state_rows
    assert_same(read_parquet(run(joined, tmp_path)), keyed_oracle(left, right))


@pytest.mark.parametrize("damage", [truncate, empty, alter])
def test_damaged_note_of_the_query(
    again: sk.Joined, tmp_path: Path, finished: tuple[Path, Pair], damage: Callable[[Path], None]
) -> None:
    """Its commits say the same: it is written again."""
    file = query_file(tmp_path)
    before = file.read_text()
    damage(file)
    assert_same(read_parquet(run(again, tmp_path)), keyed_oracle(*finished[1]))
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("file_of", "known"), [(last_commit, "formats 2, 3 and 4"), (query_file, "format 2")]
)
@pytest.mark.parametrize(
    ("number", "advice"),
    [(CUT + 1, "or a newer one"), (FORMAT - 1, "Start with a new checkpointLocation")],
    ids=["newer", "older"],
)
def test_another_format(
    again: sk.Joined,
    tmp_path: Path,
    file_of: Callable[[Path], Path],
    known: str,
    number: int,
    advice: str,
) -> None:
    """Known by its number alone: the rest of it may look like anything."""
    file = file_of(tmp_path)
    content = {"all": "new"}
    body = json.dumps(content, separators=(",", ":"))
    outer = {"format": number, "crc32": zlib.crc32(body.encode()), "content": content}
    file.write_text(json.dumps(outer))
    with pytest.raises(StateFormatError) as caught:
        run(again, tmp_path)
    assert str(file) in str(caught.value)
    assert f"is of format {number}" in str(caught.value)
    assert f"knows {known}." in str(caught.value)
    assert advice in str(caught.value)


def remove_state(checkpoint: Path, backup: Path) -> None:
    shutil.rmtree(checkpoint / "skewless")


def restore_older_state(checkpoint: Path, backup: Path) -> None:
    shutil.rmtree(checkpoint / "skewless")
    shutil.copytree(backup / "skewless", checkpoint / "skewless")


def remove_log(checkpoint: Path, backup: Path) -> None:
    for name in ("offsets", "commits", "sources"):
        shutil.rmtree(checkpoint / name)


def restore_older_log(checkpoint: Path, backup: Path) -> None:
    for name in ("offsets", "commits", "sources"):
        shutil.rmtree(checkpoint / name)
        shutil.copytree(backup / name, checkpoint / name)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "change", [remove_state, restore_older_state, remove_log, restore_older_log]
)
def test_state_and_log_of_different_times(
    spark: SparkSession, tmp_path: Path, change: Callable[[Path, Path], None]
) -> None:
    """Spark's log and the state fit together or the query refuses to go on: anything else would
    lose matches without a word."""
    left, right = keyed_pair(tmp_path, batches=1)
    joined = keyed_join(left.read(spark), right.read(spark))
    run(joined, tmp_path)
    checkpoint, backup = tmp_path / "checkpoint", tmp_path / "backup"
    shutil.copytree(checkpoint, backup)
    left.add(*left.tables * 2)
    run(joined, tmp_path)
    change(checkpoint, backup)
    left.add(*left.tables[:1])
    with pytest.raises(StreamingQueryException) as caught:
        run(joined, tmp_path, **{"skewless.existing": "append"})  # which does not help
    assert "StateDamagedError: Spark's log is at batch" in str(caught.value)
    assert str(checkpoint / "skewless") in str(caught.value)
    assert "new checkpointLocation" in str(caught.value)


# Access ----------------------------------------------------------------------------------------


def test_checkpoint_that_is_a_file(again: sk.Joined, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "checkpoint").write_text("I was here first")
    with pytest.raises(StateAccessError) as caught:
        run(again, tmp_path)
    assert str(tmp_path / "checkpoint") in str(caught.value)
    assert "checkpointLocation that this user may write to" in str(caught.value)
    assert (tmp_path / "checkpoint").read_text() == "I was here first"


def mount(folder: Path, options: str) -> None:
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("only root may mount a file system")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, 1 MiB large."""
    folder = tmp_path / "disk"
    mount(folder, "size=1m")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=20)


def start_on(disk: Path, joined: sk.Joined, out: Path) -> None:
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(disk / "checkpoint"))
    assert writer.start(str(out)).awaitTermination(120)


def fill(disk: Path, leave: int = 0) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    if leave:
        os.truncate(filler, filler.stat().st_size - leave)
    return filler


def test_disk_that_is_full_from_the_start(
    spark: SparkSession, tmp_path: Path, disk: Path, finished: tuple[Path, Pair]
) -> None:
    left, right = finished[1]
    joined = keyed_join(left.read(spark), right.read(spark))
    (disk / "checkpoint" / "skewless").mkdir(parents=True)
    fill(disk)
    with pytest.raises(StateAccessError) as caught:
        start_on(disk, joined, tmp_path / "out")
    assert str(disk / "checkpoint" / "skewless") in str(caught.value)
    assert "disk" in str(caught.value)


def test_disk_that_becomes_full(
    spark: SparkSession, tmp_path: Path, disk: Path, finished: tuple[Path, Pair]
) -> None:
    """The query stops with a clear word, and goes on where it was when there is room again."""
    left, right = finished[1]
    big = keyed_join(
        left.read(spark).withColumn("load", F.expr("repeat(cast(uuid() as string), 400)")),
        right.read(spark),
    )
    (disk / "checkpoint").mkdir()
    with pytest.raises(StreamingQueryException) as caught:
        start_on(disk, big, tmp_path / "out")
    told = str(caught.value)
    assert "StateAccessError: cannot write" in told
    assert str(disk / "checkpoint" / "skewless") in told
    assert "Free or enlarge the disk" in told
    assert "No space left on device" in told
    remount = ["mount", "-o", "remount,size=64m", str(disk)]
    subprocess.run(remount, check=True, timeout=20)
    start_on(disk, big, tmp_path / "out")
    found = spark.read.parquet(str(tmp_path / "out")).drop("load")
    expected = keyed_oracle(left, right)
    assert found.count() == expected.total()
    assert {tuple(r) for r in found.select("a", "b").collect()} == {(r[2], r[4]) for r in expected}


def test_disk_that_is_read_only(
    spark: SparkSession, tmp_path: Path, disk: Path, finished: tuple[Path, Pair]
) -> None:
    left, right = finished[1]
    joined = keyed_join(left.read(spark), right.read(spark))
    (disk / "checkpoint" / "skewless").mkdir(parents=True)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, timeout=20)
    with pytest.raises(StateAccessError) as caught:
        start_on(disk, joined, tmp_path / "out")
    assert str(disk / "checkpoint" / "skewless") in str(caught.value)
    assert "Read-only file system" in str(caught.value)


# Other queries ---------------------------------------------------------------------------------

OTHERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "keys": ({"on": ("a", "k")}, ("left keys", "'k as int64'", "'a as int64'")),
    "band": ({"on": sk.band("k", "k", 1)}, ("left keys", "right keys", "± 1")),
    "unbounded": ({"within": sk.UNBOUNDED}, ("within", "-4 seconds to 4 seconds", "unbounded")),
    "type": ({"how": "left"}, ("how", "'left'")),
    "time": ({"left_time": "later"}, ("left time", "'at'", "'later'")),
}


@pytest.mark.parametrize(("changed", "told"), OTHERS.values(), ids=OTHERS.keys())
def test_checkpoint_of_another_query(
    spark: SparkSession,
    tmp_path: Path,
    changed: dict[str, Any],
    told: tuple[str, ...],
    finished: tuple[Path, Pair],
) -> None:
    folder, (left, right) = finished
    shutil.copytree(folder / "checkpoint", tmp_path / "checkpoint")
    before = left.read(spark)
    if "left_time" in changed:
        before = before.withColumn("later", F.col("at"))
    arguments: dict[str, Any] = {
        "on": "k",
        "left_time": "at",
        "right_time": "seen",
        "within": "4 seconds",
        "late": "10 seconds",
    }
    other = sk.join(before, right.read(spark), **(arguments | changed))
    with pytest.raises(CheckpointMismatchError) as caught:
        run(other, tmp_path)
    for part in ("belongs to another query", str(tmp_path / "checkpoint"), *told):
        assert part in str(caught.value)


def test_columns_of_another_query(
    spark: SparkSession, tmp_path: Path, finished: tuple[Path, Pair]
) -> None:
    folder, (left, right) = finished
    shutil.copytree(folder / "checkpoint", tmp_path / "checkpoint")
    other = keyed_join(left.read(spark), right.read(spark).withColumn("b", F.expr("string(b)")))
    with pytest.raises(CheckpointMismatchError) as caught:
        run(other, tmp_path)
    assert "right columns" in str(caught.value)
    assert "b int64" in str(caught.value)
    assert "b string" in str(caught.value)
    assert "left columns" not in str(caught.value)


def test_two_queries_in_one_process(
    spark: SparkSession, tmp_path: Path, finished: tuple[Path, Pair]
) -> None:
    left, right = finished[1]
    joined = keyed_join(left.read(spark), right.read(spark))
    checkpoint = str(tmp_path / "checkpoint")
    writer = joined.writeStream.format("noop").option("checkpointLocation", checkpoint)
    running = writer.start()
    try:
        with pytest.raises(CheckpointInUseError) as caught:
            run(joined, tmp_path)
    finally:
        running.stop()
    assert f"process {os.getpid()}" in str(caught.value)
    assert checkpoint in str(caught.value)
    run(joined, tmp_path)


HOLD = """
import sys
from skewless.state.owner import CheckpointLock
from skewless.state.files import Folder
CheckpointLock(Folder(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_two_queries_in_two_processes(again: sk.Joined, tmp_path: Path, finished: Any) -> None:
    state = str(tmp_path / "checkpoint" / "skewless")
    command = [sys.executable, "-c", HOLD, state]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(CheckpointInUseError) as caught:
            run(again, tmp_path)
        assert f"process {other.pid}" in str(caught.value)
        other.kill()
    assert_same(read_parquet(run(again, tmp_path)), keyed_oracle(*finished[1]))


def test_history_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(StateError) as caught:
        sk.history(str(tmp_path / "nowhere"))
    assert "is not the checkpoint of a skewless query" in str(caught.value)
    assert str(tmp_path / "nowhere") in str(caught.value)
