"""Spark's own log beside ours: a loss of power, a kill, a folder by another name."""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from skewless.cli.app import app
from skewless.state.commits import CommitLog
from skewless.state.files import Folder
from skewless.state.stores import local
from tests.spark.support import (
    FileStream,
    assert_same,
    finish,
    keyed_join,
    keyed_oracle,
    keyed_pair,
    read_parquet,
)


class Place:
    """A query on two streams, of which more files come."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._all = keyed_pair(folder / "all", batches=5)
        self._streams = [FileStream(folder / s.folder.name, s.schema) for s in self._all]
        self.checkpoint = folder / "checkpoint"

    def run(self, batches: int, checkpoint: str | None = None) -> None:
        """Work on so many more batches."""
        for every, stream in zip(self._all, self._streams, strict=True):
            have = len(stream.tables)
            stream.add(*every.tables[have : have + batches])
        joined = keyed_join(*(stream.read(self._spark) for stream in self._streams))
        writer = joined.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", checkpoint or str(self.checkpoint))
        finish(writer.start(str(self._folder / "out")))

    def logged(self, *logs: str) -> list[Path]:
        """What Spark has noted, with what Hadoop writes beside it."""
        return [p for log in logs for p in (self.checkpoint / log).rglob("*") if p.is_file()]

    def check(self) -> None:
        left, right = self._streams
        assert_same(read_parquet(self._folder / "out"), keyed_oracle(left, right))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def synced(work: Callable[[], None]) -> set[Path]:
    """Files that survive a loss of power after some work: their contents were synced, and then
    their names."""
    contents: set[Path] = set()
    names: defaultdict[Path, set[Path]] = defaultdict(set)

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            names[path] = set(path.iterdir())
        else:
            contents.add(path)

    with mock.patch.object(local, "SYNC", True), mock.patch.object(os, "fsync", fsync):
        work()
    return {path for path in contents if path in names[path.parent]}


def test_what_a_committed_batch_consists_of_survives_a_loss_of_power(place: Place) -> None:
    kept = synced(lambda: place.run(3))
    gone = [path for path in place.logged("offsets", "commits", "sources") if path not in kept]
    assert {path.name for path in gone if path.parent.name == "commits"} >= {"0", "1", "2"}
    assert not [path for path in gone if path.parent.name == "offsets"]
    for path in gone:
        path.unlink()
    place.run(2)
    place.check()


@pytest.mark.parametrize("logs", [["offsets"], ["offsets", "sources"]])
def test_a_batch_that_is_planned_anew_is_refused(place: Place, logs: list[str]) -> None:
    """A disk that does not keep its word, or a part of a checkpoint from a backup."""
    place.run(2)
    assert CommitLog(Folder.at(str(place.checkpoint / "skewless"))).read(1).plan is not None
    for path in place.logged("commits", *logs):
        if path.name in ("1", ".1.crc"):
            path.unlink()
    with pytest.raises(StreamingQueryException, match="has planned batch 1 anew"):
        place.run(1)
    asked = ["rollback", str(place.checkpoint), "--to", "0", "--yes"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    place.run(2)
    place.check()


@pytest.mark.parametrize("log", ["offsets", "commits"])
@pytest.mark.parametrize("left", [0, 4, 40])
def test_an_entry_that_was_cut_off_is_written_anew(place: Place, log: str, left: int) -> None:
    """Spark syncs nothing that it notes."""
    place.run(2)
    if log == "offsets":
        for entry in ("commits/1", f"skewless/commits/{1:012d}*", f"../out/batch-{1:012d}*"):
            for path in place.checkpoint.glob(entry):
                path.unlink()
    torn = place.checkpoint / log / "1"
    torn.write_bytes(torn.read_bytes()[:left])
    (torn.parent / ".1.crc").unlink(missing_ok=True)
    place.run(2)
    place.check()


def test_killed_while_spark_noted_the_first_batch(place: Place) -> None:
    """Spark refuses to begin where there is a file in its log, whatever it is."""
    for log in ("offsets", "commits"):
        (place.checkpoint / log).mkdir(parents=True)
        (place.checkpoint / log / f".0.{uuid.uuid4()}.tmp").write_text("v1")
        (place.checkpoint / log / f"..0.{uuid.uuid4()}.tmp.crc").write_text("crc")
    place.run(5)
    place.check()


def test_a_relative_checkpoint_lies_where_the_program_is(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not where it was when the session was begun: there Spark would put its part of it."""
    place.checkpoint.mkdir()
    monkeypatch.chdir(place.checkpoint.parent)
    place.run(2, checkpoint="checkpoint")
    assert place.logged("offsets") and place.logged("skewless/commits")
    monkeypatch.chdir("/")
    place.run(2)
    place.check()
