"""From what the instances reported of a batch to one report of its load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skewless.arrays.types import Floats
from skewless.engine.report import InstanceLoad, InstanceReport
from skewless.placement.figures import Figures, LoadReport, WatchedKey
from skewless.placement.units import RoutingTable, slot_of

# Work is told per instance; within one it is divided by rows and pairs, at this price of a pair
# in rows.
PAIR_WEIGHT = 0.2


def load_report(
    batch_id: int, table: RoutingTable, reports: Sequence[InstanceReport]
) -> LoadReport:
    """All instances together. What a split key's parts tell is put together to what it would have
    told in one piece."""
    slots = Figures.zeros(table.slots)
    keys: dict[int, dict[str, float]] = {}
    values: dict[int, str] = {}
    own = {u.hash_min for units in table.units for u in units if u.isolated}
    copies = _copies(table)
    for report in (report for report in reports if report.detail["slots"]):
        figures, rate = report.detail, _rate(report.load)
        for name, column in (figures["slots"] | _times(figures["slots"], rate)).items():
            np.add.at(getattr(slots, name), figures["slot"], column)
        columns = figures["keys"] | _times(figures["keys"], rate)
        for i, key in enumerate(figures["key"]):
            values[key] = values.get(key) or figures["value"][i]
            mine = keys.setdefault(key, dict.fromkeys(columns, 0.0))
            for name, column in columns.items():
                mine[name] += column[i] / copies.get((key, name), 1)
    ranked = sorted(keys)
    watched = tuple(
        WatchedKey(key, values[key], slot_of(key, table.slots), key in own) for key in ranked
    )
    of_keys = {name: [keys[k][name] for k in ranked] for name in Figures.zeros(0).arrays()}
    times = tuple(report.load.time_ms for report in reports)
    return _with_newcomers(LoadReport(batch_id, slots, watched, Figures.from_json(of_keys), times))


def _copies(table: RoutingTable) -> dict[tuple[int, str], int]:
    """How many instances tell of the same rows of a key apart: all find the same stored rows, and
    where these are cut, all probe with the same rows."""
    result: dict[tuple[int, str], int] = {}
    for unit in (unit for units in table.units for unit in units if unit.isolated):
        for cut, side, other in ((unit.left, "left", "right"), (unit.right, "right", "left")):
            if cut is None:
                continue
            result[unit.hash_min, f"stored_{other}"] = cut.parts
            result[unit.hash_min, f"bytes_{other}"] = cut.parts
            if cut.of == "stored":
                result[unit.hash_min, f"probing_{side}"] = cut.parts
    return result


def _weights(columns: dict[str, Any], side: str) -> Floats:
    probing, pairs = (np.asarray(columns[f"{what}_{side}"], float) for what in ("probing", "pairs"))
    return probing + PAIR_WEIGHT * pairs


def _rate(load: InstanceLoad) -> float:
    """Milliseconds per unit of weight at one instance, of its counted work: what a part of it is
    told to be is then a part of what all of it is told to be."""
    weight = load.rows + PAIR_WEIGHT * load.pairs
    return (load.work_ms or load.time_ms) / weight if weight else 0.0


def _times(columns: dict[str, Any], rate: float) -> dict[str, Floats]:
    return {f"time_{side}_ms": rate * _weights(columns, side) for side in ("left", "right")}


def _with_newcomers(report: LoadReport) -> LoadReport:
    """Instances count what was stored before the batch; the new rows are stored now."""
    for figures in (report.slots, report.key_figures):
        figures.stored_left[:] += figures.probing_left
        figures.stored_right[:] += figures.probing_right
    return report
