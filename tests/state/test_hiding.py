"""Hidden keys: no report says a value, and one key has one name as long as its checkpoint lives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skewless.engine.batch import run_batch
from skewless.engine.executor import Collecting, InProcessExecutor
from skewless.engine.lifecycle import Query
from skewless.state.files import Folder
from skewless.state.hiding import make_salt, salt_of
from tests.frame.kits import KITS
from tests.frame.streams import Stream, ended
from tests.frame.test_frame import even_cut

KEY = 987_654_321
ROWS = ended([(KEY if i % 2 else i, 20 + i // 3, float(i % 5)) for i in range(40)])


def told(name: str, setup: int, root: Path, *, hide: bool, batches: range) -> list[str]:
    """What is written to disk of each batch: its report and its commit."""
    kit = KITS[name]
    pipeline = kit.pipeline(kit.setups[setup % len(kit.setups)])
    streams = [Stream(name, ROWS) for name in kit.streams]
    query = Query(str(root), pipeline, hide_keys=hide)
    query.open()
    found = []
    for number in batches:
        rows = even_cut(kit, streams).streams(streams, number)
        executor = InProcessExecutor(pipeline, query.folder, rows, faithful=True, hides_keys=hide)
        report = run_batch(query, executor, Collecting(), number)
        assert report is not None
        commit = next((root / "commits").glob(f"{number:012d}-*")).read_text()
        found.append(json.dumps(report.to_json()) + commit)
    return found


@pytest.mark.parametrize(
    ("name", "setup"), [("join", 2), ("aggregate", 1), ("deduplicate", 0), ("join → aggregate", 0)]
)
def test_no_report_says_a_value(name: str, setup: int, tmp_path: Path) -> None:
    shown = told(name, setup, tmp_path / "shown", hide=False, batches=range(6))
    assert any(str(KEY) in text for text in shown)
    hidden = told(name, setup, tmp_path / "hidden", hide=True, batches=range(6))
    assert not any(str(KEY) in text for text in hidden)
    assert any('"#' in text for text in hidden)


def test_a_key_keeps_its_name(tmp_path: Path) -> None:
    def names(texts: list[str]) -> set[str]:
        return {part[:12] for text in texts for part in text.split('"value": "#')[1:]}

    first = names(told("join", 2, tmp_path / "one", hide=True, batches=range(3)))
    again = names(told("join", 2, tmp_path / "one", hide=True, batches=range(3, 6)))
    other = names(told("join", 2, tmp_path / "other", hide=True, batches=range(3)))
    assert first & again
    assert not first & other


def test_there_is_one_salt(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    make_salt(folder)
    salt = salt_of(folder)
    make_salt(folder)
    assert salt_of(folder) == salt and len(salt) == 32
