"""The evaluation of TriJoin: against BiStream + Tree on a virtual cluster (`three_way_core`).

Latency is that of a triple: from when its last row is there, with its batch, until the triple is
out. Throughput is rows over the time of the busiest instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.papers import trijoin_sheets as sheets
from benchmarks.papers.model import (
    Experiment,
    Item,
    Paper,
    Reading,
    Scale,
    Verdict,
    change,
    worst,
)
from benchmarks.papers.trijoin_cases import (
    AUTO,
    FULL,
    PAIR,
    QUICK,
    SHAPES,
    TREE,
    TRIJOIN,
    Beside,
    By,
    Sizes,
    averaged,
    beside,
    defaults,
    held,
    latency,
    throughput,
    varied,
)
from benchmarks.papers.trijoin_data import Rides
from benchmarks.three_way_core import CHAIN, CYCLE, Case

RULE = "reproduced within 5 points or a seventh, trend only with the same sign"


def judged(paper: Mapping[str, float], ours: Mapping[str, float]) -> Verdict:
    """The verdict on changes in percent: that of the worst."""
    return worst(change(ours[key], value) for key, value in paper.items())


def told(changes: Mapping[str, float]) -> str:
    return ", ".join(f"{key} {value:+.0f} %" for key, value in changes.items())


def changes_item(
    item: str, what: str, paper: Mapping[str, float], ours: Mapping[str, float], why: str,
    auto: Mapping[str, float] | None = None,
) -> Item:  # fmt: skip
    """An item of changes in percent."""
    return Item(
        item, what, told(paper), "text", told(ours), judged(paper, ours), f"{RULE}; {why}",
        "" if auto is None else f'"auto" over Tree: {told(auto)}',
    )  # fmt: skip


def setting(cases: Mapping[str, Case]) -> str:
    case = cases[CYCLE]
    windows = " and ".join(f"{c.window:,} rows in the {shape}" for shape, c in cases.items())
    cells = " and ".join(f"{4 ** order_of(c):,} in the {shape}" for shape, c in cases.items())
    return (
        "Rides of a synthetic city, 20 % of whose cells have 80 % of the rides, in place of DiDi's "
        "trace, of which there are no statistics. Conditions: "
        f"|r_I − s_I| ≤ {case.eps}, |s_Int − t_Int| ≤ {case.eps}, and in cycles |r_Int − t_I| ≤ "
        f"{case.eps}; cells: {cells}. A window of each stream ({windows}; the paper's streams have "
        f"15 million) is filled, then {case.batches} batches of {case.batch_rows:,} rows are "
        f"measured, which arrive in {case.period_ms:.0f} ms. {case.instances} instances, if no "
        "other number is given. No price is assumed: times are processor times of each instance as "
        f"if on a core of its own, the fastest of {case.attempts} runs, without compacting files. "
        "The tree's second join begins when the first has ended everywhere. City, window and size "
        "of a batch were chosen among some ten combinations, so that comparing takes most of the "
        "time, as in the paper's model: where there is less to compare, latency is still lower, "
        "but throughput is, too."
    )


def order_of(case: Case) -> int:
    assert isinstance(case.data, Rides)
    return case.data.order


def over_time(sizes: Sizes) -> Experiment:
    """Figures 2 and 10 to 13."""
    names = (TREE, TRIJOIN, AUTO)
    found = {shape: beside(case, names, sizes.seeds) for shape, case in sizes.base.items()}
    waiting = {
        net_ms: {shape: pair.of(TREE, sheets.waiting(net_ms)) for shape, pair in found.items()}
        for net_ms in sheets.NET_MS
    }
    items = [waiting_item(waiting)]
    for number, shape, slower, faster in ((10, CYCLE, -63, 7), (12, CHAIN, -45, 15)):
        pair = found[shape]
        items.append(changes_item(
            f"fig. {number}", f"latency over time, {shape}: TriJoin over BiStream+Tree",
            {shape: slower}, {shape: pair.more(latency)},
            f"seeds {pair.spread(latency)}; no network is in it: see the sheet of T_net",
            {shape: pair.more(latency, AUTO)},
        ))  # fmt: skip
        items.append(changes_item(
            f"fig. {number + 1}", f"throughput over time, {shape}: TriJoin over BiStream+Tree",
            {shape: faster}, {shape: pair.more(throughput)},
            f"seeds {pair.spread(throughput)}; it depends on how much there is to compare: "
            f"{by_comparisons(pair)} if that were all that costs, and see the sheet by window",
            {shape: pair.more(throughput, AUTO)},
        ))  # fmt: skip
    told_seeds = ", ".join(map(str, sizes.seeds))
    return Experiment(
        "Latency and throughput over time",
        f"{setting(sizes.base)} Seeds {told_seeds}.",
        tuple(items),
        (sheets.costs_sheet(found), sheets.model_sheet(found), sheets.network_sheet(found),
         sheets.signals_sheet(found)),
        tuple(sheets.plot_over_time(found[s], s, what) for s in SHAPES for what in sheets.PLOTTED),
    )  # fmt: skip


def by_comparisons(pair: Beside) -> str:
    """How much more TriJoin could keep up with, if nothing but comparisons cost anything."""
    tree, tri = (pair.of(n, lambda f: f.mean("busiest_compared")) for n in (TREE, TRIJOIN))
    return f"{100 * (tree / tri - 1):+.0f} %"


def waiting_item(by_network: Mapping[float, Mapping[str, float]]) -> Item:
    """Figure 2, by the share of waiting in percent, where handing pairs over takes so many ms: it
    is judged by the first."""
    shares, *others = by_network.values()
    most = [shape for shape, share in shares.items() if share > 50]
    verdicts: tuple[Verdict, ...] = ("opposite", "trend only", "reproduced")
    handed = "; ".join(
        f"{net_ms:g} ms: {' and '.join(f'{share:.0f} %' for share in told.values())}"
        for net_ms, told in zip(list(by_network)[1:], others, strict=True)
    )
    return Item(
        "fig. 2", "what the latency of a tuple of t in BiStream+Tree consists of",
        "most of it is waiting", "text",
        ", ".join(f"{shape}: {share:.0f} % is waiting" for shape, share in shares.items()),
        verdicts[len(most)],
        "reproduced if more than half is waiting in both shapes, trend only if in one; t waits for "
        "the first join, and here for nothing else, while the paper's reason for waiting is that "
        f"pairs have to be sent. If that took {handed}",
        "no strategy but Tree has a row wait for another join",
    )  # fmt: skip


def instances(sizes: Sizes, data: str) -> Experiment:
    """Figures 14 and 15, and on the other trace 21."""
    rides = data == "rides"
    cases, names = sizes.sweep, sizes.swept
    if not rides:
        cases = {shape: replace(case, data=sizes.packets) for shape, case in cases.items()}
        names = (TREE, TRIJOIN)
    found = varied(cases, names, sizes.instances, lambda case, n: replace(case, instances=int(n)))
    most = sizes.instances[-1]
    paper = {CYCLE: -51, CHAIN: -26, "cycle at 180": -65, "chain at 180": -47}
    if not rides:
        paper = {CYCLE: -51, CHAIN: -29, "cycle at 180": -60, "chain at 180": -44}
    last = {f"{shape} at 180": found[shape][most].more(latency) for shape in SHAPES}
    items = [changes_item(
        f"fig. {14 if rides else 21}", f"latency by instances, {data}: TriJoin over BiStream+Tree",
        paper, averaged(found, latency) | last, f"means of {_listed(sizes.instances)} instances; "
        f"the last have {most}", defaults(found, latency),
    )]  # fmt: skip
    if rides:
        items.append(changes_item(
            "fig. 15", "throughput by instances: TriJoin over BiStream+Tree",
            {CYCLE: 8, CHAIN: 14}, averaged(found, throughput), "means over instances",
            defaults(found, throughput),
        ))  # fmt: skip
    hosts = (
        f"Packets between {sizes.packets.hosts:,} hosts, popular by a Zipf law of exponent "
        f"{sizes.packets.exponent:g}, in place of the WIDE project's traces, which are more "
        "skewed: a host with a hundredth of a stream would make more triples than all others. Else "
        "as above."
    )
    return Experiment(
        f"Instances, {data}",
        f"{setting(sizes.sweep) if rides else hosts} Seed 1.",
        tuple(items),
        (sheets.changes_sheet(found, "instances"), sheets.by_sheet(found, "instances")),
        tuple(sheets.plot_by(found, data, "instances", w, log_x=True) for w in sheets.PLOTTED),
    )


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


def by_period(found: By) -> str:
    """What makes the difference: a batch has costs of its own, whatever is compared in it."""
    each = []
    for shape, by in found.items():
        least, most = (by[period].more(throughput) for period in (min(by), max(by)))
        each.append(f"{shape} {least:+.0f} % in the shortest, {most:+.0f} % in the longest")
    alone = by_comparisons(found[CYCLE][max(found[CYCLE])])
    return (
        f"The longer a period, the better: {', '.join(each)}. Every batch opens files, of which "
        f"TriJoin has more; were comparisons all that costs, the cycle would have {alone}"
    )


def periods(sizes: Sizes) -> Experiment:
    """Figures 16 and 17: a batch is what lies between two signals."""
    found = varied(
        sizes.sweep, sizes.swept, sizes.batch_rows,
        lambda case, rows: replace(case, batch_rows=int(rows)),
    )  # fmt: skip
    items = (
        changes_item("fig. 16", "latency by signal period: TriJoin over BiStream+Tree",
                     {CYCLE: -68, CHAIN: -31}, averaged(found, latency), "means over the periods; "
                     "from the signal on: with the wait for it, see the sheets",
                     defaults(found, latency)),
        changes_item("fig. 17", "throughput by signal period: TriJoin over BiStream+Tree",
                     {CYCLE: 14, CHAIN: 18}, averaged(found, throughput),
                     f"means over the periods. {by_period(found)}", defaults(found, throughput)),
    )  # fmt: skip
    signals = [
        sheets.signals_sheet({f"{n:,} rows": pair for n, pair in by.items()}, f"{shape}. ")
        for shape, by in found.items()
    ]
    some = next(iter(sizes.sweep.values()))
    each_ms = (replace(some, batch_rows=rows).period_ms for rows in sizes.batch_rows)
    told_ms = ", ".join(f"{period_ms:.0f}" for period_ms in each_ms)
    return Experiment(
        "Signal periods",
        f"{setting(sizes.sweep)} Periods of {told_ms} ms, at the same rate of arrival. Seed 1.",
        items,
        (sheets.changes_sheet(found, "rows of a batch"), *signals,
         sheets.by_sheet(found, "rows of a batch")),
        tuple(sheets.plot_by(found, "periods", "rows of a batch", w) for w in sheets.PLOTTED),
    )  # fmt: skip


def windows(sizes: Sizes) -> Experiment:
    """Figure 20."""
    found = varied(
        sizes.sweep, (TREE, TRIJOIN), sizes.windows,
        lambda case, times: replace(case, window=int(times * case.window)),
    )  # fmt: skip
    item = changes_item(
        "fig. 20", "latency by window: TriJoin over BiStream+Tree", {CYCLE: -65, CHAIN: -44},
        averaged(found, latency), "means over the windows", defaults(found, latency),
    )  # fmt: skip
    return Experiment(
        "Windows",
        f"{setting(sizes.sweep)} Windows are {', '.join(f'{n:g}' for n in sizes.windows)} times "
        "those. Seed 1.",
        (item,),
        (
            sheets.changes_sheet(found, "times the window"),
            sheets.by_sheet(found, "times the window"),
        ),
        (sheets.plot_by(found, "windows", "times the window", "latency"),),
    )


def intermediates(sizes: Sizes) -> Experiment:
    """Figures 18 and 19."""
    found = varied(
        sizes.sweep, (PAIR, TRIJOIN), sizes.finer,
        lambda case, finer: replace(case, data=Rides(order_of(case) + int(finer))),
    )  # fmt: skip
    base = {shape: by[0] for shape, by in found.items()}
    items = [
        changes_item(
            f"fig. {number}", f"intermediate results, {scheme} scheme: packs over pairs",
            {shape: paper}, {shape: base[shape].more(held, than=PAIR)},
            "it depends on how many partners a row has, which the paper does not tell: see the "
            "sheet",
        )
        for number, shape, paper, scheme in (
            (18, CYCLE, -71, "symmetric"), (19, CHAIN, -66, "semi-symmetric"),
        )
    ]  # fmt: skip
    return Experiment(
        "Intermediate results",
        f"{setting(sizes.sweep)} Seed 1.",
        tuple(items),
        (sheets.packs_sheet(found),),
        (sheets.plot_intermediates(base),),
    )


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
        "Equal parts of the sorted files, end to end: each row is held once, by one unit, as in "
        "the paper, but partners of a row lie together, so that packs are longer.",
    ),
    Reading(
        "semi-symmetric scheme: I_sK_R goes to all of t's units, and I_sK_T to all of r's",
        "read otherwise",
        "Both ways would give every triple twice. Packs of s and r go on to t, whose rows the unit "
        "reads that made them; they are counted as sent to every unit of t.",
    ),
    Reading(
        "BiStream's storage within a group",
        "read otherwise",
        "TriJoin's paper sends to the whole group; `sk.Tree(subgroups=…)` has ContRand's "
        "subgroups, too.",
    ),
    Reading(
        "a tuple of t waits for the pairs of all earlier tuples of r and s",
        "read otherwise",
        "The second join of a batch begins when the first has ended in every instance. A sheet "
        "tells what a signal of its own would add.",
    ),
)

PAPER = Paper(
    "TriJoin",
    'Yu et al., "TriJoin: A Time-Efficient and Scalable Three-Way Distributed Stream Join System".',
    ("fig. 2", *(f"fig. {number}" for number in range(10, 22))),
    run,
    READINGS,
)
