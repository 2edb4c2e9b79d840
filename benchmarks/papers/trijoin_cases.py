"""What is measured of TriJoin: cases, and the contestants side by side in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measure import say
from benchmarks.papers.model import percent
from benchmarks.papers.trijoin_data import Packets, Rides
from benchmarks.three_way_core import CHAIN, CYCLE, STRATEGIES, Case, Figures, measure
from skewless.operators.three_way.tree import GROUPS, PAIRS

TREE, PAIR, TRIJOIN, AUTO = STRATEGIES
SHAPES = (CYCLE, CHAIN)

Figure = Callable[[Figures], float]
Vary = Callable[[Case, float], Case]


@dataclass(frozen=True)
class Sizes:
    """What is measured, in full or quickly: a case for each shape, over time and where something is
    varied. `finer` are other cities, by how often their cells are quartered."""

    base: Mapping[str, Case]
    seeds: tuple[int, ...]
    sweep: Mapping[str, Case]
    swept: tuple[str, ...]
    packets: Packets
    instances: tuple[int, ...]
    windows: tuple[float, ...]  # times that of the sweep
    batch_rows: tuple[int, ...]
    finer: tuple[int, ...]


# So many partners have a row that comparing takes most of the time, as in the paper's model; in a
# chain fewer: its triples are the product of what s meets on either side. Files are compacted once
# in eight batches.
CYCLES = Case(
    CYCLE,
    Rides(order=7),
    window=10_000,
    instances=12,
    batch_rows=6000,
    batches=8,
    rows_per_s=5000,
    fill=2,
    attempts=3,
)
CHAINS = replace(CYCLES, shape=CHAIN, data=Rides(order=8), window=20_000)


def swept(case: Case) -> Case:
    """Batches until files are compacted: the more of them there are, the more a look costs."""
    return replace(case, batches=6, warmup=0)


FULL = Sizes(
    base={CYCLE: CYCLES, CHAIN: CHAINS},
    seeds=(1, 2, 3),
    sweep={CYCLE: swept(CYCLES), CHAIN: swept(CHAINS)},
    swept=(TREE, TRIJOIN),  # "auto" needs some batches to settle: see over time
    packets=Packets(hosts=10_000),
    instances=(12, 30, 60, 120, 180),
    windows=(0.25, 0.5, 1.0, 2.0),
    batch_rows=(1500, 6000, 12_000),
    finer=(0, 1),
)
SMALL = replace(
    CYCLES, data=Rides(order=6), window=1500, batch_rows=450, batches=2, warmup=1,
    rows_per_s=1000, attempts=2,
)  # fmt: skip
QUICK = Sizes(
    base={CYCLE: SMALL, CHAIN: replace(SMALL, shape=CHAIN)},
    seeds=(1,),
    sweep={CYCLE: SMALL, CHAIN: replace(SMALL, shape=CHAIN)},
    swept=(TREE, TRIJOIN),
    packets=Packets(hosts=300),
    instances=(12, 24),
    windows=(0.5, 1.0),
    batch_rows=(300, 450),
    finer=(0, 1),
)


@dataclass(frozen=True)
class Beside:
    """What the contestants did in the same case; with other seeds, several times."""

    runs: Sequence[Mapping[str, Figures]]

    @property
    def names(self) -> Sequence[str]:
        return list(self.runs[0])

    def of(self, name: str, figure: Figure) -> float:
        """A contestant's figure over the batches of all seeds."""
        batches = [batch for run in self.runs for batch in run[name].batches]
        return figure(replace(self.runs[0][name], batches=batches))

    def more(self, figure: Figure, name: str = TRIJOIN, than: str = TREE) -> float:
        """How much more than another's a contestant's figure is, in percent."""
        return percent(self.of(name, figure), self.of(than, figure))

    def spread(self, figure: Figure) -> str:
        """Least and most of the seeds."""
        each = [percent(figure(run[TRIJOIN]), figure(run[TREE])) for run in self.runs]
        return f"{min(each):+.0f} … {max(each):+.0f} %"


By = Mapping[str, Mapping[float, Beside]]  # by shape, and by what is varied


def latency(figures: Figures) -> float:
    return figures.latency_ms


def throughput(figures: Figures) -> float:
    return figures.rows_per_s


def held(figures: Figures) -> float:
    return figures.mean("intermediates")


def varied(
    cases: Mapping[str, Case], names: Sequence[str], values: Sequence[float], change: Vary
) -> By:
    """Measure some contestants in a case of each shape that is changed by each value."""
    return {
        shape: {value: beside(change(case, value), names) for value in values}
        for shape, case in cases.items()
    }


def beside(case: Case, names: Sequence[str], seeds: Sequence[int] = (1,)) -> Beside:
    """Measure some contestants in a case."""
    runs = []
    for seed in seeds:
        run = {name: measure(seeded(case, seed), STRATEGIES[name]) for name in names}
        check(run)
        told = ", ".join(f"{name} {figures.latency_ms:.1f} ms" for name, figures in run.items())
        say(f"{case.shape}, {case.instances} instances, window {case.window}: {told}")
        runs.append(run)
    return Beside(runs)


def seeded(case: Case, seed: int) -> Case:
    assert isinstance(case.data, Rides | Packets)
    return replace(case, data=replace(case.data, seed=seed))


def check(run: Mapping[str, Figures]) -> None:
    """All find the same triples, and some; none is saturated: its latency would mean nothing."""
    found = {name: figures.triples for name, figures in run.items()}
    if len(set(found.values())) > 1 or 0 in found.values():
        raise AssertionError(f"different numbers of triples, or none: {found}")
    for name, figures in run.items():
        if figures.is_saturated:
            raise AssertionError(f"{name} cannot keep up with {figures.case}")


def averaged(found: By, figure: Figure, name: str = TRIJOIN) -> dict[str, float]:
    """The mean change over all that was varied, by shape."""
    return {
        shape: float(np.mean([pair.more(figure, name) for pair in by.values()]))
        for shape, by in found.items()
    }


def defaults(found: By, figure: Figure) -> dict[str, float] | None:
    """The same of "auto", where it took part."""
    takes_part = all(AUTO in pair.names for by in found.values() for pair in by.values())
    return averaged(found, figure, AUTO) if takes_part else None


def waiting_share(figures: Figures, net_ms: float = 0.0) -> float:
    """Of the latency of triples that a new t completes with an old pair in BiStream + Tree, the
    percentage that passes in the first join and in handing its pairs over: t waits for that."""
    waited = joined = 0.0
    for batch in figures.batches:
        by_t = batch.instance % len(GROUPS) == PAIRS
        first_ms = float(batch.work_ms[0].max())
        waited += (first_ms + net_ms) * int(by_t.sum())
        joined += float((batch.out_ms[by_t] - first_ms).sum())
    return 100 * waited / (waited + joined)


def with_network(figures: Figures, net_ms: float, *, tree: bool) -> float:
    """Mean latency if handing intermediate results over took so long: Tree does so for every
    triple, TriJoin for what a new s of a chain completes (T_net of equations 2 and 3)."""
    if tree:
        return figures.latency_ms + net_ms
    sent = np.concatenate([batch.handed_over(figures.case.shape) for batch in figures.batches])
    return figures.latency_ms + net_ms * float(sent.mean())


def with_waiting(figures: Figures) -> float:
    """Mean latency with the time that a triple's last row waits until its batch is full."""
    return float((figures.each("out_ms") + figures.each("waited_ms")).mean())


def with_two_signals(figures: Figures) -> float:
    """The same, if the second join of the tree began only with the next batch."""
    first_ms = float(np.mean([batch.work_ms[0].max() for batch in figures.batches]))
    return with_waiting(figures) + figures.case.period_ms - first_ms
