"""FastJoin on the groups Gxy (figures 12 and 13), and what its figures depend on."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.papers.contest import PRICES, PRICES_TOLD, Contest, Ground, Run, city_stream, spread
from benchmarks.papers.fastjoin_city import (
    BI,
    CITY,
    CONT,
    FAST,
    OURS,
    SYSTEMS,
    fast,
    published,
    seeds,
)
from benchmarks.papers.model import Experiment, Item, Scale, Sheet, Verdict
from skewless.placement.balancing.auto import Auto
from skewless.placement.routing import ContRand, Hash
from skewless.simulation.costs import Scan
from skewless.simulation.workloads import Stream, Zipf

SKEWS = (0, 1, 2)
PAIR_MS = (1e-8, 1e-7, 1e-6)
PAIR_MS_OF_KEY = (2e-7, 2e-6, 2e-5)  # a key has a thousandth of the rows of an instance
MOVED_MS = (1.7e-5, 1.7e-4, 1.7e-3)
PAUSES_MS = (0.1, 1.0, 4.0)
FIXED = (1.4, 1.8, 2.2, 3.0, 4.0)
# How far hot spots travel in a day, and how long a pause is.
COURSES = (
    ("drifting", 0.2, 1.0), ("drifting", 0.2, 0.1), ("drifting", 0.2, 4.0), ("steady", 0.0, 1.0),
    ("drifting fast", 1.0, 1.0),
)  # fmt: skip


def never_behind(gains: Mapping[str, Sequence[float]], slack: float = 0.5) -> Verdict:
    """The verdict on groups in which one system is to lead: trend only, if it is behind by more
    than half a percent in less than a quarter of them, and ahead in more than half.

    >>> never_behind({"G00": [0.0], "G01": [9.0], "G11": [4.0]}), never_behind({"G00": [-3.0]})
    ('trend only', 'opposite')
    """
    means = [statistics.fmean(of) for of in gains.values()]
    behind, ahead = (sum(m < -slack for m in means), sum(m > slack for m in means))
    return "trend only" if 4 * behind < len(means) < 2 * ahead else "opposite"


def group(x: int, y: int, keys: int) -> Callable[[int], Stream]:
    def make(seed: int) -> Stream:
        return Zipf(
            keys=keys, left=float(x), right=float(y), rows_left=100_000, rows_right=100_000,
            seed=seed,
        )  # fmt: skip

    return make


def groups(scale: Scale) -> Experiment:
    """Figures 12 and 13."""
    keys, batches = scale.pick(10_000, 2_000), scale.pick(20, 14)
    held = {
        f"G{x}{y}": Contest.held(
            Ground(group(x, y, keys), 48, batches), published(48) | {OURS: Auto()}, seeds(scale)
        )
        for x in SKEWS
        for y in SKEWS
    }
    gains = {over: {g: c.gains(FAST, over) for g, c in held.items()} for over in (BI, CONT)}
    less = {
        over: {g: [-v for v in c.later(FAST, over)] or [0.0] for g, c in held.items()}
        for over in (BI, CONT)
    }
    behind = [
        f"{over} in {g}" for over in (BI, CONT) for g, of in gains[over].items()
        if statistics.fmean(of) < -0.5
    ]  # fmt: skip
    why = (
        "trend if it leads in most comparisons, and is behind in less than a quarter. Behind "
        f"{', '.join(behind) or 'nobody'}. Where both sides are skewed one key has most of the "
        "load, which FastJoin cannot divide and ContRand halves"
    )

    def told(of: Mapping[str, Mapping[str, Sequence[float]]], sign: int = 1) -> str:
        return "; ".join(
            f"{g}: {sign * statistics.fmean(of[BI][g]):+.0f} %, "
            f"{sign * statistics.fmean(of[CONT][g]):+.0f} %"
            for g in held
        )

    def verdict(of: Mapping[str, Mapping[str, Sequence[float]]]) -> Verdict:
        both = {f"{over} {g}": values for over in (BI, CONT) for g, values in of[over].items()}
        return never_behind(both)

    items = (
        Item(
            "fig. 12", "throughput with zipf x and y (over BiStream, over ContRand)",
            "FastJoin leads in all groups, most where one is skewed", "text", told(gains),
            verdict(gains), why,
            defaults="; ".join(f"{g}: {spread(c.gains(OURS, BI), '{:+.0f} %')}"
                               for g, c in held.items()),
        ),
        Item(
            "fig. 13", "latency with zipf x and y (against BiStream, against ContRand)",
            "FastJoin's is the least in all groups", "text", told(less, -1), verdict(less), why,
        ),
    )  # fmt: skip
    setting = (
        f"Both streams have {keys:,} keys (theirs 10 million, which no single instance would tell "
        f"apart from chance) and 100,000 rows per batch; 48 instances (theirs are not told), "
        f"{batches} batches, {seeds(scale)} seeds. {SYSTEMS} Prices: {PRICES_TOLD}."
    )
    return Experiment("FastJoin: groups of skew", setting, items, sheets=(_group_sheet(held),))


def _group_sheet(held: Mapping[str, Contest]) -> Sheet:
    rows = [
        (
            name, *(spread(contest.gains(who, BI), "{:+.0f} %") for who in (CONT, FAST, OURS)),
            *(spread(contest.later(who, BI), "{:+.0f} %") for who in (CONT, FAST, OURS)),
            f"{contest.mean(FAST, lambda run: run.busiest_over_mean):.1f}",
        )
        for name, contest in held.items()
    ]  # fmt: skip
    heads = [f"{what}, {who}" for what in ("throughput", "latency") for who in (CONT, FAST, OURS)]
    return Sheet("Against BiStream", ("", *heads, "FastJoin's busiest/mean"), tuple(rows))


def sensitivity(scale: Scale) -> Experiment:
    """What a row is compared with, what that costs, and what a moved row costs."""
    setting = (
        f"{CITY} {SYSTEMS} 48 instances, one seed; all prices but the one that is varied are: "
        f"{PRICES_TOLD}. \"key\": a row is compared with its key's stored rows only, as with an "
        "index; \"slot\": with a 32nd of its instance's."
    )  # fmt: skip
    return Experiment(
        "FastJoin: what the figures depend on", setting, (), sheets=(_scans(scale), _moved(scale))
    )


def _scans(scale: Scale) -> Sheet:
    rows = []
    scans: dict[Scan, tuple[float, ...]] = {
        "instance": PAIR_MS, "slot": tuple(10 * p for p in PAIR_MS), "key": PAIR_MS_OF_KEY,
    }  # fmt: skip
    systems = published(48) | {f"{CONT}, groups of 4": ContRand(groups=12)}
    for scan, prices in scans.items():
        for pair_ms in scale.pick(prices, prices[1:2]):
            costs = replace(PRICES, scan=scan, pair_ms=pair_ms)
            ground = Ground(city_stream, 48, scale.pick(24, 11), costs)
            contest = Contest.held(ground, systems, 1)
            found = [contest.gains(name, BI)[0] for name in systems if name != BI]
            even = contest.mean(BI, lambda run: run.busiest_over_mean)
            cells = (f"{1e6 * pair_ms:g} ns", f"{even:.2f}", *(f"{gain:+.0f} %" for gain in found))
            rows.append((scan, *cells))
    columns = ("compared with its", "a comparison", "BiStream's busiest/mean",
               *(name for name in systems if name != BI))  # fmt: skip
    return Sheet("Throughput over BiStream", columns, tuple(rows))


def _moved(scale: Scale) -> Sheet:
    rows = []
    for name, values in (("migrated_ms", MOVED_MS), ("pause_ms", PAUSES_MS)):
        for value in scale.pick(values, values[-1:]):
            costs = replace(PRICES, **{name: value})  # type: ignore[arg-type]
            ground = Ground(city_stream, 48, scale.pick(24, 11), costs)
            systems = {BI: Hash(), **{f"θ {theta:g}": fast(theta) for theta in (1.4, 2.2, 4.0)}}
            contest = Contest.held(ground, systems, 1)
            gains = [f"{contest.gains(who, BI)[0]:+.0f} %" for who in systems if who != BI]
            told = f"{1e3 * value:g} µs a row" if name == "migrated_ms" else f"{value:g} ms a pause"
            rows.append((told, *gains))
    return Sheet("Throughput over BiStream, by the price of moving",
                 ("", "θ 1.4", "θ 2.2", "θ 4"), tuple(rows))  # fmt: skip


def total_ms(run: Run) -> float:
    return sum(batch.busiest_ms for batch in run.told)


def adaptive(scale: Scale) -> Experiment:
    """θ "auto" beside fixed ones, from the first batch on."""
    rows = []
    fixed, batches = scale.pick(FIXED, (1.4, 4.0)), scale.pick(40, 16)
    for name, drift, pause_ms in scale.pick(COURSES, COURSES[:1]):
        costs = replace(PRICES, pause_ms=pause_ms)
        ground = Ground(partial(city_stream, drift=drift), 48, batches, costs, warm=0)
        systems = {BI: Hash(), **{f"{t:g}": fast(t) for t in fixed}, "auto": fast("auto")}
        contest = Contest.held(ground, systems, scale.pick(2, 1))
        total = {who: contest.mean(who, total_ms) for who in systems}
        best = min(total[f"{t:g}"] for t in fixed)
        shown = (f"{100 * (total[who] / best - 1):+.1f} %" for who in systems)
        rows.append((f"{name}, {pause_ms:g} ms a pause", *shown))
    columns = ("", BI, *(f"θ {t:g}" for t in fixed), "θ auto")
    sheet = Sheet("Time for all batches, beside the best fixed θ", columns, tuple(rows))
    setting = (
        f"{CITY} 48 instances, {batches} batches, all of them counted, {scale.pick(2, 1)} seeds. "
        f"Prices: {PRICES_TOLD}, the pause as the rows say. Without drift the city is steady; at 1 "
        "its hot spots are on the way to the other end of the town."
    )
    return Experiment("FastJoin: θ \"auto\"", setting, (), sheets=(sheet,))  # fmt: skip
