"""The evaluation of TriJoin: against BiStream + Tree on a virtual cluster (`three_way_core`).

Latency is that of a triple: from when its last row is there, with its batch, until the triple is
out. Throughput is rows over the time of the busiest instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measure import say
from benchmarks.papers.model import (
    Experiment,
    Item,
    Paper,
    Plot,
    Reading,
    Scale,
    Sheet,
    Verdict,
    change,
    percent,
    worst,
)
from benchmarks.papers.trijoin_data import Packets, Rides
from benchmarks.three_way_core import CHAIN, CYCLE, STRATEGIES, Case, Figures, measure
from skewless.operators.three_way.tree import GROUPS, PAIRS

TREE, PAIR, TRIJOIN, AUTO = STRATEGIES
SHAPES = (CYCLE, CHAIN)
NET_MS = (0.0, 0.3, 1.0, 3.0, 10.0, 160.0)
RULE = "reproduced within 5 points or a seventh, trend only with the same sign"


@dataclass(frozen=True)
class Sizes:
    """What is measured, in full or quickly: both shapes on the same data, as in the paper."""

    base: Case
    seeds: tuple[int, ...]
    sweep: Case
    instances: tuple[int, ...]
    windows: tuple[int, ...]
    batch_rows: tuple[int, ...]
    orders: tuple[int, ...]


RIDES = Case(
    CYCLE,
    Rides(order=8),
    window=20_000,
    instances=12,
    batch_rows=6000,
    batches=8,
    rows_per_s=5000,
    fill=2,
)
FULL = Sizes(
    base=RIDES,
    seeds=(1, 2, 3),
    sweep=replace(RIDES, batches=2, warmup=4),
    instances=(12, 60, 180),
    windows=(5000, 10_000, 30_000),
    batch_rows=(1500, 6000, 12_000),
    orders=(7, 9),
)
SMALL = replace(RIDES, window=3000, batch_rows=900, batches=2, warmup=2, data=Rides(order=6))
QUICK = Sizes(
    base=SMALL,
    seeds=(1,),
    sweep=SMALL,
    instances=(12, 24),
    windows=(1500, 6000),
    batch_rows=(600, 1800),
    orders=(7,),
)


# Contestants side by side ----------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """What the contestants did in the same case; with other seeds, several times."""

    runs: Sequence[Mapping[str, Figures]]

    def mean(self, name: str, figure: Callable[[Figures], float]) -> float:
        return float(np.mean([figure(run[name]) for run in self.runs]))

    def more(self, figure: Callable[[Figures], float], name: str = TRIJOIN) -> float:
        """How much more than Tree's a contestant's figure is, in percent."""
        return percent(self.mean(name, figure), self.mean(TREE, figure))

    def spread(self, figure: Callable[[Figures], float]) -> str:
        """Least and most of the seeds."""
        each = [percent(figure(run[TRIJOIN]), figure(run[TREE])) for run in self.runs]
        return f"{min(each):+.0f} … {max(each):+.0f} %"


def latency(figures: Figures) -> float:
    return figures.latency_ms


def throughput(figures: Figures) -> float:
    return figures.rows_per_s


def beside(
    case: Case, names: Sequence[str] = (TREE, TRIJOIN, AUTO), seeds: Sequence[int] = (1,)
) -> Beside:
    runs = []
    for seed in seeds:
        seeded = replace(case, data=replace(case.data, seed=seed))  # type: ignore[type-var]
        run = {name: measure(seeded, STRATEGIES[name]) for name in names}
        check(run)
        told = ", ".join(f"{name} {figures.latency_ms:.1f} ms" for name, figures in run.items())
        say(f"{case.shape}, {case.instances} instances, window {case.window}: {told}")
        runs.append(run)
    return Beside(runs)


def check(run: Mapping[str, Figures]) -> None:
    """All find the same triples, and none is saturated: its latency would have no meaning."""
    if len({figures.triples for figures in run.values()}) > 1:
        told = {name: figures.triples for name, figures in run.items()}
        raise AssertionError(f"different numbers of triples: {told}")
    for name, figures in run.items():
        if figures.is_saturated:
            raise AssertionError(f"{name} cannot keep up with {figures.case}")


def judged(paper: Mapping[str, float], ours: Mapping[str, float]) -> Verdict:
    """The verdict on changes by shape: that of the worst."""
    return worst(change(ours[key], value) for key, value in paper.items())


def told(changes: Mapping[str, float]) -> str:
    return ", ".join(f"{key} {value:+.0f} %" for key, value in changes.items())


def changes_item(
    item: str, what: str, paper: Mapping[str, float], ours: Mapping[str, float], why: str,
    defaults: Mapping[str, float] | None = None,
) -> Item:  # fmt: skip
    """An item of changes in percent, TriJoin's over BiStream + Tree's."""
    return Item(
        item, what, told(paper), "text", told(ours), judged(paper, ours), f"{RULE}; {why}",
        "" if defaults is None else f'"auto" over Tree: {told(defaults)}',
    )  # fmt: skip


# Figures 2, 10 to 13: over time ----------------------------------------------------------------


def over_time(sizes: Sizes) -> Experiment:
    found = {shape: beside(replace(sizes.base, shape=shape), seeds=sizes.seeds) for shape in SHAPES}
    items = [waiting_item(found[CHAIN])]
    for number, shape, slower, faster in ((10, CYCLE, -63, 7), (12, CHAIN, -45, 15)):
        pair = found[shape]
        items.append(changes_item(
            f"fig. {number}", f"latency over time, {shape}: TriJoin over BiStream+Tree",
            {shape: slower}, {shape: pair.more(latency)},
            f"seeds {pair.spread(latency)}; with a price for the network: see the sheet",
            {shape: pair.more(latency, AUTO)},
        ))  # fmt: skip
        items.append(changes_item(
            f"fig. {number + 1}", f"throughput over time, {shape}: TriJoin over BiStream+Tree",
            {shape: faster}, {shape: pair.more(throughput)},
            f"seeds {pair.spread(throughput)}; what takes the busiest instance's time: see the "
            "sheet", {shape: pair.more(throughput, AUTO)},
        ))  # fmt: skip
    return Experiment(
        "Latency and throughput over time",
        f"{setting(sizes.base)} Seeds {', '.join(map(str, sizes.seeds))}.",
        tuple(items),
        (costs_sheet(found), network_sheet(found), signals_sheet(found)),
        tuple(plot_over_time(found[shape], shape, what) for shape in SHAPES for what in PLOTTED),
    )


def waiting_item(found: Beside) -> Item:
    """Of a triple that a new t completes with an old pair: the time that passes in the first
    join, which t has to wait for, and in its own."""
    waited, joined = 0.0, 0.0
    for batch in (b for run in found.runs for b in run[TREE].batches):
        by_t = batch.instance % len(GROUPS) == PAIRS
        first_ms = float(batch.work_ms[0].max())
        waited += first_ms * int(by_t.sum())
        joined += float((batch.out_ms[by_t] - first_ms).sum())
    share = 100 * waited / (waited + joined)
    return Item(
        "fig. 2", "what the latency of a tuple of t in BiStream+Tree consists of",
        "most of it is waiting", "text", f"{share:.0f} % of it is waiting",
        "reproduced" if share > 50 else "opposite",
        "reproduced if more than half is waiting: t waits until the first join has all its pairs",
        "no strategy but Tree has a row wait for another join",
    )  # fmt: skip


def setting(case: Case) -> str:
    return (
        f"Rides of a synthetic city (80 % of the rides begin in 20 % of the cells) in place of "
        f"DiDi's trace: six fields, |r_I − s_I| ≤ {case.eps}, |s_Int − t_Int| ≤ {case.eps}, in "
        f"cycles |r_Int − t_I| ≤ {case.eps}; {cells(case):,} cells. The paper's streams have 15 "
        f"million tuples each and no statistics; here a window of {case.window:,} rows per stream is filled, then "
        f"{case.batches} batches of {case.batch_rows:,} rows are measured, which arrive in "
        f"{case.period_ms:.0f} ms each. {case.instances} instances. No price is assumed: times are "
        f"processor times of each instance, the faster of {case.attempts} runs, on a core of its "
        "own; the second join of the tree begins when the first has ended."
    )


def cells(case: Case) -> int:
    return 4**case.data.order if isinstance(case.data, Rides) else 0


PLOTTED = {"latency": ("ms", latency), "throughput": ("rows/s", throughput)}


def plot_over_time(found: Beside, shape: str, what: str) -> Plot:
    unit, figure = PLOTTED[what]
    lines = {}
    for name, figures in found.runs[0].items():
        each = [figure(replace(figures, batches=[batch])) for batch in figures.batches]
        period_s = figures.case.period_ms / 1000
        lines[name] = [(period_s * (i + 1), value) for i, value in enumerate(each)]
    title = f"{what} of the {shape}, fig. {PLOT_NUMBERS[shape, what]}"
    return Plot(f"trijoin_{shape}_{what}", title, "s", unit, lines)


PLOT_NUMBERS = {
    (CYCLE, "latency"): 10, (CYCLE, "throughput"): 11,
    (CHAIN, "latency"): 12, (CHAIN, "throughput"): 13,
}  # fmt: skip

COSTS: dict[str, tuple[str, Callable[[Figures], float]]] = {
    "latency ms": ("{:.1f}", latency),
    "p99": ("{:.1f}", lambda f: f.latency_p99_ms),
    "batch done ms": ("{:.1f}", lambda f: f.mean("done_ms")),
    "busiest instance ms": ("{:.1f}", lambda f: f.mean("busiest_ms")),
    "rows/s": ("{:,.0f}", throughput),
    "rows/s, compacting": ("{:,.0f}", lambda f: f.rows_per_s_compacting),
    "rows/s of one core": ("{:,.0f}", lambda f: f.rows_per_core_s),
    "compared per row": ("{:.1f}", lambda f: f.mean("comparisons") / f.rows),
    "compared on the way": ("{:,.0f}", lambda f: f.mean("on_the_way")),
    "sent per row": ("{:.1f}", lambda f: f.mean("shipped") / f.rows),
    "intermediates": ("{:,.0f}", lambda f: f.mean("intermediates")),
    "their MB": ("{:.1f}", lambda f: f.mean("intermediate_bytes") / 1e6),
    "state MB": ("{:.1f}", lambda f: f.mean("state_bytes") / 1e6),
}


def costs_row(found: Beside, name: str) -> list[str]:
    return [form.format(found.mean(name, figure)) for form, figure in COSTS.values()]


def costs_sheet(found: Mapping[str, Beside]) -> Sheet:
    rows = [
        (shape, name, *costs_row(pair, name))
        for shape, pair in found.items()
        for name in pair.runs[0]
    ]
    title = (
        "What each costs, per batch. *On the way* are the comparisons of the busiest instance in "
        "each step: the paper's model of latency (section 4). *Sent* counts every copy of a row, "
        "pair or pack that goes to an instance."
    )
    return Sheet(title, ("", "", *COSTS), tuple(rows))


def with_network(figures: Figures, strategy: str, net_ms: float) -> float:
    """Mean latency if handing intermediate results over took so long: Tree does so for every
    triple, TriJoin for what a new s of a chain completes (T_net of equations 2 and 3)."""
    if strategy == TREE:
        return figures.latency_ms + net_ms
    sent = np.concatenate([batch.handed_over(figures.case.shape) for batch in figures.batches])
    return figures.latency_ms + net_ms * float(sent.mean())


def network_sheet(found: Mapping[str, Beside]) -> Sheet:
    def more(pair: Beside, net_ms: float) -> float:
        tri, tree = (
            pair.mean(name, lambda f, name=name: with_network(f, name, net_ms))  # type: ignore[misc]
            for name in (TRIJOIN, TREE)
        )
        return percent(tri, tree)

    rows = [
        (f"{net_ms:g}", *(f"{more(pair, net_ms):+.0f} %" for pair in found.values()))
        for net_ms in NET_MS
    ]
    title = (
        "Sensitivity: latency of TriJoin over BiStream+Tree if handing intermediate results over "
        "took so many ms (T_net; 160 ms is what a further job costs on Spark). The items have 0."
    )
    return Sheet(title, ("T_net, ms", *found), tuple(rows))


def signals_sheet(found: Mapping[str, Beside]) -> Sheet:
    """Latencies with the wait for the batch, and if the tree's second join waited for a signal of
    its own, as each join of the paper's order protocol may: a period after the first."""
    rows = []
    for shape, pair in found.items():

        def waited(f: Figures) -> float:
            return float((f.each("out_ms") + f.each("waited_ms")).mean())

        def twice(f: Figures) -> float:
            first = float(np.mean([b.work_ms[0].max() for b in f.batches]))
            return waited(f) + f.case.period_ms - first

        tri, tree, late = (
            pair.mean(TRIJOIN, waited),
            pair.mean(TREE, waited),
            pair.mean(TREE, twice),
        )
        rows.append((shape, f"{tri:.0f}", f"{tree:.0f}", f"{percent(tri, tree):+.0f} %",
                     f"{late:.0f}", f"{percent(tri, late):+.0f} %"))  # fmt: skip
    title = (
        "Sensitivity: with the time that a triple's last row waits until its batch is full. Then "
        "if the tree's second join, too, began only at the next signal, a batch later."
    )
    columns = ("", "TriJoin ms", "Tree ms", "change", "Tree, a signal per join", "change")
    return Sheet(title, columns, tuple(rows))


# Figures 14, 15, 21: instances -----------------------------------------------------------------


def instances(sizes: Sizes, data: str) -> Experiment:
    base = sizes.sweep if data == "rides" else replace(sizes.sweep, data=Packets())
    names = (TREE, TRIJOIN, AUTO) if data == "rides" else (TREE, TRIJOIN)
    found = {
        shape: {n: beside(replace(base, instances=n, shape=shape), names) for n in sizes.instances}
        for shape in SHAPES
    }
    number = 14 if data == "rides" else 21
    slower = {CYCLE: -51, CHAIN: -26} if data == "rides" else {CYCLE: -51, CHAIN: -29}
    at_most = {CYCLE: -65, CHAIN: -47} if data == "rides" else {CYCLE: -60, CHAIN: -44}
    most = sizes.instances[-1]
    paper = slower | {f"{shape} at 180": value for shape, value in at_most.items()}
    ours = averaged(found, latency) | {
        f"{shape} at 180": found[shape][most].more(latency) for shape in SHAPES
    }
    items = [changes_item(
        f"fig. {number}", f"latency by instances, {data}: TriJoin over BiStream+Tree",
        paper, ours, f"means of {', '.join(map(str, sizes.instances))} instances; the last is "
        f"{most}", averaged(found, latency, AUTO) if AUTO in names else None,
    )]  # fmt: skip
    if data == "rides":
        items.append(changes_item(
            "fig. 15", "throughput by instances: TriJoin over BiStream+Tree",
            {CYCLE: 8, CHAIN: 14}, averaged(found, throughput),
            "means over instances", averaged(found, throughput, AUTO),
        ))  # fmt: skip
    plots = [
        by_plot(found, f"trijoin_{data}_{what}_by_instances", f"{what} by instances, {data}",
                "instances", what, log_x=True)
        for what in PLOTTED
    ]  # fmt: skip
    how = "" if data == "rides" else (
        f"Packets between {Packets().hosts:,} hosts, popular by a Zipf law of exponent "
        f"{Packets().exponent:g}, in place of the WIDE project's traces, which are far more skewed "
        "(a key with a hundredth of a stream has as many triples as all others); else as above. "
    )  # fmt: skip
    return Experiment(
        f"Instances, {data}",
        f"{how or setting(base)} Instances are {', '.join(map(str, sizes.instances))}; seed 1.",
        tuple(items),
        (by_sheet(found, "instances"),),
        tuple(plots),
    )


By = Mapping[str, Mapping[int, Beside]]


def averaged(
    found: By, figure: Callable[[Figures], float], name: str = TRIJOIN
) -> dict[str, float]:
    """The mean change over all that was varied, by shape."""
    return {
        shape: float(np.mean([pair.more(figure, name) for pair in by.values()]))
        for shape, by in found.items()
    }


def by_sheet(found: By, varied: str) -> Sheet:
    rows = [
        (shape, f"{value:,}", name, *costs_row(pair, name))
        for shape, by in found.items()
        for value, pair in by.items()
        for name in pair.runs[0]
    ]
    return Sheet(f"All figures by {varied}.", ("", varied, "", *COSTS), tuple(rows))


def by_plot(found: By, name: str, title: str, x: str, what: str, *, log_x: bool = False) -> Plot:
    unit, figure = PLOTTED[what]
    lines = {
        f"{contestant}, {shape}": [(value, pair.mean(contestant, figure))
                                   for value, pair in by.items()]
        for shape, by in found.items()
        for contestant in (TREE, TRIJOIN)
    }  # fmt: skip
    return Plot(name, title, x, unit, lines, log_x=log_x)


# Figures 16, 17: signal periods ----------------------------------------------------------------


def periods(sizes: Sizes) -> Experiment:
    found = {
        shape: {
            rows: beside(replace(sizes.sweep, batch_rows=rows, shape=shape))
            for rows in sizes.batch_rows
        }
        for shape in SHAPES
    }
    why = "means over the periods; latency from the signal on, without the wait for it"
    items = (
        changes_item("fig. 16", "latency by signal period: TriJoin over BiStream+Tree",
                     {CYCLE: -68, CHAIN: -31}, averaged(found, latency), why,
                     averaged(found, latency, AUTO)),
        changes_item("fig. 17", "throughput by signal period: TriJoin over BiStream+Tree",
                     {CYCLE: 14, CHAIN: 18}, averaged(found, throughput), "means over the periods",
                     averaged(found, throughput, AUTO)),
    )  # fmt: skip
    told_ms = ", ".join(
        f"{replace(sizes.sweep, batch_rows=rows).period_ms:.0f}" for rows in sizes.batch_rows
    )
    return Experiment(
        "Signal periods",
        f"{setting(sizes.sweep)} The signal period is that of a batch, here {told_ms} ms at the "
        "same rate of arrival; seed 1.",
        items,
        (by_sheet(found, "rows of a batch"), *(signals_sheet_of(found[s], s) for s in SHAPES)),
        tuple(
            by_plot(found, f"trijoin_{what}_by_period", f"{what} by signal period",
                    "rows of a batch", what) for what in PLOTTED
        ),
    )  # fmt: skip


def signals_sheet_of(by: Mapping[int, Beside], shape: str) -> Sheet:
    sheet = signals_sheet({f"{rows:,} rows": pair for rows, pair in by.items()})
    return replace(sheet, title=f"{shape}: {sheet.title}")


# Figure 20: windows ----------------------------------------------------------------------------


def windows(sizes: Sizes) -> Experiment:
    found = {
        shape: {
            window: beside(replace(sizes.sweep, window=window, shape=shape))
            for window in sizes.windows
        }
        for shape in SHAPES
    }
    item = changes_item(
        "fig. 20", "latency by window: TriJoin over BiStream+Tree",
        {CYCLE: -65, CHAIN: -44}, averaged(found, latency), "means over the windows",
        averaged(found, latency, AUTO),
    )  # fmt: skip
    return Experiment(
        "Windows",
        f"{setting(sizes.sweep)} Windows have {', '.join(f'{w:,}' for w in sizes.windows)} rows of "
        "a stream; seed 1.",
        (item,),
        (by_sheet(found, "window"),),
        (by_plot(found, "trijoin_latency_by_window", "latency by window, fig. 20", "rows",
                 "latency"),),
    )  # fmt: skip


# Figures 18, 19: intermediate results ----------------------------------------------------------


def held(figures: Figures) -> float:
    return figures.mean("intermediates")


def fewer(found: Beside) -> float:
    """Packs beside pairs, in percent."""
    return percent(found.mean(TRIJOIN, held), found.mean(PAIR, held))


def intermediates(sizes: Sizes) -> Experiment:
    orders = {sizes.sweep.data.order: None} | dict.fromkeys(sizes.orders)  # type: ignore[attr-defined]
    found = {
        shape: {
            order: beside(replace(sizes.sweep, data=Rides(order), shape=shape), (PAIR, TRIJOIN))
            for order in orders
        }
        for shape in SHAPES
    }
    base = next(iter(orders))
    items = []
    for number, shape, paper, scheme in (
        (18, CYCLE, -71, "symmetric"), (19, CHAIN, -66, "semi-symmetric"),
    ):  # fmt: skip
        items.append(changes_item(
            f"fig. {number}", f"intermediate results of the {scheme} scheme: packs over pairs",
            {shape: paper}, {shape: fewer(found[shape][base])},
            "it depends on how many partners a row has, which the paper does not tell: see the "
            "sheet",
        ))  # fmt: skip
    rows = tuple(
        (shape, f"{4**order:,}", f"{partners(pair):.1f}",
         f"{pair.mean(PAIR, held):,.0f}", f"{pair.mean(TRIJOIN, held):,.0f}",
         f"{fewer(pair):+.0f} %")
        for shape, by in found.items() for order, pair in sorted(by.items())
    )  # fmt: skip
    columns = ("", "cells", "pairs per row", "pairs", "packs", "packs over pairs")
    sheet = Sheet("Sensitivity: the number of partners that a row has.", columns, rows)
    lines = {
        f"{name}, {shape}": over_batches(found[shape][base].runs[0][name])
        for shape in SHAPES for name in (PAIR, TRIJOIN)
    }  # fmt: skip
    plot = Plot(
        "trijoin_intermediates", "intermediate results, figs. 18 and 19", "s", "held", lines
    )
    return Experiment(
        "Intermediate results", f"{setting(sizes.sweep)} Seed 1.", tuple(items), (sheet,), (plot,)
    )


def partners(found: Beside) -> float:
    """Pairs held for each row of the three windows."""
    return found.mean(PAIR, lambda f: f.mean("intermediates") / (3 * f.case.window))


def over_batches(figures: Figures) -> list[tuple[float, float]]:
    period_s = figures.case.period_ms / 1000
    return [(period_s * (i + 1), b.intermediates) for i, b in enumerate(figures.batches)]


def run(scale: Scale) -> Iterator[Experiment]:
    sizes = scale.pick(FULL, QUICK)
    yield over_time(sizes)
    yield instances(sizes, "rides")
    yield periods(sizes)
    yield intermediates(sizes)
    yield windows(sizes)
    yield instances(sizes, "packets")


READINGS = (
    Reading(
        "the order protocol (5.2): signals, buffers, a priority queue",
        "replaced",
        "A batch is the signal: its rows are there before any is joined, and within it all go in "
        "the order r, s, t, which is the same in every instance.",
    ),
    Reading(
        "tuples and intermediate results in the memory of a processing unit",
        "replaced",
        "They lie in files that all can read. A unit's part is positions in them, so that another "
        "number of instances moves no row.",
    ),
    Reading(
        "round robin among the units of a group",
        "read otherwise",
        "Equal parts of each sorted file, end to end: each row is held once, by one unit, as in "
        "the paper, but partners of a row lie together, so that packs are longer.",
    ),
    Reading(
        "semi-symmetric scheme: I_sK_R goes to all of t's units, and I_sK_T to all of r's",
        "read otherwise",
        "Both ways would give every triple twice. Here packs of s and r go on to t, read by the "
        "unit that made them; they are counted as sent to every unit of t.",
    ),
    Reading(
        "BiStream's storage within a group",
        "read otherwise",
        "TriJoin's paper broadcasts to the whole group; `sk.Tree(subgroups=…)` has ContRand's "
        "subgroups.",
    ),
    Reading(
        "a tuple of t waits for the pairs of all earlier tuples of r and s",
        "read otherwise",
        "The second join of a batch begins when the first has ended in every instance. A sheet "
        "tells what a signal of its own would add.",
    ),
)  # fmt: skip

PAPER = Paper(
    "TriJoin",
    'Yu et al., "TriJoin: A Time-Efficient and Scalable Three-Way Distributed Stream Join System".',
    ("fig. 2", *(f"fig. {number}" for number in range(10, 22))),
    run,
    READINGS,
)
