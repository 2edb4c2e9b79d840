"""Does `strategy="auto"` of `sk.similarity_join` choose what is faster?

    python -m benchmarks.similarity_choice [--json] [--quick] [--rounds N]

`auto` beside `sk.BruteForce()`, in many cases: few and many dimensions and rows, narrow and wide
thresholds and times, one task or many, all metrics, first batches and long streams. Without Spark,
in one process: the two take turns batch by batch, and of each batch the median of some rounds
counts, in processor time with all of it included. Matrix products have one thread.

- *ratio*: auto's time over BruteForce's, of all batches; *first* is that of the first one.
- *sets*: in how many of the batches auto had worksets.

What comes out above the bound is measured again, with three times the rounds: much of it is noise.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from benchmarks.measure import Json, run_fresh, say
from benchmarks.similarity import one_thread_each
from benchmarks.similarity_core import WINDOW_S, Case, Counting, one_batch
from benchmarks.tables import Target, console, count, machine, machine_line, verdict
from benchmarks.telling import start
from skewless.arrays.types import Floats
from skewless.engine.lifecycle import Query
from skewless.engine.pipeline import Pipeline
from skewless.operators.similarity.operator import SimilarityOperator
from skewless.operators.similarity.strategies import (
    AutoSimilarity,
    BruteForce,
    SimilarityStrategy,
)
from skewless.workloads import Vectors

SLOWER_MOST = 1.1
AGAIN = 3  # times the rounds
SHOWN = 20  # cases in which auto is the slowest
WORK_MOST = 300e6  # of a batch, in pairs
IN_A_PROCESS = 12  # cases
SHORT = [
    (Vectors(dimension, clusters=clusters), selectivity)
    for dimension, clusters, selectivity in product((2, 8), (0, 32), (0.01, 0.0001))
]
SIZES = [(500, 1), (2000, 1), (2000, 16), (10_000, 1), (10_000, 32), (30_000, 1), (30_000, 8)]
LONG = [Vectors(dimension, clusters=clusters) for dimension in (64, 384) for clusters in (0, 32)]
METRICS = ("angular", "manhattan", "hamming", "jaccard", "haversine")


@dataclass(frozen=True)
class Times:
    """When rows come, and how far apart their times may be: in one window of a minute, if that is
    not said."""

    batches: int  # of a minute
    within_s: float | None = None
    late_s: int = 0

    def of(self, case: Case, rows: int, tasks: int = 1) -> Case:
        """A case with so many rows in a batch of each stream."""
        return replace(
            case, rows=rows * self.batches, batches=self.batches, within_s=self.within_s,
            late_s=self.late_s, tasks=tasks,
        )  # fmt: skip


CLOSE, NEAR, WINDOW = Times(6, 1, 600), Times(6, 10), Times(4)
BASE = Case(Vectors(), 0.001, instances=2, rows=0, windows=1, metric="euclidean")


def cases() -> Iterator[Case]:
    """All that are measured."""
    for (data, selectivity), (rows, tasks), times in product(SHORT, SIZES, (CLOSE, NEAR, WINDOW)):
        base = replace(BASE, data=data, selectivity=selectivity)
        yield times.of(base, rows, tasks)
    for data, rows, times in product(LONG, (1000, 2000, 10_000), (CLOSE, WINDOW)):
        yield times.of(replace(BASE, data=data), rows)
    for metric, (rows, tasks), times in product(METRICS, SIZES[1:5], (CLOSE, WINDOW)):
        data = Vectors(2) if metric == "haversine" else Vectors(8, clusters=32)
        yield times.of(replace(BASE, data=data, metric=metric), rows, tasks)
    for rows, times in product((1000, 5000), (CLOSE, NEAR, Times(6))):
        yield times.of(replace(BASE, windows=5), rows)


def work(case: Case) -> float:
    """What a batch takes where everything is compared: pairs that are near enough in time, with
    longer vectors as so many more."""
    rows, seconds = case.rows / case.batches, WINDOW_S / case.batches
    reach = case.batches / 2 if case.within_s is None else 2 * case.within_s / seconds
    return rows * rows * reach * (1 + case.data.dimension / 16)


def measure(case: Case, rounds: int) -> Json:
    """A case in this process."""
    for small in (AutoSimilarity(), BruteForce()):
        spent_s(replace(case, rows=60 * case.batches, windows=1), [small])
    spent, with_sets = [], 0
    for number in range(rounds):
        strategies: list[SimilarityStrategy] = [AutoSimilarity(), BruteForce()]
        order = (0, 1) if number % 2 == 0 else (1, 0)
        both, with_sets = spent_s(case, [strategies[i] for i in order])
        spent.append(both[list(order)])
    auto, brute = np.median(spent, axis=0)
    return {
        "ratio": round(float(auto.sum() / brute.sum()), 3),
        "first": round(float(auto[0] / brute[0]), 3),
        "brute_force_ms": round(1000 * float(brute.mean()), 1),
        "batches": len(auto),
        "with_worksets": with_sets,
    }


def spent_s(case: Case, strategies: Sequence[SimilarityStrategy]) -> tuple[Floats, int]:
    """The processor time of each strategy in each batch, and in how many of them some had worksets.
    All find the same pairs."""
    tables = list(case.stretches())
    spent = np.zeros((len(strategies), len(tables)))
    found = np.zeros_like(spent)
    with_sets = 0
    with tempfile.TemporaryDirectory(prefix="skewless-bench-") as root:
        queries = []
        for i, strategy in enumerate(strategies):
            operator = SimilarityOperator(case.spec(), strategy, case.instances)
            queries.append(Query(f"{root}/{i}", Pipeline.of(operator), keep_history=1))
            queries[-1].open()
        gc.collect()
        for number, both in enumerate(tables):
            for i, query in enumerate(queries):
                begun_s = time.process_time()
                report = one_batch(query, Counting(), number, both, case.tasks)
                spent[i, number] = time.process_time() - begun_s
                found[i, number] = report.matches
                with_sets += report.counters["workset_distances"] > 0
    assert (found == found[0]).all(), f"other pairs than all: {case}"
    return spent, with_sets


def in_turn(parameters: Json) -> Json:
    """Some cases, one after the other, for a fresh process."""
    gc.freeze()  # as in Spark's workers: loaded libraries are not to be searched
    found = []
    for given in parameters["cases"]:
        case = Case(Vectors(**given["data"]), **{k: v for k, v in given.items() if k != "data"})
        figures = measure(case, parameters["rounds"])
        if figures["ratio"] > SLOWER_MOST:
            figures = measure(case, AGAIN * parameters["rounds"])
        found.append({"case": named(case), **figures})
    return {"cases": found}


def measured(chosen: list[Case], rounds: int) -> list[Json]:
    """All cases, some in a process at a time."""
    found: list[Json] = []
    for at in range(0, len(chosen), IN_A_PROCESS):
        some = [asdict(case) for case in chosen[at : at + IN_A_PROCESS]]
        with one_thread_each():
            found += run_fresh(in_turn, {"cases": some, "rounds": rounds})["cases"]
        for one in found[at:]:
            say(f"{one['case']}: {one['ratio']:.2f}, {one['first']:.2f} at first")
    return found


def named(case: Case) -> str:
    data = f"{case.data.clusters} clusters" if case.data.clusters else "even"
    times = "a window" if case.within_s is None else f"within {case.within_s:g} s"
    late = f", late {case.late_s} s" if case.late_s else ""
    tasks = f" in {case.tasks} tasks" if case.tasks > 1 else ""
    return (f"{case.metric}, {case.data.dimension} dimensions, {data}, "
            f"{100 * case.selectivity:g} %, {times}{late}, {case.batches * case.windows} × "
            f"{count(case.rows / case.batches)} rows{tasks}")  # fmt: skip


def show(found: list[Json]) -> None:
    ratios = np.array([one["ratio"] for one in found])
    out = console()
    out.print(f"{len(found)} cases; auto's time over BruteForce's: {ratios.min():.2f} to "
              f"{ratios.max():.2f}, half of them below {np.median(ratios):.2f}")  # fmt: skip
    table = Table(title=f"The {SHOWN} in which it is the slowest", title_justify="left")
    for heading in ("case", "ratio", "first", "sets", "BruteForce, ms a batch"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for one in sorted(found, key=lambda one: -one["ratio"])[:SHOWN]:
        table.add_row(
            one["case"], f"{one['ratio']:.2f}", f"{one['first']:.2f}",
            f"{one['with_worksets']}/{one['batches']}", f"{one['brute_force_ms']:.1f}",
        )  # fmt: skip
    out.print(table)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Every twelfth case, once.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="How often each case is measured.")] = 3,
) -> None:
    """Compare `auto` with comparing everything, case by case."""
    chosen = [case for case in cases() if work(case) <= WORK_MOST]
    chosen, rounds = (chosen[::12], 1) if quick else (chosen, rounds)
    told = machine()
    found = measured(chosen, rounds)
    target = Target("auto's time over BruteForce's, the most", "<=", SLOWER_MOST)
    judged = target.judge(max(one["ratio"] for one in found))
    if as_json:
        print(json.dumps({"benchmark": "similarity_choice", "machine": told, "cases": found,
                          "targets": [judged]}))  # fmt: skip
        return
    console().print(machine_line(told), "\n")
    show(found)
    console().print(f"{judged['figure']}: {judged['value']:.3g}  {verdict(judged)}")


if __name__ == "__main__":
    start(main)
