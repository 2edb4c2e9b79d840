"""A checkpoint as somebody reads it who only looks on: what is new since the last look.

Nothing is written, and the query need not run. Reports are read once each, the newest first, for a
limited time per look: so there is something to show at once, however long the history is.
"""

from __future__ import annotations

import json
import time
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from skewless.engine.report import BatchReport
from skewless.errors import SkewlessError
from skewless.placement.places import Placement
from skewless.state.commits import QUERY_FILE, CommitLog, read_checked
from skewless.state.epochs import claimed, limit_of, who_claimed
from skewless.state.files import STATE_FOLDER, Folder, qualify
from skewless.state.history import HISTORY
from skewless.state.parallel import REQUESTS, each
from skewless.state.recovery import newest_whole
from skewless.state.stores.settings import Settings

BUDGET_S = 0.25  # for reading reports, per look
NOTHING = -1  # the batch before the first


class Status(StrEnum):
    """Whether there is something to read."""

    HERE = "here"
    GONE = "gone"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Look:
    """What a look found. `forget_after` is the last batch that still holds of those that were read
    before, if not all do. `waiting` reports are there and not read yet."""

    status: Status
    why: str = ""
    facts: Mapping[str, str] | None = None
    reports: tuple[BatchReport, ...] = ()
    forget_after: int | None = None
    waiting: int = 0


@dataclass(frozen=True)
class Division:
    """How the work of an operator is divided after the last batch: by which strategy, into how many
    slots and instances; and where they are, if that can be told."""

    strategy: str
    slots: int
    instances: int
    placement: Placement | None


class CheckpointReader:
    """Reads one checkpoint, again and again."""

    def __init__(self, location: str, settings: Mapping[str, str] | None = None) -> None:
        self.location = qualify(str(location))
        root = f"{self.location}/{STATE_FOLDER}"
        self._folder = Folder(root, settings=Settings.of(settings or {}))
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._owner: tuple[int, str] | None = None
        self._facts: Mapping[str, str] | None = None
        self._waiting: list[int] = []  # batches whose reports are to be read, in order
        self._last = NOTHING

    def look(self, budget_s: float = BUDGET_S) -> Look:
        """What is new. What goes wrong is said, not raised: the next look may succeed, and finds
        then what this one did not tell."""
        before = self._owner, self._facts, list(self._waiting), self._last
        try:
            return self._look(budget_s)
        except Exception as error:
            self._owner, self._facts, self._waiting, self._last = before
            return Look(Status.UNREADABLE, str(error) or type(error).__name__)

    def _look(self, budget_s: float) -> Look:
        if self._folder.size(QUERY_FILE) is None:
            self._begin_anew()
            return Look(Status.GONE, "There is no checkpoint of a skewless query here now.")
        forget_after = self._forget_after()
        if forget_after is not None:
            self._last = min(self._last, forget_after)
            self._waiting = [i for i in self._waiting if i <= forget_after]
        facts = self._facts = self._facts or read_checked(self._folder, QUERY_FILE)
        last = max(CommitLog(self._folder).batch_ids(), default=NOTHING)
        if last < self._last:
            forget_after = last
        for batch_id in self._new_ids(last):
            insort(self._waiting, batch_id)
        self._last = last
        reports = self._read(time.monotonic() + budget_s)
        return Look(Status.HERE, "", facts, reports, forget_after, len(self._waiting))

    def _forget_after(self) -> int | None:
        """After which batch all has to be read again, as another driver took over meanwhile."""
        epochs = claimed(self._folder)
        newest = epochs[-1] if epochs else 0
        owner = newest, who_claimed(self._folder, newest).token
        if owner == self._owner:
            return None
        before, limits = self._owner, [limit_of(self._folder, e) for e in epochs]
        if before is None:
            self._owner = owner
            return NOTHING
        later = [limit for e, limit in zip(epochs, limits, strict=True) if e > before[0]]
        if later and None in later:
            return None  # nobody knows yet what counts: the next look will
        was_it = before[0] in epochs and who_claimed(self._folder, before[0]).token == before[1]
        known = [limit for limit in later if limit is not None]
        self._owner = owner
        if was_it and known:
            return min(known)
        self._facts = None  # another checkpoint in the same place
        return NOTHING

    def _new_ids(self, last: int) -> list[int]:
        """Batches up to the last that were not asked for yet. After the first look their names are
        known without listing them."""
        if self._last != NOTHING:
            return list(range(self._last + 1, last + 1))
        names = (name.removesuffix(".json") for name in self._folder.list(HISTORY))
        return sorted(int(n) for n in names if n.isdigit() and int(n) <= last)

    def _read(self, until: float) -> tuple[BatchReport, ...]:
        """Reports that wait, the newest first, until the time is over; at least some of them."""
        found: list[BatchReport] = []
        while self._waiting:
            some = self._waiting[-REQUESTS:]
            found += [r for r in each(self._folder, self._report, some) if r is not None]
            del self._waiting[-len(some) :]
            if time.monotonic() >= until:
                break
        return tuple(sorted(found, key=lambda r: r.batch_id))

    def _report(self, batch_id: int) -> BatchReport | None:
        """A report; None if it was deleted meanwhile, torn by a loss of power, or is of a version
        that this one does not know."""
        try:
            data = json.loads(self._folder.read(f"{HISTORY}/{batch_id:012d}.json"))
            return BatchReport.from_json(data)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def leave_out_older(self) -> None:
        """Read no reports that are there already."""
        self._waiting = []

    def divisions(self) -> dict[str, Division]:
        """How the work of each operator is divided, by the last commit that is whole; none where an
        operator has no slots, or the commit cannot be read just now."""
        try:
            commit = newest_whole(self._folder)
        except (SkewlessError, OSError):
            return {}
        states = {} if commit is None else commit.operators
        found = {name: _division(state.facts) for name, state in states.items()}
        return {name: division for name, division in found.items() if division is not None}


def _division(facts: Mapping[str, Any]) -> Division | None:
    if "slots" not in facts or "strategy" not in facts:
        return None
    strategy, slots, instances = facts["strategy"], facts["slots"], facts["instances"]
    stored = facts.get("placement")
    placement = None if stored is None else Placement.from_json(stored)
    if placement is None and strategy == "Hash":
        placement = Placement.spread(slots, instances)
    return Division(strategy, slots, instances, placement)
