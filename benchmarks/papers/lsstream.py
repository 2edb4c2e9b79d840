"""The evaluation of LS-Stream: figs. 1, 2 and 7 to 15."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers import lsstream_alpha, lsstream_city, lsstream_sensitivity, lsstream_skew
from benchmarks.papers.model import Experiment, Paper, Reading, Scale


def run(scale: Scale) -> Iterator[Experiment]:
    yield lsstream_city.distribution(scale)
    yield lsstream_skew.skew(scale)
    yield lsstream_skew.readings(scale)
    yield lsstream_city.throughput(scale)
    yield lsstream_city.latency(scale)
    yield lsstream_alpha.thresholds(scale)
    yield lsstream_alpha.adaptive(scale)
    yield lsstream_sensitivity.over_fastjoin(scale)


READINGS = (
    Reading(
        "block, migrate, release (section V-B)", "vacuous",
        "a partition moves between two batches by a change of the routing table; rows lie in files "
        "that any instance reads, so nothing is blocked, sent or released. The virtual cluster "
        "stops both instances all the same, as the paper's system does",
    ),
    Reading(
        "eq. 4, the average input rate", "read otherwise",
        "the mean without the highest and the lowest, as the text says; the equation divides by "
        "the whole period, which makes a steady rate a lower one",
    ),
    Reading(
        "eq. 25, the migration impact factor", "read otherwise",
        "as printed: ΔR, in rows times rows, is added to lb, in milliseconds, and outweighs it by "
        "five orders unless an instance is saturated",
    ),
    Reading(
        "eqs. 26 and 32, lines 9 and 20 of algorithm 1", "read otherwise",
        "the impact factor is maximised; a worse set is accepted with exp((new − old)/T); both "
        "conditions must hold; the first set is built to be feasible, and where (30) is out of "
        "reach, a set that surely lowers the straggler will do",
    ),
    Reading(
        "queue length QL (eq. 7)", "read otherwise",
        "the rows that probe in a batch, as in the example of fig. 4",
    ),
)  # fmt: skip


PAPER = Paper(
    "LS-Stream",
    'Wu et al., "LS-Stream: Lightening Stragglers in Join Operators for Skewed Data '
    'Stream Processing".',
    tuple(f"fig. {number}" for number in (1, 2, *range(7, 16))),
    run,
    READINGS,
)
