"""The evaluation of Pd-Stream."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.model import Experiment, Paper, Scale


def run(scale: Scale) -> Iterator[Experiment]:
    yield from ()


PAPER = Paper(
    "Pd-Stream",
    'Sun et al., "A Popularity-Aware Discriminative Grouping Strategy in Distributed Stream '
    'Computing Systems".',
    (),
    run,
)
