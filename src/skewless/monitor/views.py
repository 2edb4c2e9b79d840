"""What the page shows, as plain JSON: views of a model. Nothing here knows of HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from skewless.arrays.types import Floats
from skewless.engine.loss import loss_text
from skewless.monitor.model import Decided, QueryModel, Scope
from skewless.monitor.reading import Division
from skewless.monitor.thinning import Buckets, plain
from skewless.placement.places import IsolatedKey

Json = dict[str, Any]

POINTS, POINTS_MAX = 400, 2000
HEAT_ROWS = 128
KEYS_SHOWN = 8
KEYS_LISTED = 12
DECISIONS_MAX = 500
SETTLES_IN = 5  # batches after a decision, by which its effect is judged
SPARK_POINTS = 60
CELLS_MAX = 4096  # of the picture of slots

# Columns of which peaks count, and those that are sums; of all others the mean is told.
PEAKS = frozenset({"rate", "rows", "out", "ms", "busiest", "lag_s", "behind_s", "state_rows",
                   "state_bytes", "instances"})  # fmt: skip
SUMS = ("dropped/", "late", "dropped")
EXACT_DIGITS = 13  # of a moment: milliseconds


@dataclass(frozen=True)
class Window:
    """What of a query is asked for: an operator, or all of it; its last batches, or all; in how
    many points; and what the asker has already: all up to `since` of a generation."""

    operator: str = ""
    batches: int = 0
    points: int = POINTS
    since: int = -1

    def first(self, scope: Scope) -> int:
        if not len(scope.ids):
            return 0
        first = int(scope.ids[0])
        return first if not self.batches else max(first, int(scope.ids[-1]) - self.batches + 1)

    def buckets(self, scope: Scope) -> Buckets:
        return Buckets.of(scope.ids, self.first(scope), self.points, self.since)


def _place(buckets: Buckets, first: int) -> Json:
    """Which points these are: all from the first of them on take the place of what was there."""
    begins = buckets.firsts
    return {
        "width": buckets.width,
        "first": first // buckets.width * buckets.width,
        "at": begins,
    }


def series(model: QueryModel, window: Window) -> Json:
    """All columns, thinned out."""
    scope = model.scope(window.operator)
    buckets = window.buckets(scope)
    columns = {
        name: _thinned(name, values, buckets)
        for name, values in scope.columns.items()
        if not name.startswith("host/")
    }
    return _place(buckets, window.first(scope)) | {"columns": columns}


def _thinned(name: str, values: Floats, buckets: Buckets) -> Json:
    """A column in as many points as there are buckets, by what counts of it."""
    if name == "ended_s":
        return {"max": plain(buckets.most(values), EXACT_DIGITS)}
    if name.startswith(SUMS):
        return {"sum": plain(buckets.total(values))}
    # Of a part of a sum, such as a phase, what is not there is nothing.
    mean = buckets.mean(np.nan_to_num(values) if "/" in name else values)
    if name not in PEAKS or buckets.width == 1:
        return {"mean": plain(mean)}
    ends = {"min": plain(buckets.least(values)), "max": plain(buckets.most(values))}
    return {"mean": plain(mean)} | ends


def heat(model: QueryModel, window: Window) -> Json:
    """Work by instance and batch: the most of each bucket. Where there are too many instances for
    a screen, neighbours share a line, which shows the busiest of them."""
    scope = model.scope(window.operator)
    buckets = window.buckets(scope)
    first = int(np.searchsorted(scope.ids, window.first(scope)))
    instances = max((len(load) for load in scope.loads[first:]), default=0)
    group = -(-instances // HEAT_ROWS) or 1
    lines = -(-instances // group)
    cells = np.full((len(buckets), lines * group), np.nan, np.float32)
    ends = [*buckets.starts.tolist(), len(buckets.numbers)]
    for bucket, (begin, end) in enumerate(pairwise(ends)):
        for load in scope.loads[buckets.low + begin : buckets.low + end]:
            cell = cells[bucket, : len(load)]
            np.fmax(cell, load, out=cell)
    shown = np.full((len(buckets), lines), np.nan, np.float32)
    for number in range(group):
        np.fmax(shown, cells[:, number::group], out=shown)
    return _place(buckets, window.first(scope)) | {
        "instances": instances,
        "group": group,
        "work_ms": [plain(line.astype(float), 3) for line in shown.T],
    }


def keys(model: QueryModel, window: Window) -> Json:
    """The heaviest keys over all batches that are shown, and the shares of the first of them."""
    scope = model.scope(window.operator)
    buckets = window.buckets(scope)
    begin = int(np.searchsorted(scope.ids, window.first(scope)))
    rows = np.nan_to_num(scope.column("rows"))[begin:]
    of_batch, shares = scope.keys.of_batch[begin:], scope.keys.shares[begin:]
    there = of_batch >= 0
    weight = (shares * rows[:, None])[there]
    totals = np.bincount(of_batch[there], weight, minlength=len(scope.keys.names))
    order = np.argsort(-totals, kind="stable")[:KEYS_LISTED].tolist()
    order = [number for number in order if totals[number] > 0]
    every, latest = max(float(rows.sum()), 1.0), len(scope.ids) - 1
    listed = []
    for number in order:
        share = scope.keys.share(number)
        among = np.flatnonzero(share[begin:] > 0)
        listed.append(
            {
                "key": scope.keys.names[number],
                "share": float(plain(np.array([totals[number] / every]))[0]),
                "now": float(plain(share[latest:])[0]),
                "most": float(plain(np.array([share[begin:].max()]))[0]),
                "batches": len(among),
                "since": int(scope.ids[begin + among[0]]),
                **_whereabouts(model, window.operator, scope.keys.names[number]),
            }
        )
    lines = [plain(buckets.most(scope.keys.share(n)), 4) for n in order[:KEYS_SHOWN]]
    return _place(buckets, window.first(scope)) | {"keys": listed, "shares": lines}


def _whereabouts(model: QueryModel, operator: str, value: str) -> Json:
    """Who works on a key, if the placement says so."""
    division, watched = model.division(operator), model.scope(operator).watched.get(value)
    if division is None or division.placement is None or watched is None:
        return {"instances": None, "apart": False}
    own = division.placement.isolated_key(watched.hash)
    if own is not None:
        return {"instances": list(own.instances), "apart": True}
    if watched.slot >= division.slots:
        return {"instances": None, "apart": False}
    return {"instances": [int(division.placement.instance_of[watched.slot])], "apart": False}


def decisions(model: QueryModel, window: Window) -> Json:
    """Every change that was proposed in the batches that are shown, the latest first, and how even
    the work was before and after."""
    scope = model.scope(window.operator)
    first = window.first(scope)
    shown = [d for d in scope.decided if d.batch_id >= first]
    kinds: dict[str, int] = {}
    for one in shown:
        if one.decision.accepted:
            kinds[one.decision.kind] = kinds.get(one.decision.kind, 0) + 1
    return {
        "decisions": [
            # How even the work of several operators is, no one figure says.
            _decision(scope, d, is_judged=scope is not model.whole or not model.operators)
            for d in reversed(shown[-DECISIONS_MAX:])
        ],
        "all": len(shown),
        "refused": sum(not d.decision.accepted for d in shown),
        "kinds": kinds,
        "notes": [{"batch": b, "note": n} for b, n in reversed(scope.noted) if b >= first][:50],
    }


def _decision(scope: Scope, decided: Decided, *, is_judged: bool) -> Json:
    at = int(np.searchsorted(scope.ids, decided.batch_id))
    ratios = scope.column("busiest")
    after = ratios[at + 1 : at + 1 + SETTLES_IN]
    if not is_judged:
        after = np.zeros(0)
    return asdict(decided.decision) | {
        "batch": decided.batch_id,
        "ended_s": _number(scope.column("ended_s"), at),
        "before": round(float(ratios[at]), 2) if is_judged else None,
        "after": round(float(np.median(after)), 2) if len(after) else None,
    }


def _number(column: Floats, row: int) -> float | None:
    value = float(column[row])
    return None if np.isnan(value) else value


def placement(model: QueryModel, window: Window) -> Json:
    """Who works on what, and how much that was in the last batch."""
    division = model.division(window.operator)
    if division is None:
        return {"strategy": None, "of_several": bool(model.operators) and not window.operator}
    told: Json = {
        "strategy": division.strategy,
        "slots": division.slots,
        "instances": division.instances,
        "placed": division.placement is not None,
    }
    return told | (_picture(model.scope(window.operator), division) if told["placed"] else {})


def _picture(scope: Scope, division: Division) -> Json:
    """The work of every instance on its slots, and on each key that has a place of its own."""
    place, last = division.placement, scope.last
    assert place is not None
    work = np.zeros(place.slots)
    if last is not None and last.slots is not None and len(last.slots) == place.slots:
        work = last.slots.time_left_ms + last.slots.time_right_ms
    of_key: dict[int, float] = {}
    if last is not None and last.key_figures is not None:
        spent = last.key_figures.time_left_ms + last.key_figures.time_right_ms
        of_key = {key.hash: float(ms) for key, ms in zip(last.keys, spent, strict=True)}
    on_slots: Floats = np.bincount(place.instance_of, work, place.instances).astype(float)
    ranked = sorted(place.isolated, key=lambda own: -of_key.get(own.hash, 0.0))
    return {
        "slots_of": np.bincount(place.instance_of, minlength=place.instances).tolist(),
        "on_slots_ms": plain(on_slots, 4),
        "own": [_own(key, of_key.get(key.hash, 0.0)) for key in ranked],
        **_cells(place.instance_of.astype(np.int64), work),
    }


def _own(key: IsolatedKey, ms: float) -> Json:
    return {
        "key": key.value,
        "slot": key.slot,
        "instances": list(key.instances),
        "split": key.is_split,
        "work_ms": round(ms, 3),
    }


def _cells(instance_of: np.ndarray[Any, np.dtype[np.int64]], work: Floats) -> Json:
    """The slots in the order of their hashes; several in one cell where there are very many."""
    each = -(-len(work) // CELLS_MAX)
    starts = np.arange(0, len(work), each)
    return {
        "slots_per_cell": each,
        "cell_instance": instance_of[starts].tolist(),
        "cell_ms": plain(np.add.reduceat(work, starts), 3) if len(work) else [],
    }


def hosts(model: QueryModel, window: Window) -> Json:
    """Bytes between each host and the store, over the batches, and in the mean one."""
    scope = model.scope(window.operator)
    buckets = window.buckets(scope)
    begin = int(np.searchsorted(scope.ids, window.first(scope)))
    names = sorted({name.rpartition("/")[0] for name in scope.names("host/")})
    told = []
    for name in names:

        def column(what: str, name: str = name) -> Floats:
            return np.nan_to_num(scope.column(f"host/{name}/{what}"))

        mean = {
            what: float(column(what)[begin:].mean())
            for what in ("fetched_bytes", "written_bytes", "requests", "hits", "misses")
        }
        told.append(
            {
                "host": name,
                **{what: round(value, 1) for what, value in mean.items()},
                "fetched": plain(buckets.mean(column("fetched_bytes")), 4),
                "written": plain(buckets.mean(column("written_bytes")), 4),
            }
        )
    return _place(buckets, window.first(scope)) | {"hosts": told}


VIEWS: Mapping[str, Callable[[QueryModel, Window], Json]] = {
    "series": series,
    "heat": heat,
    "keys": keys,
    "decisions": decisions,
    "placement": placement,
    "hosts": hosts,
}


def overview(model: QueryModel, window: Window | None = None) -> Json:
    """A query in a few figures: of its last batch, and how it went lately."""
    scope = model.scope("" if window is None else window.operator)
    known = len(scope.ids)
    told: Json = {
        "checkpoint": model.location,
        "name": model.whole.name or model.facts.get("kind", ""),
        "kind": model.facts.get("kind", ""),
        "status": model.status.value,
        "why": model.why,
        "version": model.version,
        "generation": model.generation,
        "operators": list(model.operators),
        "batches": known,
        "waiting": model.waiting,
        "last_batch": model.last_batch,
        "now_s": round(time.time(), 3),
        "seen_s": model.seen_at,
    }
    if not known:
        return told
    row = {name: _number(column, known - 1) for name, column in scope.columns.items()
           if not name.startswith("host/")}  # fmt: skip
    lately = scope.column("rate")[-SPARK_POINTS:]
    told |= {"row": row, "rates": plain(lately, 4)}
    last = scope.last
    if last is None:
        return told
    return told | {
        "verdict": last.verdict,
        "idle": list(last.idle),
        "loss": loss_text(last.rows, last.dropped, last.lateness),
    }


def about(model: QueryModel) -> Json:
    """What the query does, as its checkpoint says."""
    return {"facts": dict(model.facts)}
