"""The evaluation of TriJoin."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.model import Experiment, Paper, Scale


def run(scale: Scale) -> Iterator[Experiment]:
    yield from ()


PAPER = Paper(
    "TriJoin",
    'Yu et al., "TriJoin: A Time-Efficient and Scalable Three-Way Distributed Stream Join System".',
    (),
    run,
)
