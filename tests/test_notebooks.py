"""The notebooks of the documents run from top to bottom, and are saved with what they give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks import NOTEBOOKS, executed

BYTES_MAX = 200_000


def kinds(notebook: Any) -> list[list[str]]:
    """What kinds of things the cells give."""
    return [
        sorted(k for output in cell.get("outputs", []) for k in output.get("data", {"stream": 0}))
        for cell in notebook["cells"]
    ]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_is_saved_with_what_it_gives(file: Path) -> None:
    notebook = json.loads(file.read_text(encoding="utf-8"))
    assert file.stat().st_size < BYTES_MAX
    assert any("image/png" in of_cell for of_cell in kinds(notebook))
    assert "error" not in [
        o["output_type"] for c in notebook["cells"] for o in c.get("outputs", [])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_runs(file: Path, tmp_path: Path) -> None:
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert kinds(executed(file, tmp_path)) == kinds(saved)
