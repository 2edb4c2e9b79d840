"""Sheets and plots of TriJoin's evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.papers.model import Plot, Sheet, percent
from benchmarks.papers.trijoin_cases import (
    PAIR,
    SHAPES,
    TREE,
    TRIJOIN,
    Beside,
    By,
    Figure,
    held,
    latency,
    throughput,
    waiting_share,
    with_network,
    with_two_signals,
    with_waiting,
)
from benchmarks.papers.trijoin_data import Rides
from benchmarks.three_way_core import CHAIN, CYCLE, Figures

NET_MS = (0.0, 0.3, 1.0, 3.0, 10.0, 160.0)
PLOTTED: dict[str, tuple[str, Figure]] = {
    "latency": ("ms", latency),
    "throughput": ("rows/s", throughput),
}
COSTS: dict[str, tuple[str, Figure]] = {
    "latency ms": ("{:.1f}", latency),
    "p99": ("{:.1f}", lambda f: f.latency_p99_ms),
    "batch done ms": ("{:.1f}", lambda f: f.mean("done_ms")),
    "busiest instance ms": ("{:.1f}", lambda f: f.mean("busiest_ms")),
    "rows/s": ("{:,.0f}", throughput),
    "compared per row": ("{:.1f}", lambda f: f.mean("comparisons") / f.rows),
    "compared on the way": ("{:,.0f}", lambda f: f.mean("on_the_way")),
    "by the busiest": ("{:,.0f}", lambda f: f.mean("busiest_compared")),
    "sent per row": ("{:.1f}", lambda f: f.mean("shipped") / f.rows),
    "intermediates": ("{:,.0f}", held),
    "their MB": ("{:.1f}", lambda f: f.mean("intermediate_bytes") / 1e6),
    "state MB": ("{:.1f}", lambda f: f.mean("state_bytes") / 1e6),
    "triples": ("{:,.0f}", lambda f: f.triples / len(f.batches)),
}
COUNTED = (
    "*On the way* are the comparisons of the busiest instance in each step, the paper's model of "
    "latency (section 4); *sent* counts every copy of a row, pair or pack that goes to an instance."
)


def _costs(found: Beside, name: str) -> list[str]:
    return [form.format(found.of(name, figure)) for form, figure in COSTS.values()]


def costs_sheet(found: Mapping[str, Beside]) -> Sheet:
    """Everything, where nothing is varied; eight batches are enough to tell of compaction, too."""

    def told(pair: Beside, name: str) -> list[str]:
        rates = (lambda f: f.rows_per_s_compacting, lambda f: f.rows_per_core_s)
        return [*_costs(pair, name), *(f"{pair.of(name, rate):,.0f}" for rate in rates)]

    rows = [(shape, n, *told(pair, n)) for shape, pair in found.items() for n in pair.names]
    columns = ("", "", *COSTS, "rows/s if it compacts files, too", "rows/s of one core for all")
    return Sheet(f"What each costs, per batch. {COUNTED}", columns, tuple(rows))


def by_sheet(found: By, varied: str) -> Sheet:
    rows = [
        (shape, f"{value:,g}", name, *_costs(pair, name))
        for shape, by in found.items()
        for value, pair in by.items()
        for name in pair.names
    ]
    return Sheet(f"By {varied}. {COUNTED}", ("", varied, "", *COSTS), tuple(rows))


def changes_sheet(found: By, varied: str) -> Sheet:
    """How the changes depend on what is varied; and by the paper's model, in which all that costs
    are comparisons."""
    rows = [
        (shape, f"{value:,g}", *_changes(pair)) for shape, by in found.items()
        for value, pair in by.items()
    ]  # fmt: skip
    return Sheet(f"TriJoin over BiStream+Tree, by {varied}.", ("", varied, *_CHANGES), tuple(rows))


_CHANGES = ("latency", "throughput", "latency by comparisons", "throughput by comparisons")


def model_sheet(found: Mapping[str, Beside]) -> Sheet:
    rows = tuple((shape, *_changes(pair)) for shape, pair in found.items())
    return Sheet("TriJoin over BiStream+Tree, measured and by comparisons.", ("", *_CHANGES), rows)


def _changes(pair: Beside) -> list[str]:
    fewer = 1 + pair.more(lambda f: f.mean("busiest_compared")) / 100
    found = (
        pair.more(latency),
        pair.more(throughput),
        pair.more(lambda f: f.mean("on_the_way")),
        percent(1, fewer),
    )
    return [f"{change:+.0f} %" for change in found]


def network_sheet(found: Mapping[str, Beside]) -> Sheet:
    rows = []
    for net_ms in NET_MS:
        cells = [f"{net_ms:g}"]
        for pair in found.values():
            tri = pair.of(TRIJOIN, _networked(net_ms, tree=False))
            tree = pair.of(TREE, _networked(net_ms, tree=True))
            cells.append(f"{percent(tri, tree):+.0f} %")
        cells += [f"{pair.of(TREE, waiting(net_ms)):.0f} %" for pair in found.values()]
        rows.append(tuple(cells))
    title = (
        "Sensitivity: if handing intermediate results over took so many ms (T_net; on Spark, where "
        "it is a further job, 160 ms). The items have 0."
    )
    columns = ("T_net, ms", *(f"{s}: latency" for s in found), *(f"{s}: t waits" for s in found))
    return Sheet(title, columns, tuple(rows))


def _networked(net_ms: float, *, tree: bool) -> Figure:
    return lambda figures: with_network(figures, net_ms, tree=tree)


def waiting(net_ms: float) -> Figure:
    return lambda figures: waiting_share(figures, net_ms)


def signals_sheet(found: Mapping[str, Beside], title: str = "") -> Sheet:
    rows = []
    for label, pair in found.items():
        tri, tree = (pair.of(name, with_waiting) for name in (TRIJOIN, TREE))
        late = pair.of(TREE, with_two_signals)
        rows.append((label, f"{tri:.0f}", f"{tree:.0f}", f"{percent(tri, tree):+.0f} %",
                     f"{late:.0f}", f"{percent(tri, late):+.0f} %"))  # fmt: skip
    title += (
        "Sensitivity: with the time that a triple's last row waits until its batch is full. Then "
        "if the tree's second join, too, began only at the next signal, a batch later, as the "
        "order protocol may have it."
    )
    columns = ("", "TriJoin ms", "Tree ms", "change", "Tree, a signal per join", "change")
    return Sheet(title, columns, tuple(rows))


def packs_sheet(found: By) -> Sheet:
    """How much packing saves depends on how many partners a row has."""
    rows = tuple(
        (shape, f"{_cells(pair):,}", f"{pair.of(PAIR, _pairs_per_row):.1f}",
         f"{pair.of(PAIR, held):,.0f}", f"{pair.of(TRIJOIN, held):,.0f}",
         f"{pair.more(held, than=PAIR):+.0f} %")
        for shape, by in found.items() for pair in by.values()
    )  # fmt: skip
    columns = ("", "cells", "pairs per row", "pairs", "packs", "packs over pairs")
    return Sheet("Sensitivity: the number of partners that a row has.", columns, rows)


def _cells(pair: Beside) -> int:
    data = pair.runs[0][PAIR].case.data
    assert isinstance(data, Rides)
    return int(4**data.order)


def _pairs_per_row(figures: Figures) -> float:
    return held(figures) / (3 * figures.case.window)


PLOT_NUMBERS = {
    (CYCLE, "latency"): 10, (CYCLE, "throughput"): 11,
    (CHAIN, "latency"): 12, (CHAIN, "throughput"): 13,
}  # fmt: skip


def plot_over_time(found: Beside, shape: str, what: str) -> Plot:
    unit, figure = PLOTTED[what]
    lines = {name: over_batches(run, figure) for name, run in found.runs[0].items()}
    title = f"{what} of the {shape}, fig. {PLOT_NUMBERS[shape, what]}"
    return Plot(f"trijoin_{shape}_{what}", title, "s", unit, lines)


def over_batches(figures: Figures, figure: Figure) -> list[tuple[float, float]]:
    """A figure of every batch, by the time at which it was full."""
    period_s = figures.case.period_ms / 1000
    each = (figure(replace(figures, batches=[batch])) for batch in figures.batches)
    return [(period_s * (number + 1), value) for number, value in enumerate(each)]


def plot_intermediates(found: Mapping[str, Beside]) -> Plot:
    lines = {
        f"{name}, {shape}": over_batches(found[shape].runs[0][name], held)
        for shape in SHAPES for name in (PAIR, TRIJOIN)
    }  # fmt: skip
    title = "intermediate results, figs. 18 and 19"
    return Plot("trijoin_intermediates", title, "s", "held", lines)


def plot_by(found: By, name: str, varied: str, what: str, *, log_x: bool = False) -> Plot:
    unit, figure = PLOTTED[what]
    lines = {
        f"{contestant}, {shape}": [(n, pair.of(contestant, figure)) for n, pair in by.items()]
        for shape, by in found.items()
        for contestant in (TREE, TRIJOIN)
    }
    return Plot(f"trijoin_{name}_{what}", f"{what} by {varied}", varied, unit, lines, log_x=log_x)
