"""The id of a checkpoint: one as long as it lives, unlike any other, another after a rollback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skewless.errors import StateDamagedError
from skewless.state.files import Folder
from skewless.state.identity import IDENTITY, forget_id, query_id


def folder_at(path: Path) -> Folder:
    path.mkdir()
    return Folder(str(path))


def test_restarts_keep_it(tmp_path: Path) -> None:
    one = folder_at(tmp_path / "one")
    first = query_id(one)
    assert query_id(Folder(one.root, epoch=7)) == first
    assert query_id(folder_at(tmp_path / "other")) != first


def test_of_many_who_ask_at_once_all_hear_the_same(tmp_path: Path) -> None:
    one = folder_at(tmp_path / "one")
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(lambda _: query_id(Folder(one.root)), range(64)))) == 1


def test_what_is_forgotten_does_not_come_back(tmp_path: Path) -> None:
    one = folder_at(tmp_path / "one")
    first = query_id(one)
    forget_id(one)
    assert query_id(one) != first


@pytest.mark.parametrize("content", [b"", b"abc", b"x" * 32, b"A" * 32, b"\xff" * 32])
def test_a_damaged_one_is_refused(tmp_path: Path, content: bytes) -> None:
    one = folder_at(tmp_path / "one")
    (tmp_path / "one" / IDENTITY).write_bytes(content)
    with pytest.raises(StateDamagedError, match="does not hold the id"):
        query_id(one)
