"""Is LS-Stream ahead of FastJoin? On what that depends: scans, prices, partitions, weights."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.papers.contest import spread
from benchmarks.papers.lsstream_cluster import (
    CITY_PRICES,
    FASTJOIN,
    LSSTREAM,
    SYSTEMS,
    Bench,
    Didi,
    Seeds,
    System,
    bottlenecks,
    city_bench,
    fast_join,
    ls_stream,
)
from benchmarks.papers.model import Experiment, Item, Scale, Sheet, change, percent
from skewless.simulation.costs import Scan

FACTORS = (0.1, 1.0, 10.0)
SCANS: tuple[tuple[str, Scan, Scan], ...] = (
    ("FastJoin its instance, LS-Stream its partition (as the paper has it)", "instance", "slot"),
    ("both their instance", "instance", "instance"),
    ("both their partition", "slot", "slot"),
    ("both only rows of their key (an index)", "key", "key"),
)


def over_fastjoin(scale: Scale) -> Experiment:
    seeds = range(scale.pick(3, 1))
    base = city_bench(scale)
    measured = _gains(base, SYSTEMS[LSSTREAM], SYSTEMS[FASTJOIN], seeds)
    by_weight = _weights(base, scale, seeds)
    sheets = [_sheet_of_weights(by_weight)]
    if not scale.quick:
        sheets += [_pairs(base, seeds), _moves(base, seeds)]
    gain = statistics.fmean(measured)
    best = max(by_weight, key=lambda row: statistics.fmean(row[1]))
    return Experiment(
        "LS-Stream over FastJoin",
        "The city with 28 instances on 14 nodes, as for fig. 10; LS-Stream's bottleneck over "
        f"FastJoin's, in percent. {len(seeds)} cities, mean (least … most).",
        (
            Item(
                "figs. 8–11, over FastJoin", "bottleneck of LS-Stream over FastJoin's",
                "more than +6 % (fig. 11), +19 % at 28 instances (fig. 10)", "text",
                spread(measured), change(gain, 18.6),
                "eq. 11 adds rows (memory) and rows times rows (computing), so that at gamma 0.5 "
                "memory counts for nothing and partitions are moved by the squares of their rows, "
                "while time is spent per row. What is scanned, and what comparing and moving cost, "
                f"changes less than that: of the weights, best is {best[0]}, {spread(best[1])}",
            ),
        ),
        tuple(sheets),
    )  # fmt: skip


def _gains(bench: Bench, mine: System, other: System, seeds: Seeds) -> list[float]:
    pairs = zip(
        bottlenecks(bench, mine, Didi(), seeds), bottlenecks(bench, other, Didi(), seeds),
        strict=True,
    )  # fmt: skip
    return [percent(ours, theirs) for ours, theirs in pairs]


Weighted = tuple[str, list[float]]


def _weights(base: Bench, scale: Scale, seeds: Seeds) -> list[Weighted]:
    """Partitions, thresholds, and how much memory counts."""
    settings = [
        (gamma, partitions, alpha)
        for gamma in (0.5, 1.0)
        for partitions, alpha in scale.pick(((4, 1.0), (32, 1.0), (32, 0.5)), ((4, 1.0), (32, 0.5)))
    ]
    return [
        (
            f"gamma {gamma:g}, {partitions} partitions, alpha {alpha:g}",
            _gains(base, ls_stream(gamma=gamma, partitions=partitions, alpha=alpha),
                   SYSTEMS[FASTJOIN], seeds),
        )
        for gamma, partitions, alpha in settings
    ]  # fmt: skip


def _sheet_of_weights(rows: Sequence[Weighted]) -> Sheet:
    return Sheet(
        "What LS-Stream weighs: gamma 0.5 as published, gamma 1 memory alone",
        ("LS-Stream with", "over FastJoin"), tuple((name, spread(v)) for name, v in rows),
    )  # fmt: skip


def _pairs(base: Bench, seeds: Seeds) -> Sheet:
    """The price of a comparison over two decades, whatever a probe is compared with."""
    rows = []
    for name, fast, ls in SCANS:
        cells, other = [], fast_join(fast)
        for factor in FACTORS:
            bench = replace(base, costs=replace(CITY_PRICES, pair_ms=factor * CITY_PRICES.pair_ms))
            for mine in (ls_stream(scan=ls), ls_stream(scan=ls, partitions=32, alpha=0.5)):
                cells.append(spread(_gains(bench, mine, other, seeds), "{:+.0f} %"))
        rows.append((name, *cells))
    heads = [
        f"pair x {factor:g}, {what}"
        for factor in FACTORS
        for what in ("4 partitions", "32, alpha 0.5")
    ]
    return Sheet(
        "What a probe is compared with, and the price of a comparison "
        f"(x 1: {1e6 * CITY_PRICES.pair_ms:g} ns)", ("scan", *heads), tuple(rows),
    )  # fmt: skip


def _moves(base: Bench, seeds: Seeds) -> Sheet:
    rows = []
    for factor in FACTORS:
        costs = replace(
            CITY_PRICES, migrated_ms=factor * CITY_PRICES.migrated_ms,
            pause_ms=factor * (CITY_PRICES.pause_ms or 0.0),
        )  # fmt: skip
        bench = replace(base, costs=costs)
        gains = _gains(bench, SYSTEMS[LSSTREAM], SYSTEMS[FASTJOIN], seeds)
        rows.append((f"{costs.migrated_ms:g} ms a row, {costs.pause_ms:g} ms pause", spread(gains)))
    return Sheet("The price of moving", ("price", "LS-Stream over FastJoin"), tuple(rows))
