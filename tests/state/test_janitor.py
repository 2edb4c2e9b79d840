"""Deleting behind the batches: in time, many at once, and never what somebody needs."""

from __future__ import annotations

import logging
import pickle
import threading
from pathlib import Path

import pytest

from skewless.state.files import Folder
from skewless.state.janitor import Janitor
from skewless.state.parallel import each


class Remote(Folder):
    """A folder on this disk that answers when it is told to, as a store far away does."""

    go = threading.Event()
    at_once = threading.Barrier(4, timeout=20)

    @property
    def is_local(self) -> bool:
        return False

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def delete(self, name: str) -> None:
        self.go.wait(20)
        Path(self.path(name)).unlink(missing_ok=True)

    def list(self, name: str = "") -> list[str]:
        self.go.wait(20)
        return sorted(p.name for p in Path(self.path(name)).iterdir())


def files(tmp_path: Path, *names: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")


def test_a_store_is_asked_many_things_at_a_time(tmp_path: Path) -> None:
    def meet(item: int) -> int:
        Remote.at_once.wait()  # none of four answers before all have asked
        return item * 2

    assert each(Remote(str(tmp_path)), meet, range(4)) == [0, 2, 4, 6]
    assert each(Folder(str(tmp_path)), lambda item: item * 2, range(4)) == [0, 2, 4, 6]
    assert each(Remote(str(tmp_path)), meet, []) == []


def test_on_a_local_disk_files_are_gone_at_once(tmp_path: Path) -> None:
    files(tmp_path, "a", "b", "c")
    Janitor(Folder(str(tmp_path))).delete({"a", "b", "not there"})
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_batch_does_not_wait_for_a_remote_store(tmp_path: Path) -> None:
    files(tmp_path, "a", "b", "c")
    Remote.go.clear()
    janitor = Janitor(Remote(str(tmp_path)))
    janitor.delete({"a", "b"})
    assert len(list(tmp_path.iterdir())) == 3
    Remote.go.set()
    janitor.wait()
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_a_sweep_spares_what_came_after_it_looked(tmp_path: Path) -> None:
    files(tmp_path, "segments/old", "segments/needed", "segments/of-this-batch")
    Remote.go.clear()
    janitor = Janitor(Remote(str(tmp_path)))
    janitor.begin_sweep(["segments"])
    janitor.end_sweep(lambda: pytest.fail("it is not known yet what is there"))
    Remote.go.set()
    assert janitor._listing is not None
    janitor._listing.result()
    files(tmp_path, "segments/of-the-next-batch")
    janitor.end_sweep(lambda: {"segments/needed", "segments/of-this-batch"})
    janitor.wait()
    left = sorted(p.name for p in (tmp_path / "segments").iterdir())
    assert left == ["needed", "of-the-next-batch", "of-this-batch"]


def test_what_cannot_be_deleted_is_told_and_no_reason_to_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a").mkdir()
    with caplog.at_level(logging.WARNING, "skewless"):
        Janitor(Folder(str(tmp_path))).delete({"a"})
    assert "could not delete" in caplog.text


def test_it_is_sent_along_with_its_query(tmp_path: Path) -> None:
    janitor = Janitor(Remote(str(tmp_path)))
    Remote.go.set()
    janitor.delete({"a"})
    files(tmp_path, "b")
    again = pickle.loads(pickle.dumps(Janitor(Folder(str(tmp_path)))))
    again.delete({"b"})
    assert list(tmp_path.iterdir()) == []
