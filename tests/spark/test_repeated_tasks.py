"""Tasks that fail when their work is done, and so are run a second time."""

from __future__ import annotations

from pathlib import Path

from tests.spark.processes import child, wait_for
from tests.spark.support import assert_same, keyed_oracle, read_parquet
from tests.spark.test_crashes import streams


def test_tasks_that_run_twice(tmp_path: Path) -> None:
    """Segments, reports and compactions of the first attempt exist but do not count."""
    pair = streams(tmp_path, early=3, later=2)
    markers = tmp_path / "markers"
    markers.mkdir()
    config = {"folder": str(tmp_path), "master": "local[2, 4]", "fail_once": str(markers)}
    with child(config) as process:
        wait_for(tmp_path / "done", process)
    failed = sorted(file.name for file in markers.iterdir())
    assert failed == [
        *(f"batch-{b}-instance-{i}" for b in range(5) for i in range(2)),
        "ingest-left",
        "ingest-right",
    ]
    assert_same(read_parquet(tmp_path / "out"), keyed_oracle(*pair, within_s=12))
    assert {file.suffix for file in (tmp_path / "out").iterdir()} == {".parquet"}
