"""Queries on stores, as Spark names and reaches them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.errors import ArgumentError, StateAccessError
from skewless.spark.stores import Stores, as_spark_names
from skewless.state.files import Folder
from tests.s3 import SECRET, S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHILD = Path(__file__).with_name("s3_child.py")
TEXTS = ["plain", "a/b", "a b", "ü-é", "100%", "a%2Fb", "x=y", "#?&+", None]


@pytest.fixture
def conf(spark: SparkSession) -> SparkSession:
    """A session of its own settings."""
    return spark.newSession()


def test_settings_are_those_of_the_session(conf: SparkSession) -> None:
    conf.conf.set("fs.s3a.access.key", "id")
    conf.conf.set("fs.s3a.secret.key", SECRET)
    conf.conf.set("fs.s3a.bucket.box.endpoint", "http://10.0.0.1")
    folder = Stores.of(conf).state_folder("s3a://box/ckpt", "/local/out")
    assert folder.root == "s3://box/ckpt/skewless"
    assert folder.settings.get("fs.s3a.secret.key") == SECRET
    assert folder.settings.get("fs.s3a.bucket.box.endpoint") == "http://10.0.0.1"
    assert SECRET not in repr(folder)


def test_options_come_before_the_session(conf: SparkSession) -> None:
    conf.conf.set("fs.s3a.access.key", "of the session")
    stores = Stores.of(conf, {"skewless.store.fs.s3a.access.key": "mine", "path": "x"})
    folder = stores.folder("s3://box/x")
    assert folder.settings.get("fs.s3a.access.key") == "mine"


@pytest.mark.parametrize("location", ["out", "./out", "../out", "~/out"])
def test_a_server_opens_no_relative_path(location: str) -> None:
    """Under Spark Connect; half of the state would lie at the client."""
    with pytest.raises(ArgumentError, match="whose working folder is another") as caught:
        Stores({}.get, elsewhere=True).state_folder(location)
    assert caught.value.argument == "checkpointLocation"
    with pytest.raises(ArgumentError, match=r"such as file:///data/ckpt"):
        Stores({}.get, elsewhere=True).state_folder(f"file:{location}")
    assert Stores({}.get, elsewhere=True).locate("path", "/out") == "/out"
    assert Stores({}.get, elsewhere=True).locate("path", "file:/out") == "/out"


def test_the_default_file_system_holds_for_paths(conf: SparkSession) -> None:
    assert Stores.of(conf).locate("path", "/out") == "/out"
    conf.conf.set("fs.defaultFS", "s3a://box")
    assert Stores.of(conf).locate("path", "/out/") == "s3://box/out"
    assert Stores.of(conf).locate("path", "file:/out") == "/out"
    with pytest.raises(ArgumentError, match=r"`path` must be a URI or an absolute path"):
        Stores.of(conf).locate("path", "out")


def test_a_default_file_system_that_is_no_store_is_told() -> None:
    for default in ("abfss://noat", "oss://box"):
        stores = Stores({"fs.defaultFS": default}.get)
        with pytest.raises(ArgumentError, match=rf"`checkpointLocation` must .*'{default}/ckpt'"):
            stores.state_folder("/ckpt")


@pytest.mark.parametrize(
    ("location", "accepted"),
    [
        ("file://name/ckpt", "file:///data/ckpt"),
        ("file://localhost/ckpt", "file:///data/ckpt"),
        ("abfss://noat/ckpt", "abfss://container@account"),
        ("a:b/ckpt", "a path that Spark takes for one"),
        ("s3a:x", "scheme://bucket/folder"),
    ],
)
def test_a_location_that_means_nothing_is_refused_before_anything_is_made(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    location: str, accepted: str,
) -> None:  # fmt: skip
    import skewless as sk

    monkeypatch.chdir(tmp_path)
    rows = spark.readStream.format("rate").load()
    result = sk.deduplicate(rows, "value", time="timestamp", within="1 minute")
    for argument, checkpoint, out in (
        ("checkpointLocation", location, "out"),
        ("path", "ckpt", location),
    ):
        writer = result.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        with pytest.raises(ArgumentError, match=accepted) as caught:
            writer.start(out)
        assert (caught.value.argument, caught.value.received) == (argument, location)
    with pytest.raises(ArgumentError, match=accepted):
        sk.DeadLetters(location)
    with pytest.raises(ArgumentError, match=rf"`checkpoint` must be .*{accepted}"):
        sk.history(location)
    assert list(tmp_path.iterdir()) == []


def test_what_spark_is_told() -> None:
    local, remote = Folder("/data/ckpt/skewless"), Folder("s3://box/ckpt/skewless")
    assert as_spark_names(local, "/data/ckpt") == "file:///data/ckpt/skewless"
    assert as_spark_names(local, "file:/data/ckpt") == "file:///data/ckpt/skewless"
    assert as_spark_names(remote, "s3a://box/ckpt/") == "s3a://box/ckpt/skewless"
    assert as_spark_names(remote, "/ckpt") == "/ckpt/skewless"
    assert as_spark_names(Folder("/dbfs/c/skewless"), "dbfs:/c") == "dbfs:/c/skewless"
    volumes = "/Volumes/a/b/c"
    assert as_spark_names(Folder(f"{volumes}/skewless"), volumes) == f"{volumes}/skewless"


def test_a_store_that_cannot_be_opened_is_named_before_any_job(
    spark: SparkSession, s3: S3Server
) -> None:
    import skewless as sk

    rows = spark.readStream.format("rate").load()
    result = sk.deduplicate(rows, "value", time="timestamp", within="1 minute")
    writer = result.writeStream.format("noop")
    with pytest.raises(ArgumentError, match=r"`checkpointLocation` must be .*'ftp://x/y'"):
        writer.option("checkpointLocation", "ftp://x/y").start()
    writer.option("checkpointLocation", "s3a://nowhere/x")
    for name, value in s3.hadoop.items():
        writer.option(f"skewless.store.{name}", value)
    named = "checkpointLocation='s3a://nowhere/x': cannot store a file in s3://nowhere/x/skewless"
    with pytest.raises(StateAccessError, match=named) as told:
        writer.start()
    assert SECRET not in str(told.value)
    with pytest.raises(ArgumentError, match=r"skewless.store.fs"):
        writer.option("skewless.store", "x")


def written(folder: Path, part: int, rows: int = 60) -> None:
    """One more file of each side."""
    rng = random.Random(part)
    for side in ("left", "right"):
        (folder / side).mkdir(parents=True, exist_ok=True)
        start = datetime(2026, 1, 1) + timedelta(seconds=30 * part)
        table = pa.table({
            "k": pa.array([rng.choice([1, 1, rng.randrange(20)]) for _ in range(rows)], pa.int32()),
            f"{side}_id": pa.array(range(part * rows, part * rows + rows), pa.int32()),
            "at": pa.array([start + timedelta(seconds=rng.randrange(60)) for _ in range(rows)],
                           pa.timestamp("us", "UTC")),
            "text": pa.array([rng.choice(TEXTS) for _ in range(rows)]),
        })  # fmt: skip
        pq.write_table(table, folder / side / f"{part:03d}.parquet")


ORACLE = """
SELECT l.k, left_id, right_id, l.text FROM '{0}/left/*.parquet' l JOIN '{0}/right/*.parquet' r
ON l.k = r.k AND abs(epoch_us(l.at) - epoch_us(r.at)) <= 10000000
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_checkpoint_and_output_on_s3(s3: S3Server, tmp_path: Path) -> None:
    """A query that is started twice, with rows that meet across; jars are fetched once."""
    prefix = s3.folder().root.replace("s3:", "s3a:").replace(" ", "-")
    given = {
        "input": str(tmp_path / "input"),
        "checkpoint": f"{prefix}/ckpt",
        "output": f"{prefix}/out",
        "hadoop": json.dumps(s3.hadoop),
        "found": str(tmp_path / "found.json"),
    }
    cached = {"SKEWLESS_CACHE_DIR": str(tmp_path / "cache"), "PYSPARK_PYTHON": sys.executable}
    for run in range(2):
        written(tmp_path / "input", run)
        told = subprocess.run(
            [sys.executable, str(CHILD), json.dumps(given)],
            env=os.environ | cached,
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stderr[-4000:]
        assert SECRET not in told.stderr + told.stdout
        found = json.loads((tmp_path / "found.json").read_text())
        expected = duckdb.sql(ORACLE.format(tmp_path / "input")).fetchall()
        assert sorted(map(repr, found["rows"])) == sorted(repr(list(row)) for row in expected)
        assert found["batches"] == list(range(run + 1))
    keys = s3.keys(prefix.removeprefix("s3a://bucket/"))
    parts = {part for key in keys for part in key.split("/")}
    assert {"text=a%2Fb", "text=a b", "text=100%25", "text=a%252Fb"} <= parts
    for key in keys:
        assert SECRET.encode() not in s3.client.get_object(Bucket="bucket", Key=key)["Body"].read()
