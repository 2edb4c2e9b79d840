"""The evaluation of FastJoin: figures 1 and 3 to 14."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers import (
    fastjoin_city,
    fastjoin_memory,
    fastjoin_settings,
    fastjoin_sweeps,
)
from benchmarks.papers.model import Experiment, Paper, Reading, Scale


def run(scale: Scale) -> Iterator[Experiment]:
    yield fastjoin_city.motivation(scale)
    base = fastjoin_city.at_48(scale)
    scans = fastjoin_sweeps.scans(scale)
    yield fastjoin_city.overall(base, fastjoin_sweeps.like_the_paper(scans))
    yield fastjoin_settings.instances(scale, base)
    yield fastjoin_settings.sizes(scale, base)
    yield fastjoin_settings.thresholds(scale, base)
    yield fastjoin_settings.selectors(scale, base)
    yield fastjoin_sweeps.groups(scale)
    yield fastjoin_sweeps.sensitivity(scale, scans)
    yield fastjoin_sweeps.adaptive(scale)
    yield fastjoin_memory.scaling(scale)


READINGS = (
    Reading(
        "algorithm 2: stop, queue, redirect", "vacuous",
        "On Spark no row moves: all instances can read all state files, and a new table takes "
        "effect between two batches. The virtual cluster pauses and transfers as the paper does.",
    ),
    Reading(
        "queue length φ (eq. 1)", "read otherwise",
        "Rows of a batch, all of which wait when it begins. No queue outlasts a batch here.",
    ),
    Reading(
        "two groups of instances, one per stored stream", "replaced",
        "An instance serves both directions; its load is the sum of the two products.",
    ),
    Reading("eq. 6", "read otherwise", "With the signs that eq. 8 needs: the target's load grows."),
    Reading(
        "LI beside an idle instance", "read otherwise",
        "The strongest imbalance, but below a load of 10,000 nothing is moved.",
    ),
    Reading(
        "SAFit's walk (algorithm 3)", "read otherwise",
        "Steps of one to three keys, a loss relative to the value, and sets that overfill the gap "
        "may be crossed while it is hot. How long it is in the paper is not told.",
    ),
    Reading(
        "statistics of all keys", "read otherwise",
        "keys_watched=\"all\" tells those with new rows in the batch; by default the 256 heaviest.",
    ),
)  # fmt: skip

PAPER = Paper(
    "FastJoin",
    'Zhou et al., "FastJoin: A Skewness-Aware Distributed Stream Join System", IPDPS 2019.',
    (*(f"fig. 1{part}" for part in "abcd"), *(f"fig. {number}" for number in range(3, 15))),
    run,
    READINGS,
)
