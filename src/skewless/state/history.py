"""Batch reports on disk: one small file per batch, kept longer than the commits."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from skewless.state.files import Folder

HISTORY = "history"


def write_report(folder: Folder, batch_id: int, report: dict[str, Any]) -> None:
    """Store the report of a batch; a replayed batch replaces its report. Nothing depends on it, so
    that nobody waits for the disk."""
    name = f"{HISTORY}/{batch_id:012d}.json"
    folder.write_atomically(name, json.dumps(report).encode(), durable=False)


def read_reports(folder: Folder, last_batch_id: int) -> list[dict[str, Any]]:
    """All reports of committed batches, oldest first; without those that a loss of power tore."""
    names = [n for n in folder.list(HISTORY) if n.endswith(".json") and n[:-5].isdigit()]
    ids = sorted(int(n[:-5]) for n in names)
    found = []
    for data in (folder.read(f"{HISTORY}/{i:012d}.json") for i in ids if i <= last_batch_id):
        with contextlib.suppress(ValueError):
            found.append(json.loads(data))
    return found
