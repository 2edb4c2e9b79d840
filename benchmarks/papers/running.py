"""Measuring the papers: one after the other, or some at a time."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from benchmarks.measure import say
from benchmarks.papers.document import Results, all_items
from benchmarks.papers.model import Experiment, Paper, Scale


def measured(paper: Paper, scale: Scale) -> list[Experiment]:
    """All experiments of a paper; every figure that there is must have been told of."""
    found, begun = [], time.perf_counter()
    for experiment in paper.run(scale):
        told = ", ".join(item.item for item in experiment.items)
        say(f"{paper.name}: {experiment.name} ({told}), {time.perf_counter() - begun:.0f} s")
        found.append(experiment)
    missing = set(paper.expected) - {item.item for item in all_items(found)}
    if missing:
        raise AssertionError(f"{paper.name}: nothing is told of {', '.join(sorted(missing))}")
    return found


def measured_side_by_side(papers: Sequence[Paper], scale: Scale, jobs: int) -> Results:
    """All papers, some at a time, each in a process of its own. What is timed is processor time."""
    if jobs == 1 or len(papers) == 1:
        return {paper: measured(paper, scale) for paper in papers}
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh, max_tasks_per_child=1) as pool:
        found = pool.map(measured, papers, [scale] * len(papers))
        return dict(zip(papers, found, strict=True))
