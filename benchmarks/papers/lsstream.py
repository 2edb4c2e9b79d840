"""The evaluation of LS-Stream."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.model import Experiment, Paper, Scale


def run(scale: Scale) -> Iterator[Experiment]:
    yield from ()


PAPER = Paper(
    "LS-Stream",
    'Wu et al., "LS-Stream: Lightening Stragglers in Join Operators for Skewed Data '
    'Stream Processing".',
    (),
    run,
)
