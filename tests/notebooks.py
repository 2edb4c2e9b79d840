"""Runs the notebooks of the documents. `python -m tests.notebooks` saves them with what they give.

What Spark writes to standard error is not kept, nor what says when and by whom a cell was run.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.documents import DOCS

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
PATIENCE_S = 280


def executed(file: Path, folder: Path) -> nbformat.NotebookNode:
    """A notebook after it was run in a folder; an error if one of its cells fails."""
    notebook = nbformat.read(file, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    options = {"timeout": PATIENCE_S, "coalesce_streams": True}
    NotebookClient(notebook, resources=where, **options).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)
    return notebook


def main() -> None:
    for file in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(file, Path(folder)), file)
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
