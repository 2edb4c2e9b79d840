"""How evenly do groupings spread a stream, and at which cost?

    python -m benchmarks.grouping [--json] [--quick] [--messages N] [--only A,B]

The streams of the Pd-Stream paper (Sun et al.; tables IV and V): 10 M messages under a Zipf law
over as many possible keys, and streams with the figures of its two data sets, flows under a flood
(DS) and hashtags (HT, at the size of the others and not at 67 M), to 16 … 128 instances. How the
paper's own figures compare is in `benchmarks.papers`.

- *load imbalance*: (busiest − mean) / mean, of all messages;
- *replication factor*: how many instances a key has been sent to, the mean over all keys;
- *memory*: of the grouping's own state, at most;
- *ns per tuple*: processor time of assigning a micro-batch over its messages, the median of
  all micro-batches but the first. Keys are hashed before.

Imbalance, replication and memory are the same on every machine. Imbalance gets smaller with the
number of messages, so targets are judged only with 10 M of them.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from benchmarks.measure import Json, say
from benchmarks.tables import Target, console, count, machine, machine_line, verdict
from skewless.arrays.hashing import mix_words
from skewless.arrays.types import frozen
from skewless.placement.grouping import (
    PKG,
    BatchAware,
    DAGreedy,
    Dalton,
    DChoices,
    Grouping,
    KeyGrouping,
    PdStream,
    ShuffleGrouping,
    WChoices,
)
from skewless.placement.grouping.metrics import GroupingMetrics
from skewless.workloads import Flows, Hashtags, ZipfKeys

FULL_MESSAGES = 10_000_000
SKEWS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
INSTANCES = (16, 32, 64, 128)
DS, HT = "DS", "HT"

GROUPINGS: dict[str, Grouping] = {
    "KeyGrouping": KeyGrouping(),
    "ShuffleGrouping": ShuffleGrouping(),
    "PKG": PKG(),
    "DChoices": DChoices(),
    "WChoices": WChoices(),
    "DAGreedy": DAGreedy(),
    "Dalton": Dalton(),
    "PdStream": PdStream(),
    "PdStream auto": PdStream(expected="auto"),
    "BatchAware": BatchAware(),
}

IMBALANCE, REPLICATION = "load_imbalance", "replication_factor"
MEMORY, NS = "memory_bytes", "ns_per_tuple"

QUANTITIES = {
    IMBALANCE: "load imbalance",
    REPLICATION: "replication factor",
    MEMORY: "memory, KB",
    NS: "ns per tuple",
}

Keys = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Targets = npt.NDArray[np.int32]
Values = list[float]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    messages: int = FULL_MESSAGES
    batches: int = 10
    skews: tuple[float, ...] = SKEWS
    instances: tuple[int, ...] = INSTANCES


FULL = Size()
QUICK = Size(messages=200_000, batches=5, skews=(1.0, 2.0), instances=(16, 128))


@dataclass(frozen=True)
class Facts:
    """A row of table IV or V."""

    messages: int
    keys: int
    first_share: float


def zipf_name(skew: float) -> str:
    return f"zipf {skew:.1f}"


TABLES_IV_AND_V = {
    zipf_name(1.0): Facts(10_000_000, 1_900_000, 0.059),
    zipf_name(1.2): Facts(10_000_000, 563_000, 0.185),
    zipf_name(1.4): Facts(10_000_000, 127_000, 0.322),
    zipf_name(1.6): Facts(10_000_000, 33_100, 0.437),
    zipf_name(1.8): Facts(10_000_000, 10_700, 0.532),
    zipf_name(2.0): Facts(10_000_000, 4_300, 0.607),
    DS: Facts(12_000_000, 2_400_000, 0.202),
    HT: Facts(67_000_000, 2_200_000, 0.085),
}


@dataclass(frozen=True)
class Stream:
    """A named stream, drawn micro-batch by micro-batch."""

    name: str
    possible_keys: int
    draw: Callable[[], Iterator[Keys]]


def streams(size: Size) -> Iterator[Stream]:
    """All streams of the paper, each of about so many messages."""
    for skew in size.skews:
        yield zipf_stream(skew, size)
    flows = Flows(scale=size.messages / FULL_MESSAGES)
    yield stretches(DS, flows.messages + 1, flows, size)
    hashtags = Hashtags(scale=size.messages / TABLES_IV_AND_V[HT].messages)
    yield stretches(HT, hashtags.law.keys, hashtags, size)


def zipf_stream(skew: float, size: Size) -> Stream:
    def draw() -> Iterator[Keys]:
        keys = ZipfKeys(size.messages, skew)
        return (
            keys.draw(end - begin, i) for i, (begin, end) in enumerate(cuts(size.messages, size))
        )

    return Stream(zipf_name(skew), size.messages, draw)


def stretches(name: str, possible_keys: int, workload: Flows | Hashtags, size: Size) -> Stream:
    def draw() -> Iterator[Keys]:
        return (workload.keys(begin, end) for begin, end in cuts(workload.messages, size))

    return Stream(name, possible_keys, draw)


def cuts(messages: int, size: Size) -> Iterator[tuple[int, int]]:
    """Where micro-batches begin and end: all but the last are of one length for all streams."""
    step = -(-size.messages // size.batches)
    return ((begin, min(begin + step, messages)) for begin in range(0, messages, step))


def facts(stream: Stream, batches: Sequence[Keys]) -> Json:
    counts = np.zeros(stream.possible_keys, dtype=np.int64)
    for keys in batches:
        counts += np.bincount(keys, minlength=stream.possible_keys)
    messages = int(counts.sum())
    ours = {
        "messages": messages,
        "keys": int(np.count_nonzero(counts)),
        "first_share": float(counts.max()) / messages,
    }
    paper = TABLES_IV_AND_V[stream.name]
    return {"stream": stream.name, **ours, "paper": vars(paper)}


def hashed(keys: Keys) -> Hashes:
    """Keys as the engine hashes them."""
    hashes = np.zeros(len(keys), dtype=np.uint64)
    mix_words(hashes, frozen(keys.view(np.uint64)))
    return frozen(hashes)


@dataclass(frozen=True)
class Run:
    """What one grouping made of one stream; `last` are the targets of the last micro-batch."""

    load_imbalance: float
    replication_factor: float
    memory_bytes: int
    ns_per_tuple: float
    last: Targets

    def to_json(self) -> Json:
        return {quantity: getattr(self, quantity) for quantity in QUANTITIES}


def run(grouping: Grouping, instances: int, batches: Sequence[Hashes], seed: int = 0) -> Run:
    """One grouping over one stream."""
    grouper = grouping.build(instances=instances, seed=seed)
    metrics = GroupingMetrics(instances)
    memory_bytes = 0
    ns_per_tuple: list[float] = []
    for hashes in batches:
        begun_ns = time.process_time_ns()
        targets = grouper.assign(hashes)
        ns_per_tuple.append((time.process_time_ns() - begun_ns) / len(hashes))
        memory_bytes = max(memory_bytes, grouper.memory_bytes)
        metrics.update(hashes, targets)
    return Run(
        load_imbalance=float(metrics.load_imbalance),
        replication_factor=float(metrics.replication_factor),
        memory_bytes=memory_bytes,
        ns_per_tuple=round(statistics.median(ns_per_tuple[1:] or ns_per_tuple), 2),
        last=targets,
    )


def measure(size: Size, names: Sequence[str]) -> Json:
    """Everything, stream by stream, as the keys of all of them would not fit into memory."""
    told: list[Json] = []
    runs: list[Json] = []
    steps = (len(size.skews) + 2) * len(size.instances) * len(names)
    # Drawn only when told to: a thread that draws ten times a second would be measured, too.
    with Progress(console=Console(stderr=True), auto_refresh=False, transient=True) as progress:
        task = progress.add_task("", total=steps)
        for stream in streams(size):
            _tell(progress, task, f"{stream.name}: drawing keys")
            keys = list(stream.draw())
            told.append(facts(stream, keys))
            hashes = [hashed(batch) for batch in keys]
            del keys
            for instances, name in product(size.instances, names):
                _tell(progress, task, f"{stream.name}, {instances} instances: {name}")
                found = run(GROUPINGS[name], instances, hashes).to_json()
                where = {"stream": stream.name, "grouping": name, "instances": instances}
                runs.append(where | found)
                progress.advance(task)
    return {
        "messages": size.messages,
        "streams": told,
        "runs": runs,
        "targets": judged(told, runs) if size.messages == FULL_MESSAGES else [],
    }


def _tell(progress: Progress, task: TaskID, text: str) -> None:
    if progress.console.is_terminal:
        progress.update(task, description=text, refresh=True)
    else:
        say(text)


def _keys_per_message(fact: Json) -> float:
    """Comparable whatever the size of a stream."""
    return float(fact["keys"] / fact["messages"])


def judged(told: Sequence[Json], runs: Sequence[Json]) -> list[Json]:
    """The targets whose groupings were measured. The value is that of the worst run."""

    def of(grouping: str, quantity: str, **where: Any) -> Values:
        return [
            r[quantity]
            for r in runs
            if r["grouping"] == grouping and all(r[name] == value for name, value in where.items())
        ]

    keys_off = [abs(_keys_per_message(f) / _keys_per_message(f["paper"]) - 1) for f in told]
    first_off = [abs(f["first_share"] - f["paper"]["first_share"]) for f in told]
    extreme = {"stream": zipf_name(2.0), "instances": 128}
    candidates: list[tuple[Target, Values]] = [
        (Target("streams: distinct keys per message, off the paper's", "<=", 0.05), keys_off),
        (Target("streams: share of the first key, off the paper's", "<=", 0.0015), first_off),
        (Target("PdStream: load imbalance", "<=", 5e-5), of("PdStream", IMBALANCE)),
        (
            Target("PdStream: replication factor, zipf 2.0, 128 instances", "<=", 1.74),
            of("PdStream", REPLICATION, **extreme),
        ),
        (
            Target("PdStream: ns per tuple, 128 instances", "<=", 150),
            of("PdStream", NS, instances=128),
        ),
        (Target("DAGreedy: load imbalance", "<=", 1.0), of("DAGreedy", IMBALANCE)),
        (Target("BatchAware: load imbalance", "<=", 1e-3), of("BatchAware", IMBALANCE)),
        (Target("BatchAware: replication factor", "<=", 1.10), of("BatchAware", REPLICATION)),
    ]
    return [target.judge(max(values)) for target, values in candidates if values]


def shown_figure(quantity: str, value: float) -> str:
    if quantity == IMBALANCE:
        return f"{value:.2e}" if value < 0.01 else f"{value:.3g}"
    if quantity == MEMORY:
        return count(value / 1e3) if value >= 1e4 else f"{value / 1e3:.1f}"
    return f"{value:.3f}" if quantity == REPLICATION else f"{value:,.1f}"


def show(out: Console, report: Json) -> None:
    _show_streams(out, report["streams"])
    for quantity in QUANTITIES:
        _show_quantity(out, quantity, report["runs"])
    for target in report["targets"]:
        out.print(f"{target['figure']}: {target['value']:.3g}  {verdict(target)}")
    if not report["targets"]:
        out.print(f"no target is judged: they are for {count(FULL_MESSAGES)} messages")


def _show_streams(out: Console, told: Sequence[Json]) -> None:
    headings = ("messages", "keys", "first key", "paper: messages", "keys", "first key")
    table = _table("streams", *headings)
    for fact in told:
        shown = [
            text
            for row in (fact, fact["paper"])
            for text in (count(row["messages"]), count(row["keys"]), f"{row['first_share']:.1%}")
        ]
        table.add_row(fact["stream"], *shown)
    out.print(table)


def _show_quantity(out: Console, quantity: str, runs: Sequence[Json]) -> None:
    names = list(dict.fromkeys(r["grouping"] for r in runs))
    table = _table(QUANTITIES[quantity], *(name.removesuffix("Grouping") for name in names))
    rows: dict[str, list[str]] = {}
    for r in runs:
        row = rows.setdefault(f"{r['stream']}, {r['instances']}", [])
        row.append(shown_figure(quantity, r[quantity]))
    for label, figures in rows.items():
        table.add_row(label, *figures)
    out.print(table)


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def chosen(only: str | None) -> list[str]:
    """The groupings of a list with commas, or all of them."""
    if only is None:
        return list(GROUPINGS)
    names = [name.strip() for name in only.split(",")]
    unknown = [name for name in names if name not in GROUPINGS]
    if unknown:
        raise typer.BadParameter(f"no grouping is called {unknown[0]!r}: {', '.join(GROUPINGS)}")
    return names


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds of it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    messages: Annotated[
        int | None,
        typer.Option(min=67_000, max=100_000_000, help="In each stream; 10 M if not given."),
    ] = None,
    only: Annotated[str | None, typer.Option(help="Groupings, separated by commas.")] = None,
) -> None:
    """Compare groupings with one another."""
    names = chosen(only)
    size = QUICK if quick else FULL
    if messages is not None:
        size = Size(messages, size.batches, size.skews, size.instances)
    told = machine()
    out = console()
    if not as_json:
        out.print(machine_line(told), "\n")
    report = {"benchmark": "grouping", "machine": told, **measure(size, names)}
    if as_json:
        print(json.dumps(report))
    else:
        show(out, report)


if __name__ == "__main__":
    typer.run(main)
