"""Batch reports on disk: one small file per batch, kept longer than the commits."""

from __future__ import annotations

import json
from typing import Any

from skewless.state.files import Folder

HISTORY = "history"


def write_report(folder: Folder, batch_id: int, report: dict[str, Any]) -> None:
    """Store the report of a batch; a replayed batch replaces its report."""
    name = f"{HISTORY}/{batch_id:012d}.json"
    folder.write_atomically(name, json.dumps(report).encode())


def read_reports(folder: Folder, last_batch_id: int) -> list[dict[str, Any]]:
    """All reports of committed batches, oldest first."""
    names = [n for n in folder.list(HISTORY) if n.endswith(".json") and n[:-5].isdigit()]
    ids = sorted(int(n[:-5]) for n in names)
    return [json.loads(folder.read(f"{HISTORY}/{i:012d}.json")) for i in ids if i <= last_batch_id]
