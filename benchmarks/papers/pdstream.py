"""The evaluation of Pd-Stream: tables II to V and figures 8 to 11; what is beside them in
`pdstream_cluster` (figures 4 to 7), `pdstream_costs` (12 and 13), `pdstream_application` (table VI)
and `pdstream_expected` (which parameters matter)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import exp

from benchmarks.grouping import DS, HT, IMBALANCE, REPLICATION, TABLES_IV_AND_V
from benchmarks.measure import Json
from benchmarks.papers import (
    pdstream_application,
    pdstream_cluster,
    pdstream_costs,
    pdstream_expected,
)
from benchmarks.papers.model import (
    Experiment,
    Item,
    Paper,
    Plot,
    Reading,
    Scale,
    Sheet,
    Verdict,
    closeness,
    worst,
)
from benchmarks.papers.pdstream_streams import (
    AUTO,
    BATCH_AWARE,
    DATA,
    DATA_SETS,
    HOT_MESSAGES,
    PD,
    SYSTEMS,
    WC,
    Swept,
    Where,
    figures,
    swept,
    zipf,
)
from skewless.placement.grouping import PdStream, probability_table

TABLE_II = {1: 36.78, 2: 13.53, 3: 4.97, 4: 1.83, 5: 0.67, 6: 0.24}
TABLE_III = (
    25.0, 34.9, 43.1, 50.3, 56.9, 63.0, 68.7, 73.9, 78.8, 83.4, 87.5, 91.2, 94.5, 97.1, 99.0, 99.9,
)  # fmt: skip
PKG_IMBALANCE = {
    zipf("PKG", 1.0, 64): 0.97,
    zipf("PKG", 2.0, 64): 18.45,
    zipf("PKG", 1.6, 16): 3.85,
    zipf("PKG", 1.6, 128): 27.01,
}
PD_IMBALANCE = {
    Where(PD, DS, 16): 3.09e-6,
    Where(PD, DS, 128): 4.17e-5,
    Where(PD, HT, 16): 3.23e-6,
    Where(PD, HT, 128): 1.98e-5,
}
ZIPF_REPLICATION = {
    zipf("PKG", 1.0, 64): 1.15,
    zipf("PKG", 2.0, 64): 1.03,
    zipf("DAGreedy", 2.0, 128): 1.029,
    zipf(WC, 1.0, 16): 1.18,
    zipf(WC, 2.0, 128): 7.97,
    zipf(PD, 1.2, 16): 1.05,
    zipf(PD, 1.4, 64): 1.19,
    zipf(PD, 1.8, 64): 1.35,
    zipf(PD, 2.0, 128): 1.74,
}
PD_REPLICATION = {
    Where(PD, DS, 16): 1.24,
    Where(PD, DS, 128): 1.30,
    Where(PD, HT, 16): 1.02,
    Where(PD, HT, 128): 1.12,
}
EVEN_TUPLES = 8  # 1e-5 of 10 M messages on 16 instances is 6 tuples, 1e-4 on 128 is 8


def beside(values: Mapping[Where, float]) -> str:
    """Figures with what they are of, as short as can be."""
    return ", ".join(f"{w.system} {w.stream} n {w.instances}: {v:.3g}" for w, v in values.items())


def measured(told: Swept, quantity: str, points: Iterable[Where]) -> dict[Where, float]:
    points = list(points)
    return dict(zip(points, figures(told.runs, quantity, points), strict=True))


def formulas() -> Experiment:
    """Tables II and III, which hang on nothing but formulas."""
    n = 1 << 20
    missing = [100 * (1 - 2 / n) ** PdStream(length_factor=a).window(n) for a in TABLE_II]
    estimates = [100 * float(p) for p in probability_table(16, 0.99, 1e-4)]
    two = Item(
        "table II",
        "limit of the share of windows without a given hot key, α = 1 … 6, %",
        ", ".join(map(str, TABLE_II.values())),
        "table",
        ", ".join(f"{m:.3f}" for m in missing),
        _digits(missing, list(TABLE_II.values())),
        f"(1 - 2/n)^N with the window of `PdStream(length_factor=α)` at n = {n:,}, near "
        f"e^-α ({100 * exp(-4):.3f} for the default of 4); the paper cuts digits off. Reproduced "
        "if all digits but the last agree.",
    )
    three = Item(
        "table III",
        "probability table, N = 16, 99 %, ε = 1e-4, n_k = 1 … 16, %",
        ", ".join(map(str, TABLE_III)),
        "table",
        ", ".join(f"{p:.2f}" for p in estimates),
        _digits(estimates, TABLE_III),
        "`probability_table(16, 0.99, 1e-4)`: algorithm 1. The text says 99.9 %, the caption 99 %; "
        "only 99 gives these figures.",
    )
    return Experiment("Formulas", "No data: formulas of sections V-B and V-C.", (two, three))


def _digits(ours: Iterable[float], paper: Iterable[float]) -> Verdict:
    """Reproduced if none is off by more than one in the paper's last digit."""
    pairs = list(zip(ours, paper, strict=True))
    last = 0.1 if all(p >= 1 for _, p in pairs) else 0.01
    if all(abs(o - p) <= last for o, p in pairs):
        return "reproduced"
    return closeness([o for o, _ in pairs], [p for _, p in pairs], 0.0)


def data(told: Swept) -> Experiment:
    """Tables IV and V: what the streams are like."""
    synthetic = [f for f in told.facts if " " in f["stream"]]
    items = (
        _facts_item(
            "table IV",
            synthetic,
            "The same law from as many possible keys as messages: keys per message and p_1st.",
        ),
        _facts_item(
            "table V",
            [f for f in told.facts if f not in synthetic],
            "Streams made to have these figures; HT at 10 M messages, with the paper's keys per "
            "message. That they agree says nothing about the rest of their shape: see fig. 11.",
        ),
    )
    return Experiment("Streams", f"{DATA} Seed 0.", items)


def _facts_item(name: str, those: list[Json], why: str) -> Item:
    ours, papers, told, published = [], [], [], []
    for fact in those:
        paper = TABLES_IV_AND_V[fact["stream"]]
        ours += [fact["keys"] / fact["messages"], fact["first_share"]]
        papers += [paper.keys / paper.messages, paper.first_share]
        told.append(_fact(fact["stream"], fact["keys"], fact["messages"], fact["first_share"]))
        published.append(_fact(fact["stream"], paper.keys, paper.messages, paper.first_share))
    what = "distinct keys of messages, share of the first key"
    verdict = closeness(ours, papers)
    return Item(name, what, "; ".join(published), "table", "; ".join(told), verdict, why)


def _fact(stream: str, keys: int, messages: int, first_share: float) -> str:
    return f"{stream}: {keys:,} of {messages:,}, {first_share:.1%}"


def even(told: Swept, points: Iterable[Where]) -> Verdict:
    """Whether the busiest instance is always but a handful of tuples ahead of the mean."""
    most = max(told.tuples_ahead(where) for where in points)
    if most <= EVEN_TUPLES:
        return "reproduced"
    return "trend only" if most <= 10 * EVEN_TUPLES else "opposite"


def greedy(told: Swept, points: Iterable[Where]) -> Verdict:
    """DAGreedy's imbalance: reproduced within the bounds that the paper states, trend only if it is
    below the upper one and always far above Pd-Stream's."""
    found = [
        (told.runs[where].load_imbalance, told.runs[where._replace(system=PD)].load_imbalance)
        for where in points
    ]
    if any(mine > 1.0 for mine, _ in found):
        return "opposite"
    if all(mine >= 0.1 for mine, _ in found):
        return "reproduced"
    return "trend only" if all(mine > 10 * theirs for mine, theirs in found) else "opposite"


def balance_zipf(told: Swept) -> tuple[Item, Plot]:
    pkg = measured(told, IMBALANCE, PKG_IMBALANCE)
    where = {system: _zipf_points(told, system) for system in SYSTEMS}
    uneven = figures(told.runs, IMBALANCE, where["DAGreedy"])
    verdict = worst([
        closeness(pkg.values(), PKG_IMBALANCE.values()),
        greedy(told, where["DAGreedy"]),
        even(told, [*where[PD], *where[WC]]),
    ])  # fmt: skip
    ahead = {s: max(told.tuples_ahead(w) for w in where[s]) for s in (PD, WC)}
    item = Item(
        "fig. 8",
        "load imbalance, zipf 1.0 … 2.0, all n",
        f"{beside(PKG_IMBALANCE)}; DAGreedy 0.1 to 1.0; W-C and Pd-Stream 1e-6 (n 16, 32) and 1e-5",
        "text",
        f"{beside(pkg)}; DAGreedy {min(uneven):.2g} to {max(uneven):.2g}; W-C and Pd-Stream at "
        f"most {ahead[WC]:.0f} and {ahead[PD]:.0f} tuples ahead of the mean",
        verdict,
        "Worst of: PKG within 15 %; DAGreedy within its bounds, or at least far above Pd-Stream "
        "everywhere (it is below 0.1 in a few places); W-C and Pd-Stream at most "
        f"{EVEN_TUPLES} tuples ahead, which is 1e-5 at n 16 and 1e-4 at n 128 of 10 M. The paper's "
        "3.85 for PKG at zipf 1.6, n 16 cannot be: half of the first key's 43.7 % on one instance "
        "of 16 is 2.5; 3.85 is what 60.7 % make, the share at zipf 2.0.",
        _defaults(told, IMBALANCE, zipf("", 2.0, 128)),
    )
    return item, _plot(told, "pdstream_fig8", "fig. 8, n = 64: load imbalance", IMBALANCE, 64)


def _zipf_points(told: Swept, system: str) -> list[Where]:
    return [w for w in told.runs if w.system == system and " " in w.stream]


def _plot(told: Swept, name: str, title: str, quantity: str, instances: int) -> Plot:
    lines = {
        system: [
            (float(w.stream.split()[1]), max(1e-7, float(getattr(told.runs[w], quantity))))
            for w in _zipf_points(told, system)
            if w.instances == instances
        ]
        for system in SYSTEMS
    }
    return Plot(name, title, "zipf exponent", quantity.replace("_", " "), lines, log_y=True)


def _defaults(told: Swept, quantity: str, at: Where) -> str:
    found = measured(told, quantity, [at._replace(system=s) for s in (AUTO, BATCH_AWARE)])
    return beside(found)


def balance_data(told: Swept) -> Item:
    ours = measured(told, IMBALANCE, PD_IMBALANCE)
    messages = {DS: 12e6, HT: 67e6}
    fewer = [
        told.tuples_ahead(w) <= value * messages[w.stream] / w.instances + 2
        for w, value in PD_IMBALANCE.items()
    ]
    rivals = all(
        told.runs[w._replace(system=other)].load_imbalance > 10 * ours[w]
        for w in PD_IMBALANCE
        for other in ("PKG", "DAGreedy")
    )
    verdict: Verdict = "opposite"
    if rivals:
        verdict = "reproduced" if all(fewer) else "trend only"
    others = measured(
        told, IMBALANCE, [Where(s, d, 128) for d in DATA_SETS for s in ("PKG", "DAGreedy", WC)]
    )
    return Item(
        "fig. 9",
        "load imbalance on the data sets",
        beside(PD_IMBALANCE),
        "text",
        beside(ours),
        verdict,
        "Imbalance is a few tuples over the mean, whatever their number: reproduced if the busiest "
        "instance is ahead by no more tuples than in the paper and 2, and PKG and DAGreedy are ten "
        f"times as uneven. Here {beside(others)}.",
        _defaults(told, IMBALANCE, Where("", DS, 128)),
    )


def splitting_zipf(told: Swept) -> tuple[Item, Plot]:
    ours = measured(told, REPLICATION, ZIPF_REPLICATION)
    by_system = [
        closeness(
            [ours[w] for w in ZIPF_REPLICATION if w.system == system],
            [v for w, v in ZIPF_REPLICATION.items() if w.system == system],
        )
        for system in SYSTEMS
    ]
    item = Item(
        "fig. 10",
        "replication factor, zipf 1.0 … 2.0, all n",
        beside(ZIPF_REPLICATION),
        "text",
        beside(ours),
        worst(by_system),
        "Each system for itself, within 15 %. Pd-Stream is read as algorithm 2 is printed, n_k "
        "before the tuple comes in: with it, as in figure 3, the last would be 2.17. W-C takes a "
        f"key for hot from 1e-5 of the tuples on ({HOT_MESSAGES} of 10 M); with the usual 1/(5n) "
        "it would be 1.78. Both are shown under “What decides how far keys are split”.",
        _defaults(told, REPLICATION, zipf("", 2.0, 128)),
    )
    return item, _plot(told, "pdstream_fig10", "fig. 10, n = 128: replication", REPLICATION, 128)


def splitting_data(told: Swept) -> Item:
    ours = measured(told, REPLICATION, PD_REPLICATION)
    return Item(
        "fig. 11",
        "replication factor on the data sets",
        beside(PD_REPLICATION),
        "text",
        beside(ours),
        closeness(ours.values(), PD_REPLICATION.values()),
        "DS is near. HT is not, and above DS where the paper has it below: with 30 messages per "
        "tag under one law, most tags come up often enough to be split, by two choices alone "
        "(PKG has "
        f"{told.runs[Where('PKG', HT, 128)].replication_factor:.2f}). Were some 97 % of the tags "
        "to come up only once, the paper's figures would follow: see the last table of “What "
        "decides how far keys are split”.",
        _defaults(told, REPLICATION, Where("", HT, 128)),
    )


def grouped(told: Swept) -> Experiment:
    eight, plot_8 = balance_zipf(told)
    ten, plot_10 = splitting_zipf(told)
    shown = [w for w in told.runs if w.system == PD]
    rows = []
    for where in shown:
        cells = []
        for system in (*SYSTEMS, AUTO, BATCH_AWARE):
            found = told.runs.get(where._replace(system=system))
            cells.append(
                "" if found is None
                else f"{found.load_imbalance:.2g} / {found.replication_factor:.3f}"
            )  # fmt: skip
        rows.append((where.stream, str(where.instances), *cells))
    sheet = Sheet(
        "Load imbalance / replication factor",
        ("stream", "n", *SYSTEMS, AUTO, BATCH_AWARE),
        tuple(rows),
    )
    setting = (
        f"{DATA} {told.messages:,} messages in each (DS a fifth more), one grouper, seed 0; least "
        "and most of several seeds are in the next section. Pd-Stream: α = 4, 0.99, ε = 1e-4, "
        "`count_arriving=False`. DAGreedy: hot from 1/(5n). W-C: hot from "
        f"{HOT_MESSAGES} messages."
    )
    items = (eight, balance_data(told), ten, splitting_data(told))
    return Experiment("Balance and splitting", setting, items, (sheet,), (plot_8, plot_10))


def run(scale: Scale) -> Iterator[Experiment]:
    yield formulas()
    told = swept(scale)
    yield data(told)
    yield grouped(told)
    yield pdstream_expected.experiment(scale)
    yield pdstream_cluster.experiment(told)
    yield pdstream_costs.experiment(told, scale)
    yield pdstream_application.experiment(scale)


READINGS = (
    Reading(
        "n_k (algorithm 2, figure 3)",
        "read otherwise",
        "Figure 3 counts the arriving tuple, the algorithm looks n_k up before it adds the key. "
        "`PdStream()` counts it; the paper's replication factors come out without "
        "(`count_arriving=False`).",
    ),
    Reading(
        "a traversal of the window per tuple",
        "replaced",
        "A counter per key in the window, and marks for the least loaded candidate: the same "
        "targets in constant time.",
    ),
    Reading(
        "“the instance with the lowest load is already recorded”",
        "read otherwise",
        "None is added if any of the least loaded is a candidate already.",
    ),
    Reading(
        "a grouper is reinitialized when its executor fails",
        "replaced",
        "Groupers are part of the state: a restart goes on exactly where the last commit was.",
    ),
)

PAPER = Paper(
    "Pd-Stream",
    'Sun et al., "A Popularity-Aware Discriminative Grouping Strategy in Distributed Stream '
    'Computing Systems".',
    (
        *(f"table {number}" for number in ("II", "III", "IV", "V", "VI")),
        *(f"fig. {number}" for number in range(4, 14)),
    ),
    run,
    READINGS,
)
