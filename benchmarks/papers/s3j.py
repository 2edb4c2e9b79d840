"""The evaluation of S3J."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.model import Experiment, Paper, Scale


def run(scale: Scale) -> Iterator[Experiment]:
    yield from ()


PAPER = Paper(
    "S3J",
    'Siachamis et al., "Adaptive Distributed Streaming Similarity Joins", DEBS 2023.',
    (),
    run,
)
