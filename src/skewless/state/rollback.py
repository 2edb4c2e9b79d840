"""Going back to the state after an earlier batch, as people ask for it.

It is a change of ownership: the next epoch is claimed, and decides that commits of older ones count
up to that batch only (`state/epochs.py`). What goes with them is written down before anything is
removed, and a query refuses to start in between, so that a rollback that was interrupted can be
repeated.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from skewless.errors import StateDamagedError, StateError
from skewless.state.commits import (
    CLOCK_FILE,
    CommitLog,
    TornError,
    read_checked,
    write_checked,
)
from skewless.state.epochs import Ownership
from skewless.state.files import Folder, qualify
from skewless.state.history import HISTORY
from skewless.state.identity import forget_id, known_id
from skewless.state.output import check_confined, files_of_batch
from skewless.state.publish import file_size, note_shown
from skewless.state.recovery import sparks_folder

PLAN = "rollback.json"
SPARKS_LOGS = ("commits", "offsets")

_ENTRY = re.compile(r"\.?(\d+)(?:\.crc)?")


@dataclass(frozen=True)
class Rollback:
    """What a rollback does: the batches it takes back, the output files it removes, and those of
    later batches that it keeps, as no commit says that they are of this checkpoint. `outside` is
    the id by which a table or topic outside knows these batches, if there is one: their rows stay
    there, and come again under another id."""

    to: int
    batches: tuple[int, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    outside: str | None = None


def refuse_if_unfinished(state: Folder) -> None:
    """A query must not start in the midst of a rollback."""
    if state.size(PLAN) is not None:
        to = read_checked(state, PLAN)["to"]
        raise StateDamagedError(
            f"a rollback of {state.root} was interrupted. Repeat it: "
            f"`skewless rollback {sparks_folder(state).root} --to {to}`."
        )


def plan_rollback(state: Folder, to: int) -> Rollback:
    """What going back to the state after a batch means. Nothing is changed."""
    begun = _begun(state)
    if begun is not None and to > begun.to:
        raise StateError(
            f"a rollback to batch {begun.to} was interrupted: repeat it, or go back further."
        )
    log = CommitLog(state)
    batch_ids = log.batch_ids()
    if to not in batch_ids:
        raise StateError(
            f"batch {to} is not among those that one can go back to: {_listed(batch_ids)}."
        )
    log.read(to)
    sparks = sparks_folder(state)
    if sparks.size(f"offsets/{to}") is None:
        raise StateError(
            f"Spark's log no longer has batch {to}: there is no {sparks.path(f'offsets/{to}')}."
        )
    later = [batch_id for batch_id in batch_ids if batch_id > to]
    removed = {file for batch_id in later for file in _shown_by(state, log, batch_id)}
    if begun is not None:
        later, removed = sorted({*later, *begun.batches}), removed | set(begun.removed)
    named = {file for batch_id in later for file in files_of_batch(state, batch_id)}
    outside = begun.outside if begun is not None and begun.outside else known_id(state)
    kept = tuple(sorted(named - removed))
    return Rollback(to, tuple(later), tuple(sorted(removed)), kept, outside)


def _begun(state: Folder) -> Rollback | None:
    if state.size(PLAN) is None:
        return None
    content = read_checked(state, PLAN)
    batches, removed, kept = (tuple(content[k]) for k in ("batches", "removed", "kept"))
    return Rollback(content["to"], batches, removed, kept, content.get("outside"))


def _shown_by(state: Folder, log: CommitLog, batch_id: int) -> list[str]:
    """The files that a batch has shown. Of a commit that cannot be read only names tell."""
    try:
        commit = log.read(batch_id)
    except TornError:
        return files_of_batch(state, batch_id)
    check_confined(state, commit)
    return [move.final for move in commit.publish if file_size(state, move.final) is not None]


def sparks_entries(state: Folder, to: int) -> list[str]:
    """What Spark has noted of later batches, the latest first."""
    found = []
    for log in SPARKS_LOGS:
        for name in sparks_folder(state).list(log):
            entry = _ENTRY.fullmatch(name)
            if entry is not None and int(entry[1]) > to:
                found.append((int(entry[1]), f"{log}/{name}"))
    return [name for _, name in sorted(found, reverse=True)]


def roll_back(state: Folder, plan: Rollback, ownership: Ownership) -> None:
    """Carry a rollback out. The caller holds the checkpoint, and nobody works on it."""
    write_checked(state, PLAN, asdict(plan))
    log = CommitLog(state)
    ownership.take(log.newest_epoch(), lambda: plan.to)
    for file in plan.removed:
        folder, name = _parted(state, file)
        folder.delete(name)
    sparks, entries = sparks_folder(state), sparks_entries(state, plan.to)
    if plan.batches or entries:
        # Other rows may come under the same numbers, those of a batch that was only begun, too:
        # sinks must not take them for those they have, nor may they be judged by its moment.
        forget_id(state)
        state.delete(CLOCK_FILE)
    for name in entries:
        sparks.delete(name)
    for name in state.list(HISTORY):
        if name[:-5].isdigit() and int(name[:-5]) > plan.to:
            state.delete(f"{HISTORY}/{name}")
    if plan.batches:  # else a crash may have kept it from being shown: the next start does that
        note_shown(ownership.folder, log.read(plan.to))
    log.sweep(ownership.epoch)
    for path in {_parted(state, file)[0].root for file in plan.removed}:
        state.other(path).sync()
    for name in SPARKS_LOGS:
        sparks.sync(name)
    state.delete(PLAN)
    state.sync()


def _listed(batch_ids: list[int]) -> str:
    return ", ".join(map(str, batch_ids)) if batch_ids else "there is none"


def _parted(state: Folder, file: str) -> tuple[Folder, str]:
    parent, _, name = qualify(file).rpartition("/")
    return state.other(parent), name
