"""What groupers have learned, as it goes from batch to batch: a blob for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skewless.engine.operator import Arrival
from skewless.placement.grouping import Grouper, Grouping
from skewless.state.blobs import BlobInfo, read_blob, write_blob
from skewless.state.commits import OperatorState
from skewless.state.files import Folder

DRIVER = "grouper-driver"


def label_of(task: int) -> str:
    """What the grouper of an input task is called."""
    return f"grouper-{task}"


def facts_of(grouping: Grouping, instances: int) -> dict[str, Any]:
    """What groupers belong to: those of others are of no use."""
    return {"grouping": repr(grouping), "instances": instances}


def resume_grouper(
    folder: Folder, state: OperatorState | None, grouping: Grouping, instances: int, label: str
) -> Grouper:
    """A grouper as the last commit left it; a new one where there was none, or where the query now
    groups otherwise: results do not depend on it."""
    known = {} if state is None else _usable(state, facts_of(grouping, instances))
    if label not in known:
        return grouping.build(instances)
    return grouping.resume(read_blob(folder, known[label]))


def write_grouper(folder: Folder, grouper: Grouper, label: str) -> BlobInfo:
    """Store what a grouper knows; it counts when a commit lists it."""
    return write_blob(folder, label, grouper.snapshot())


def newest_groupers(
    state: OperatorState, arrivals: Sequence[Arrival], facts: Mapping[str, Any]
) -> tuple[BlobInfo, ...]:
    """The groupers of all tasks after a batch. A task that had no rows this time may have some
    again."""
    newest = _usable(state, facts) | {b.label: b for a in arrivals for b in a.blobs}
    return tuple(newest[label] for label in sorted(newest))


def _usable(state: OperatorState, facts: Mapping[str, Any]) -> dict[str, BlobInfo]:
    return {b.label: b for b in state.blobs} if dict(state.facts) == dict(facts) else {}
