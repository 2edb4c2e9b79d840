"""How even does balancing make the work?

    python -m benchmarks.balance [--quick] [--json]

All on a virtual cluster (`skewless.simulation`): the strategies are the real ones, rows are counts
per key, and time is what the work costs at fixed prices. So figures do not depend on the machine.
`Auto`, as this engine works, for every skew and number of instances: from a cold start, when a key
turns hot at once, and when all ranks are dealt anew. What counts is the busiest instance over the
mean from the third batch after a change on. The systems of the papers are measured with their own
settings in `benchmarks.papers`; here they stand beside `Auto` with ours.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Json, say
from benchmarks.tables import Target, console, machine, machine_line, verdict
from skewless.placement.balancing.auto import Auto
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.lsstream import LSStream
from skewless.placement.routing import Hash, Routing
from skewless.placement.strategy import PlacementStrategy
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.report import BatchFigures, Summary
from skewless.simulation.workloads import HotKey, Stream, Zipf

WORST = "Auto: worst busiest/mean from the third batch after a change on"
DECISIONS = "Auto: decisions on uniform data"
TARGETS = (Target(WORST, "<=", 1.10), Target(DECISIONS, "<=", 0))

SKEWS = tuple(round(0.2 * i, 1) for i in range(1, 11))
INSTANCES = (8, 16, 32, 64, 128)
BESIDE = 32  # instances at which the other strategies run on the same streams

# As the papers' monitors do, the published strategies look at every second and act at once.
AT_ONCE: dict[str, Any] = {"window": 1, "patience": 1, "cooldown": 1}


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    keys: int = 100_000
    rows_per_instance: int = 125_000
    skews: tuple[float, ...] = SKEWS
    instances: tuple[int, ...] = INSTANCES
    period: int = 8  # batches from one change to the next


FULL = Size()
QUICK = Size(keys=5_000, skews=(0.4, 1.2), instances=(8, 16))


def changing(skew: float, instances: int, size: Size) -> Stream:
    """Both sides skewed; after one period a key gets a tenth of all rows at once, after two the
    ranks are dealt anew."""
    rows = size.rows_per_instance * instances // 2
    zipf = Zipf(
        keys=size.keys, left=skew, right=skew, rows_left=rows, rows_right=rows,
        reshuffled=(2 * size.period,),
    )  # fmt: skip
    return HotKey.on(zipf, share=0.1, since=size.period)


def after_changes(strategy: PlacementStrategy, skew: float, instances: int, size: Size) -> Json:
    """A strategy on such a stream: busiest over mean from the third batch after each change."""
    stream = changing(skew, instances, size)
    cluster = VirtualCluster(strategy, instances, window_batches=4)
    told = cluster.run(stream.batch(i) for i in range(3 * size.period))
    summary = Summary.of(told)
    names = ("start", "hot key", "reshuffled")
    settled = {
        name: _settled(told[i * size.period : (i + 1) * size.period])
        for i, name in enumerate(names)
    }
    return {
        "strategy": "Hash" if isinstance(strategy, Routing) else strategy.name,
        "zipf": skew,
        "instances": instances,
        "busiest_over_mean": settled,
        "worst": max(settled.values()),
        "migrated_share": summary.migrated_rows / max(sum(batch.rows for batch in told), 1),
        "extra_probes_per_row": summary.extra_probes_per_row,
        "decisions": summary.accepted,
        "refused": summary.decisions - summary.accepted,
        "isolated_keys": max(batch.isolated_keys for batch in told),
        "units": max(batch.units for batch in told),
    }


def _settled(period: Sequence[BatchFigures]) -> float:
    return max(batch.busiest_over_mean for batch in period[3:])


def one_sided(size: Size) -> list[Json]:
    """Only the left side skewed: a hot key then meets a handful of new rows of the other side per
    batch, each of which meets all its stored rows. How many come is chance, so that single batches
    go up and down whatever is done; hence the median beside the worst."""
    runs = []
    for skew in size.skews:
        say(f"zipf {skew:g} against uniform")
        for instances in size.instances:
            rows = size.rows_per_instance * instances // 2
            zipf = Zipf(keys=size.keys, left=skew, right=0.0, rows_left=rows, rows_right=rows)
            told = VirtualCluster(Auto(), instances, window_batches=4).run(
                zipf.batch(i) for i in range(2 * size.period)
            )
            settled = [batch.busiest_over_mean for batch in told[3:]]
            summary = Summary.of(told)
            runs.append(
                {
                    "zipf": skew,
                    "instances": instances,
                    "median": statistics.median(settled),
                    "worst": max(settled),
                    "migrated_share": summary.migrated_rows / sum(batch.rows for batch in told),
                    "extra_probes_per_row": summary.extra_probes_per_row,
                    "isolated_keys": max(batch.isolated_keys for batch in told),
                }
            )
    return runs


def evenness(size: Size) -> list[Json]:
    """Auto everywhere; the others beside it at one number of instances and every other skew."""
    others: tuple[Callable[[], PlacementStrategy], ...] = (
        Hash, lambda: FastJoin(**AT_ONCE), lambda: LSStream(**AT_ONCE),
    )  # fmt: skip
    runs = []
    for skew in size.skews:
        say(f"zipf {skew:g}")
        runs += [after_changes(Auto(), skew, n, size) for n in size.instances]
        beside = BESIDE if BESIDE in size.instances else size.instances[-1]
        if round(10 * skew) % 4 == 0:
            runs += [after_changes(other(), skew, beside, size) for other in others]
    return runs


def uniform(size: Size) -> list[Json]:
    """Uniform data, with ten thousand keys per instance: so many fall evenly by themselves."""
    say("uniform")
    runs = []
    for instances in size.instances:
        rows = size.rows_per_instance * instances // 2
        stream = Zipf(keys=10_000 * instances, left=0.0, right=0.0, rows_left=rows, rows_right=rows)
        cluster = VirtualCluster(Auto(), instances, window_batches=2)
        told = cluster.run(stream.batch(i) for i in range(5))
        runs.append(
            {
                "instances": instances,
                "decisions": sum(len(batch.decisions) for batch in told),
                "busiest_over_mean": max(batch.busiest_over_mean for batch in told),
            }
        )
    return runs


def measure(size: Size) -> Json:
    runs, even = evenness(size), uniform(size)
    values = {
        WORST: round(max(run["worst"] for run in runs if run["strategy"] == "Auto"), 4),
        DECISIONS: sum(run["decisions"] for run in even),
    }
    return {
        "evenness": runs,
        "one_sided": one_sided(size),
        "uniform": even,
        "targets": [target.judge(values[target.figure]) for target in TARGETS],
    }


def show(out: Console, report: Json) -> None:
    _show_evenness(out, report)
    for run in report["uniform"]:
        out.print(
            f"uniform, {run['instances']} instances: busiest/mean {run['busiest_over_mean']:.3f}, "
            f"{run['decisions']} decisions"
        )
    for target in report["targets"]:
        out.print(f"{target['figure']}: {target['value']:g}  {verdict(target)}")


def _show_evenness(out: Console, report: Json) -> None:
    headings: tuple[str, ...] = (
        "start", "hot key", "reshuffled", "moved", "extra probes", "decisions", "isolated", "units"
    )  # fmt: skip
    table = _table("busiest/mean from the third batch after a change on", *headings)
    for run in report["evenness"]:
        table.add_row(
            f"zipf {run['zipf']:g}, {run['instances']} instances, {run['strategy']}",
            *(f"{value:.3f}" for value in run["busiest_over_mean"].values()),
            f"{run['migrated_share']:.1%}", f"{run['extra_probes_per_row']:.2%}",
            f"{run['decisions']} + {run['refused']}", str(run["isolated_keys"]), str(run["units"]),
        )  # fmt: skip
    out.print(table)
    headings = ("median", "worst batch", "moved", "extra probes", "isolated")
    table = _table("busiest/mean with Auto, only the left side skewed", *headings)
    for run in report["one_sided"]:
        table.add_row(
            f"zipf {run['zipf']:g}, {run['instances']} instances",
            f"{run['median']:.3f}", f"{run['worst']:.3f}", f"{run['migrated_share']:.1%}",
            f"{run['extra_probes_per_row']:.2%}", str(run["isolated_keys"]),
        )  # fmt: skip
    out.print(table)


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds of it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare balancing strategies with one another."""
    told = machine()
    out = console()
    if not as_json:
        out.print(machine_line(told), "\n")
    report = {"benchmark": "balance", "machine": told, **measure(QUICK if quick else FULL)}
    if as_json:
        print(json.dumps(report))
    else:
        show(out, report)


if __name__ == "__main__":
    typer.run(main)
