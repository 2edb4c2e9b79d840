"""`skewless rollback`: back to the state after an earlier batch, if people really want that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console

from skewless.cli.view import facts
from skewless.history import state_folder
from skewless.state.epochs import Ownership
from skewless.state.owner import CheckpointLock
from skewless.state.rollback import Rollback, plan_rollback, roll_back, sparks_entries

SHOWN = 3  # files that are named


def run_rollback(
    checkpoint: str, to: int, console: Console, *, yes: bool, ask: bool
) -> dict[str, Any]:
    """Tell what it means, ask, and do it; what was planned, and whether it was done."""
    state = state_folder(checkpoint)
    lock, ownership = CheckpointLock(state), Ownership(state)
    lock.acquire()
    try:
        plan = plan_rollback(state, to)
        entries = sparks_entries(state, to)
        console.print(facts(_lines(plan, entries)))
        console.print(
            "The next start repeats these batches from the sources. Sinks other than files get "
            "their rows again.",
            style="dim",
        )
        if plan.outside is not None:
            console.print(outside_warning(plan), style="bold yellow")
        done = yes or (ask and typer.confirm(f"Go back to batch {to}?"))
        if done:
            roll_back(state, plan, ownership)
            lock.keep_alive(ownership.epoch)  # which says at once that it has ended
    finally:
        lock.release()
    return asdict(plan) | {"spark": entries, "done": done}


def outside_warning(plan: Rollback) -> str:
    """What people have to do themselves: nobody here can reach the table or topic."""
    return (
        f"Rows of batches after {plan.to} stay in the table or topic that this query writes to, and"
        " come a second time. Take them out before the next start: restore the table as it was "
        f"after batch {plan.to} of query {plan.outside}, or delete them. docs/sinks.md says how."
    )


def _lines(plan: Rollback, entries: Sequence[str]) -> list[tuple[str, str]]:
    batches = ", ".join(map(str, plan.batches)) or "none"
    return [
        ("goes back to", f"the state after batch {plan.to}"),
        ("takes back", f"batches: {batches}"),
        ("removes output files", _files(plan.removed)),
        ("keeps output files", f"of earlier batches, and {_files(plan.kept)} of unknown origin"),
        ("removes from Spark's log", ", ".join(entries) or "nothing"),
    ]


def _files(files: Sequence[str]) -> str:
    named = ", ".join(files[:SHOWN]) + (", …" if len(files) > SHOWN else "")
    return f"{len(files)}: {named}" if files else "none"
