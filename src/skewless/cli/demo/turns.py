"""What a join did in one batch of the demo, and the file in which that is kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from skewless.engine.report import BatchReport, loads_ms
from skewless.placement.balancing.imbalance import max_over_mean
from skewless.placement.figures import Decision

SPARK, HASH, AUTO = "spark", "hash", "auto"
TITLES = {SPARK: "Spark's own", HASH: "Hash", AUTO: "Auto"}
BY_RESULTS = "*by the results that each task found: Spark does not tell its work"


@dataclass(frozen=True)
class Turn:
    """One join, one batch: how long the result took, and how much each task had to do. Of Spark's
    own join, that is the results that each task found; of ours, the work as it is counted.
    `changes` are what was decided after the batch. Of the event's cell there are its shares of the
    rows, of the results and of the work. A `cold` turn is the first of a run: the query was
    started in it."""

    who: str
    batch: int
    seconds: float
    results: int
    loads: tuple[float, ...]
    cell_rows: float = 0.0
    cell_results: float = 0.0
    changes: tuple[Decision, ...] = ()
    cold: bool = False
    cell_work: float = 0.0

    @property
    def busiest_over_mean(self) -> float:
        return max_over_mean(np.array(self.loads, float))

    @staticmethod
    def from_json(data: dict[str, Any]) -> Turn:
        changes = tuple(Decision(**change) for change in data["changes"])
        return Turn(**data | {"loads": tuple(data["loads"]), "changes": changes})


def turn_of(
    who: str, report: BatchReport, seconds: float, cell: int, *, cold: bool = False
) -> Turn:
    """The turn of one of our joins, from what it reports."""
    shares = {key.value: key.share for key in report.heavy_keys}
    loads = loads_ms(report.instances)
    results, work = _of_key(report, str(cell))
    return Turn(
        who,
        report.batch_id,
        seconds,
        report.matches,
        tuple(loads.round(3).tolist()),
        shares.get(str(cell), 0.0),
        _share(results, report.matches),
        tuple(decision for decision in report.decisions if decision.accepted),
        cold,
        _share(work, float(loads.sum())),
    )


def _of_key(report: BatchReport, value: str) -> tuple[float, float]:
    """The results of one key, and its work in milliseconds."""
    figures = report.key_figures
    mine = [at for at, key in enumerate(report.keys) if key.value == value]
    if figures is None or not mine:
        return 0.0, 0.0
    work = figures.time_left_ms + figures.time_right_ms
    return float(figures.matches[mine].sum()), float(work[mine].sum())


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


class Turns:
    """All turns so far, each in a line of a file: a demo that goes on knows what was before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[tuple[str, int], Turn] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            try:
                turn = Turn.from_json(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue  # a line that was being written when everything ended
            self._found[turn.who, turn.batch] = turn

    def add(self, turn: Turn) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(turn)) + "\n")
        self._found[turn.who, turn.batch] = turn

    def of(self, who: str, batches: Iterable[int] | None = None) -> list[Turn]:
        """The turns of a join, the earliest first; of some batches, if they are told."""
        mine = sorted(batch for name, batch in self._found if name == who)
        asked = mine if batches is None else sorted(set(batches) & set(mine))
        return [self._found[who, batch] for batch in asked]

    def done(self, who: str) -> int:
        """How many batches a join has done."""
        return max((batch + 1 for name, batch in self._found if name == who), default=0)


def ratio_text(who: str, ratio: float) -> str:
    """How even a join was; of Spark's, marked: it is of something else (`BY_RESULTS`)."""
    return f"{ratio:.2f}{'*' if who == SPARK else ''}"


def median_seconds(turns: Sequence[Turn]) -> float:
    """Of a few batches: one may be odd, and a query's first one always is."""
    warm = [turn.seconds for turn in turns if not turn.cold]
    return median(warm or [turn.seconds for turn in turns] or [0.0])


def median_ratio(turns: Sequence[Turn]) -> float:
    return median([turn.busiest_over_mean for turn in turns] or [1.0])
