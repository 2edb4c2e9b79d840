"""A query takes a checkpoint over: its own, or that of a former one that did nearly the same."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from skewless.engine.changes import Facts, differing
from skewless.engine.pipeline import Pipeline
from skewless.errors import CheckpointMismatchError
from skewless.state.commits import (
    QUERY_FILE,
    Commit,
    OperatorState,
    TornError,
    claim,
    read_checked,
)
from skewless.state.files import Folder

log = logging.getLogger("skewless")

CHANGED = "changed with batch"


@dataclass(frozen=True)
class TakenOver:
    """The last commit, as the query goes on from it; what has changed, by operator; and whether the
    folder says what the query does now."""

    last: Commit | None
    notes: Mapping[str, tuple[str, ...]]
    is_recorded: bool


def take_over(folder: Folder, pipeline: Pipeline, last: Commit | None) -> TakenOver:
    """Tie a state folder to a query on first use. Afterwards refuse a query that does something
    else, naming the differences."""
    after = pipeline.fingerprint()
    recorded = _recorded(folder, last)
    if recorded is None:
        claim(folder, after)
        recorded = dict(after)
    recorded.pop(CHANGED, None)
    before = recorded if last is None or not last.query else last.query
    changed = differing(before, after)
    if not changed:
        return TakenOver(last, {}, recorded == after)
    states: dict[str, OperatorState | None] = {}
    reasons: dict[str, str] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for node in pipeline.nodes:
        mine = [pipeline.facts_of(node, facts) for facts in (before, after)]
        state = None if last is None else last.operators.get(node.name)
        if mine[0].get("kind") != mine[1].get("kind"):
            continue  # another operator's state is of no use
        adopted = node.operator.adopt(state, mine[0], mine[1], feeds=node is not pipeline.root)
        prefix = pipeline.prefix_of(node)
        changed = [fact for fact in changed if fact.removeprefix(prefix) not in adopted.accepted]
        reasons |= {f"{prefix}{fact}": why for fact, why in adopted.refused.items()}
        states[node.name], notes[node.name] = adopted.state, adopted.notes
    if changed:
        raise _refusal(folder, changed, before, after, reasons)
    for name, told in notes.items():
        for note in told:
            log.warning("%s: %s", name, note)
    kept = {name: state for name, state in states.items() if state is not None}
    return TakenOver(None if last is None else replace(last, operators=kept), notes, False)


def _recorded(folder: Folder, last: Commit | None) -> dict[str, str] | None:
    """What the folder says that its query does, if anything. A note that is not whole, as after a
    loss of power, is written again where nothing depends on it: commits say the same."""
    if folder.size(QUERY_FILE) is None:
        return None
    try:
        return read_checked(folder, QUERY_FILE)
    except TornError:
        if last is None:
            return None
        if not last.query:
            raise
        claim(folder, last.query)
        return dict(last.query)


def _refusal(
    folder: Folder, changed: list[str], before: Facts, after: Facts, reasons: Mapping[str, str]
) -> CheckpointMismatchError:
    lines = "".join(
        f"\n  {k}: the checkpoint has {before.get(k)!r}, this query has {after.get(k)!r}"
        + (f" ({reasons[k]})" if k in reasons else "")
        for k in changed
    )
    return CheckpointMismatchError(
        f"the checkpoint {folder.root} belongs to another query:{lines}\n"
        "Use another checkpointLocation, or describe the query as it was."
    )


def record(folder: Folder, commit: Commit) -> None:
    """Say in the folder what the query does now: for people, and for older versions, which refuse a
    query that was changed. The truth is in the commits."""
    claim(folder, {**commit.query, CHANGED: str(commit.batch_id)})
