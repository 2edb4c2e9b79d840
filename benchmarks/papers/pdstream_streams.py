"""What the experiments of the Pd-Stream paper have in common: systems, streams and their runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from benchmarks.grouping import (
    DS,
    HT,
    INSTANCES,
    SKEWS,
    Hashes,
    Run,
    Size,
    Stream,
    facts,
    hashed,
    run,
    streams,
    zipf_name,
)
from benchmarks.measure import Json
from benchmarks.papers.model import Scale
from skewless.placement.grouping import (
    PKG,
    BatchAware,
    DAGreedy,
    Dalton,
    Grouping,
    PdStream,
    WChoices,
)

PD, WC = "Pd-Stream", "W-C"
PAPERS_OWN = PdStream(expected=0.99, count_arriving=False)
HOT_MESSAGES = 100  # of the whole stream, from which on W-C takes a key for hot: see fig. 10
SYSTEMS = ("PKG", WC, "DAGreedy", PD)
AUTO, BATCH_AWARE = "PdStream auto", "BatchAware"
DEFAULTS: dict[str, Grouping] = {AUTO: PdStream(expected="auto"), BATCH_AWARE: BatchAware()}
DATA_SETS = (DS, HT)

DATA = (
    "zipf: as in the paper, messages drawn independently with p ∝ rank^-z from as many possible "
    "keys as messages. DS and HT: synthetic streams with the paper's messages per key and p_1st "
    "(`skewless.workloads.Flows` and `Hashtags`); DS is one flooding source and a Zipf law, HT a "
    "Zipf law with tags that change ranks from day to day, at 10 M messages where the paper has "
    "67 M. How many keys come up only once is not published."
)


class Where(NamedTuple):
    """A grouping on a stream with so many instances."""

    system: str
    stream: str
    instances: int


Runs = Mapping[Where, Run]


@dataclass(frozen=True)
class Swept:
    """Everything over all streams: what streams are like, what groupings did, and the last
    micro-batch of the two data sets, which instances are timed on."""

    messages: int
    facts: Sequence[Json]
    runs: Runs
    last: Mapping[str, Hashes]

    def tuples_ahead(self, where: Where) -> float:
        """How many tuples the busiest instance is ahead of the mean at the end."""
        told = next(f for f in self.facts if f["stream"] == where.stream)
        return self.runs[where].load_imbalance * float(told["messages"]) / where.instances


def systems_for(messages: int) -> dict[str, Grouping]:
    """The paper's systems for a stream of so many messages."""
    anywhere = WChoices(threshold=HOT_MESSAGES / messages)
    return dict(zip(SYSTEMS, (PKG(), anywhere, DAGreedy(), PAPERS_OWN), strict=True))


def size_of(scale: Scale) -> Size:
    return scale.pick(
        Size(skews=SKEWS, instances=INSTANCES),
        Size(messages=400_000, batches=4, skews=SKEWS, instances=(16, 64, 128)),
    )


def swept(scale: Scale) -> Swept:
    """Stream by stream, as the keys of all of them would not fit into memory."""
    size = size_of(scale)
    told: list[Json] = []
    runs: dict[Where, Run] = {}
    last: dict[str, Hashes] = {}
    for stream in streams(size):
        batches = _drawn(stream, told)
        for system, grouping, instances in _contestants(stream.name, size):
            found = run(grouping, instances, batches)
            runs[Where(system, stream.name, instances)] = found
        if stream.name in DATA_SETS:
            last[stream.name] = batches[-1]
    return Swept(size.messages, told, runs, last)


def _drawn(stream: Stream, told: list[Json]) -> list[Hashes]:
    keys = list(stream.draw())
    told.append(facts(stream, keys))
    return [hashed(batch) for batch in keys]


def _contestants(stream: str, size: Size) -> Iterator[tuple[str, Grouping, int]]:
    both = stream in DATA_SETS
    dalton: dict[str, Grouping] = {"Dalton": Dalton()} if both else {}
    systems = systems_for(size.messages) | dalton | DEFAULTS
    for (name, grouping), instances in product(systems.items(), size.instances):
        if both or name in SYSTEMS or instances == max(size.instances):
            yield name, grouping, instances


def figures(runs: Runs, quantity: str, points: Iterable[Where]) -> list[float]:
    return [float(getattr(runs[where], quantity)) for where in points]


def zipf(system: str, skew: float, instances: int) -> Where:
    return Where(system, zipf_name(skew), instances)
