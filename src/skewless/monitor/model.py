"""What is known of a query, as columns: one value per batch, of the query and of each operator."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import getrandbits

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Floats, Ints
from skewless.engine.report import HEAVY_KEYS_TOLD, BatchReport, OperatorReport, loads_ms
from skewless.monitor.reading import NOTHING, CheckpointReader, Division, Look, Status
from skewless.placement.figures import Decision, WatchedKey

BATCHES_MAX = 20_000  # that are kept in memory, of each query
WATCHED_MAX = 10_000  # keys whose slots are remembered
NAMES_MAX = 2 * BATCHES_MAX * HEAVY_KEYS_TOLD  # keys that are remembered by value
SECOND_US, SECOND_MS = 1_000_000, 1000

Loads = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Decided:
    """A decision, and the batch after which it was taken."""

    batch_id: int
    decision: Decision


class Keys:
    """The heaviest keys of every batch: which, and their shares of its rows."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self.of_batch = np.zeros((0, HEAVY_KEYS_TOLD), np.int32)  # -1: none
        self.shares = np.zeros((0, HEAVY_KEYS_TOLD), np.float32)

    def number(self, value: str) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self.names)
            self.names.append(value)
        return self._numbers[value]

    def add(self, reports: Sequence[OperatorReport]) -> None:
        of_batch = np.full((len(reports), HEAVY_KEYS_TOLD), -1, np.int32)
        shares = np.zeros((len(reports), HEAVY_KEYS_TOLD), np.float32)
        for row, report in enumerate(reports):
            for place, key in enumerate(report.heavy_keys[:HEAVY_KEYS_TOLD]):
                of_batch[row, place], shares[row, place] = self.number(key.value), key.share
        self.of_batch = np.concatenate([self.of_batch, of_batch])
        self.shares = np.concatenate([self.shares, shares])

    def take(self, rows: Ints) -> None:
        self.of_batch, self.shares = self.of_batch[rows], self.shares[rows]
        if len(self.names) > NAMES_MAX:
            self._forget_unused()

    def _forget_unused(self) -> None:
        """Forget keys that no batch names any more: heavy ones come and go for weeks."""
        used = np.unique(self.of_batch[self.of_batch >= 0])
        self.names = [self.names[number] for number in used.tolist()]
        self._numbers = {name: number for number, name in enumerate(self.names)}
        there = np.searchsorted(used, self.of_batch).astype(np.int32)
        self.of_batch = np.where(self.of_batch >= 0, there, np.int32(-1))

    def share(self, number: int) -> Floats:
        """The share of one key in every batch; 0 where it was not among the heaviest."""
        found: Floats = np.where(self.of_batch == number, self.shares, 0).sum(axis=1, dtype=float)
        return found


class Scope:
    """A query, or one operator of it: everything that is told of its batches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ids: Ints = np.zeros(0, np.int64)
        self.columns: dict[str, Floats] = {}
        self.loads: list[Loads] = []  # work of every instance, in ms
        self.keys = Keys()
        self.decided: list[Decided] = []
        self.noted: list[tuple[int, str]] = []
        self.watched: dict[str, WatchedKey] = {}
        self.last: OperatorReport | None = None

    def add(self, ids: Sequence[int], rows: Sequence[dict[str, float]],
            reports: Sequence[OperatorReport]) -> None:  # fmt: skip
        """Add batches, in whatever order they come."""
        before, count = len(self.ids), len(ids)
        if not before or ids[-1] > self.ids[-1]:
            self.last = reports[-1]
        self.ids = np.concatenate([self.ids, np.array(ids, np.int64)])
        for name in dict.fromkeys([*self.columns, *(name for row in rows for name in row)]):
            old = self.columns.get(name)
            new = np.array([row.get(name, np.nan) for row in rows], float)
            self.columns[name] = np.concatenate([np.full(before, np.nan) if old is None else old,
                                                 new])  # fmt: skip
        self.loads += [loads_ms(report.instances).astype(np.float32) for report in reports]
        self.keys.add(reports)
        for batch_id, report in zip(ids, reports, strict=True):
            self.decided += [Decided(batch_id, decision) for decision in report.decisions]
            self.noted += [(batch_id, note) for note in report.notes]
            self._watch(report.keys)
        if count and before and self.ids[before] < self.ids[before - 1]:
            self._take(np.argsort(self.ids, kind="stable"))
            self.decided.sort(key=lambda d: d.batch_id)
            self.noted.sort(key=lambda n: n[0])
        if len(self.ids) > BATCHES_MAX:
            self._take(np.arange(len(self.ids) - BATCHES_MAX, len(self.ids)))
            self._keep_told(int(self.ids[0]), int(self.ids[-1]))

    def forget_after(self, batch_id: int) -> None:
        """Leave out batches that do not count any more."""
        self._take(np.flatnonzero(self.ids <= batch_id))
        self._keep_told(0, batch_id)
        self.last = None

    def _take(self, rows: Ints) -> None:
        self.ids = self.ids[rows]
        self.columns = {name: column[rows] for name, column in self.columns.items()}
        self.loads = [self.loads[row] for row in rows.tolist()]
        self.keys.take(rows)

    def _keep_told(self, first: int, last: int) -> None:
        self.decided = [d for d in self.decided if first <= d.batch_id <= last]
        self.noted = [n for n in self.noted if first <= n[0] <= last]

    def _watch(self, keys: Sequence[WatchedKey]) -> None:
        for key in keys:
            if not key.value:  # no row of it was at hand to tell it
                continue
            self.watched.pop(key.value, None)
            self.watched[key.value] = key
        while len(self.watched) > WATCHED_MAX:
            del self.watched[next(iter(self.watched))]

    def column(self, name: str) -> Floats:
        return self.columns.get(name, np.full(len(self.ids), np.nan))

    def names(self, kind: str) -> list[str]:
        """What there is of a kind of columns: the inputs of "rows/", the causes of "dropped/"."""
        return [name.removeprefix(kind) for name in self.columns if name.startswith(kind)]


def row_of(report: OperatorReport) -> dict[str, float]:
    """The values of a batch that an operator and a whole query have alike."""
    work = loads_ms(report.instances)
    row: dict[str, float] = {
        "rows": sum(report.rows.values()),
        "out": report.matches,
        "busiest": report.busiest_over_mean,
        "work_ms": float(work.sum()),
        "instances": len(report.instances),
        "state_rows": report.state_rows,
        "state_bytes": report.state_bytes,
        "segments": report.segments,
        "late": report.late,
        "dropped": sum(report.dropped.values()),
    }
    row |= {f"rows/{name}": rows for name, rows in report.rows.items()}
    row |= {f"dropped/{cause}": rows for cause, rows in report.dropped.items()}
    for host, counts in report.hosts.items():
        row |= {f"host/{host}/{what}": count for what, count in counts.items()}
    if report.watermark_us is not None and report.latest_us is not None:
        row["lag_s"] = (report.latest_us - report.watermark_us) / SECOND_US
    return row


def _timed(
    report: BatchReport, told: OperatorReport, phases: Mapping[str, float]
) -> dict[str, float]:
    """The values of a batch with when it ended and what its phases took."""
    row = row_of(told) | {f"phase/{name}": ms for name, ms in phases.items()}
    ms = row["ms"] = sum(phases.values())
    if ms > 0:
        row["rate"] = row["rows"] / ms * SECOND_MS
    if report.ended_us is not None:
        row["ended_s"] = report.ended_us / SECOND_US
        if told.watermark_us is not None:
            row["behind_s"] = (report.ended_us - told.watermark_us) / SECOND_US
    return row


def _own_phases(report: BatchReport, operator: str) -> dict[str, float]:
    prefix = f"{operator}: "
    return {
        name.removeprefix(prefix): ms
        for name, ms in report.phases_ms.items()
        if name.startswith(prefix)
    }


class QueryModel:
    """All that is known of the query of one checkpoint. One thread refreshes it; whoever reads it
    holds its `lock`."""

    def __init__(self, reader: CheckpointReader) -> None:
        self._reader = reader
        self.lock = threading.RLock()
        self.status, self.why = Status.GONE, ""
        self.facts: Mapping[str, str] = {}
        self.waiting = 0
        self.version = 0  # of what is known: another whenever it changes
        # Another whenever what was known does not hold any more. A page may be left from another
        # dashboard that was at this address.
        self.generation = getrandbits(32)
        self.seen_at: float | None = None  # when the checkpoint was there last
        self._divisions: dict[str, Division] | None = None  # None: may be another by now
        self._forget()

    @property
    def location(self) -> str:
        return self._reader.location

    def _forget(self) -> None:
        self.whole = Scope("")
        self.operators: dict[str, Scope] = {}
        self._divisions = None
        self.generation += 1

    @property
    def last_batch(self) -> int:
        return int(self.whole.ids[-1]) if len(self.whole.ids) else NOTHING

    def scope(self, operator: str = "") -> Scope:
        """An operator of a composed query by its name; or the query."""
        return self.operators.get(operator, self.whole)

    def refresh(self, budget_s: float | None = None) -> tuple[BatchReport, ...]:
        """Take in what is new, which is returned."""
        look = self._reader.look() if budget_s is None else self._reader.look(budget_s)
        with self.lock:
            self._take_in(look)
        if self._divisions is None and look.status is Status.HERE:
            found = self._reader.divisions()  # not while it is locked: a store may take its time
            with self.lock:
                self._divisions = found
                self.version += 1
        return look.reports

    def _take_in(self, look: Look) -> None:
        changed = (look.status, look.why, look.waiting) != (self.status, self.why, self.waiting)
        self.status, self.why, self.waiting = look.status, look.why, look.waiting
        if look.status is Status.HERE:
            self.seen_at = time.time()
        if look.facts is not None:
            self.facts = look.facts
        if look.forget_after is not None and len(self.whole.ids):
            self._forget_after(look.forget_after)
            changed = True
        if look.reports:
            self._add(look.reports)
            changed = True
        self.version += changed

    def _forget_after(self, batch_id: int) -> None:
        if batch_id == NOTHING:
            self._forget()
            return
        for scope in (self.whole, *self.operators.values()):
            scope.forget_after(batch_id)
        self._divisions = None
        self.generation += 1

    def _add(self, reports: Sequence[BatchReport]) -> None:
        before = self.last_batch
        if reports[0].batch_id <= before:
            self.generation += 1  # points before the last are new
        new = [report for report in reports if report.batch_id > before]
        if new and self._divides_anew(new):
            self._divisions = None
        self.whole.name = reports[-1].name
        ids = [report.batch_id for report in reports]
        self.whole.add(ids, [_timed(r, r, r.phases_ms) for r in reports], reports)
        for name in dict.fromkeys(o.name for r in reports for o in r.operators):
            told = [(r, o) for r in reports for o in r.operators if o.name == name]
            rows = [_timed(r, o, _own_phases(r, name)) for r, o in told]
            scope = self.operators.setdefault(name, Scope(name))
            scope.add([r.batch_id for r, _ in told], rows, [o for _, o in told])

    def _divides_anew(self, reports: Sequence[BatchReport]) -> bool:
        """Whether the work may be divided in another way after these batches than before."""
        if any(decision.accepted for report in reports for decision in report.decisions):
            return True
        last = reports[-1]
        for told in last.operators or (last,):
            before = self.scope(told.name).last
            if before is None or len(before.instances) != len(told.instances):
                return True
        return False

    def division(self, operator: str = "") -> Division | None:
        """How the work of an operator is divided now; of a query, that of its last operator, whose
        figures are told of it."""
        found = self._divisions or {}
        name = operator or next(reversed(self.operators), "")
        return found.get(name) if name else next(iter(found.values()), None)
