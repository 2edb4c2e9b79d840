"""The evaluation of FastJoin."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.model import Experiment, Paper, Scale


def run(scale: Scale) -> Iterator[Experiment]:
    yield from ()


PAPER = Paper(
    "FastJoin",
    'Zhou et al., "FastJoin: A Skewness-Aware Distributed Stream Join System", IPDPS 2019.',
    (),
    run,
)
