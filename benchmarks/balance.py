"""How even does balancing make the work, and how does that compare with the papers?

    python -m benchmarks.balance [--quick] [--json]

All on a virtual cluster (`skewless.simulation`): the strategies are the real ones, rows are counts
per key, and time is what the work costs at fixed prices. So figures do not depend on the machine.

Side by side with the papers stand FastJoin (Zhou et al.) and LS-Stream (Wu et al.), against
BiStream (hash partitioning) and ContRand. There a row that probes is compared with all that its
instance has stored, in LS-Stream with its slot. Throughput is that of the busiest instance at its
limit; latency is at a rate that BiStream can just follow. Ratios are to be of the same sign and
order; the notes say where they are not, and why.

Then `Auto`, as this engine works, for every skew and number of instances: from a cold start, when a
key turns hot at once, and when all ranks are dealt anew. What counts is the busiest instance over
the mean from the third batch after a change on.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Json, say
from benchmarks.tables import Target, console, count, machine, machine_line, verdict
from skewless.placement.balancing.auto import Auto
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.lsstream import LSStream
from skewless.placement.routing import ContRand, Hash, Routing
from skewless.placement.strategy import PlacementStrategy
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.costs import Costs, Scan
from skewless.simulation.report import BatchFigures, Summary
from skewless.simulation.workloads import Given, HotKey, Shares, Stream, Zipf
from skewless.workloads.ride_hailing import City
from skewless.workloads.zipf import EPOCH

WORST = "Auto: worst busiest/mean from the third batch after a change on"
DECISIONS = "Auto: decisions on uniform data"
TARGETS = (Target(WORST, "<=", 1.10), Target(DECISIONS, "<=", 0))

THETAS = (1.4, 1.8, 2.2, 3.0, 4.0)
ALPHAS = (0.5, 1.0, 2.0, 4.0, 6.0)
SKEWS = tuple(round(0.2 * i, 1) for i in range(1, 11))
INSTANCES = (8, 16, 32, 64, 128)
BESIDE = 32  # instances at which the other strategies run on the same streams

# As the papers' monitors do, the published strategies look at every second and act at once.
AT_ONCE: dict[str, Any] = {"window": 1, "patience": 1, "cooldown": 1}
PAPER_PAIR_MS = 1e-7  # a comparison in a scan: thousands of them for a row, a tenth of a ns each


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    batches: int = 60
    measured: int = 20
    keys: int = 100_000
    rows_per_instance: int = 125_000
    skews: tuple[float, ...] = SKEWS
    instances: tuple[int, ...] = INSTANCES
    thetas: tuple[float, ...] = THETAS
    alphas: tuple[float, ...] = ALPHAS
    seeds: int = 5
    period: int = 8  # batches from one change to the next


FULL = Size()
QUICK = Size(
    batches=12, measured=4, keys=5_000, rows_per_instance=125_000, skews=(0.4, 1.2),
    instances=(8, 16), thetas=(2.2,), alphas=(1.0,), seeds=1,
)  # fmt: skip

Contestants = dict[str, tuple[PlacementStrategy, Scan]]


def contest(
    stream: Stream, contestants: Contestants, instances: int, size: Size
) -> dict[str, Summary]:
    """Everyone on the same stream. BiStream, the first, sets the pace: it is busy for nine tenths
    of the time."""
    interval_ms = 1000.0
    results: dict[str, Summary] = {}
    for name, (strategy, scan) in contestants.items():
        costs = Costs(scan=scan, pair_ms=PAPER_PAIR_MS, stored_ms=5e-5, interval_ms=interval_ms)
        cluster = VirtualCluster(strategy, instances, 32 * instances, costs, window_batches=5)
        told = cluster.run(stream.batch(i) for i in range(size.batches))
        if not results:
            interval_ms = max(batch.busiest_ms for batch in told) / 0.9
        last = Summary.of(told[-size.measured :])
        results[name] = replace(last, migrated_rows=sum(batch.migrated_rows for batch in told))
    return results


def city_stream(order: int = 6) -> Stream:
    """Orders on the left, ten times as many tracks on the right, with the published skew. The hot
    spots drift as in the morning rush, five minutes of it every ten batches."""
    city = City(order=order, drift=0.2)
    slices = [6 * 3600 + 300 * i for i in range(12)]
    midnight = EPOCH.replace(hour=0, minute=0, second=0)
    at = [midnight.replace(hour=s // 3600, minute=s % 3600 // 60) for s in slices]
    shares = [(city.order_shares(time), city.track_shares(time)) for time in at]

    def of(number: int) -> Shares:
        return shares[min(number // 10, len(shares) - 1)]

    return Given(keys=city.cells, rows_left=20_000, rows_right=200_000, of=of)


def published(instances: int) -> Contestants:
    return {
        "BiStream": (Hash(), "instance"),
        "ContRand": (ContRand(groups=max(1, instances // 4)), "instance"),
        "FastJoin": (FastJoin(**AT_ONCE), "instance"),
        "LS-Stream": (LSStream(**AT_ONCE), "slot"),
        "LS-Stream, scanning its instance": (LSStream(**AT_ONCE), "instance"),
    }


def change(ours: float, theirs: float) -> float:
    """In percent."""
    return round(100 * (ours / theirs - 1), 1)


def side_by_side(size: Size) -> Json:
    """The papers' ratios and ours."""
    say("side by side with the papers")
    city = city_stream()
    at = {n: contest(city, published(n), n, size) for n in (48, 16)}
    zipf = {
        group: contest(
            Zipf(keys=10_000, left=1.0, right=right, rows_left=100_000, rows_right=100_000),
            published(20), 20, size,
        )
        for group, right in (("G10", 0.0), ("G11", 1.0))
    }  # fmt: skip
    fast, cont, bi, ls = "FastJoin", "ContRand", "BiStream", "LS-Stream"
    same = f"{ls}, scanning its instance"
    rows = [
        *_ratios("48 instances", at[48], fast, bi, 31.7, -17.5),
        *_ratios("16 instances", at[16], fast, bi, 258, -33.1),
        *_ratios("48 instances", at[48], fast, cont, 16, -15.3),
        *_ratios("zipf 1.0 on one side", zipf["G10"], ls, bi, 100, -49.3, "max"),
        *_ratios("zipf 1.0 on both sides", zipf["G11"], ls, bi, 100, -49.3, "max"),
        *_ratios("zipf 1.0 on one side", zipf["G10"], same, bi, 100, -49.3, "max"),
        *_ratios("zipf 1.0 on both sides", zipf["G11"], same, bi, 100, -49.3, "max"),
        *_ratios("48 instances", at[48], ls, fast, 6, -18.1, "max"),
    ]
    runs = {"city, 48": at[48], "city, 16": at[16]}
    runs |= {f"zipf {group}, 20": run for group, run in zipf.items()}
    return {
        "ratios": rows + hash_imbalance(size),
        "runs": {
            name: {who: summary.to_json() for who, summary in run.items()}
            for name, run in runs.items()
        },
        "notes": notes(at, zipf),
    }


def _ratios(
    what: str, run: dict[str, Summary], ours: str, theirs: str, throughput: float, latency: float,
    which: str = "mean",
) -> Iterator[Json]:  # fmt: skip
    mine, other = run[ours], run[theirs]
    what = f"{ours} over {theirs}, {what}"
    yield _row(f"{what}: throughput", throughput, change(mine.rows_per_s, other.rows_per_s), "%")
    times = [getattr(summary.latency, f"{which}_ms") for summary in (mine, other)]
    yield _row(f"{what}: {which} latency", latency, change(*times), "%")


def _row(figure: str, paper: float, ours: float, unit: str) -> Json:
    return {
        "figure": figure, "paper": paper, "ours": ours, "unit": unit,
        "same_sign": (paper > 0) == (ours > 0),
    }  # fmt: skip


def hash_imbalance(size: Size) -> list[Json]:
    """LS-Stream's degree under hash partitioning: 20 instances, 5000 rows a second. How many keys
    the paper's data have is not told; with many more than a thousand, zipf 0.4 is even."""
    rows = []
    for skew, paper in ((0.4, 1.5), (0.8, 5.3)):
        found = []
        for seed in range(size.seeds):
            stream = Zipf(
                keys=1000, left=skew, right=skew, rows_left=2500, rows_right=2500, seed=seed
            )
            cluster = VirtualCluster(
                Hash(), 20, slots=640, costs=Costs(scan="instance"), window_batches=10, seed=seed
            )
            found.append(cluster.run(stream.batch(i) for i in range(12))[-1].deviation)
        rows.append(
            _row(
                f"hash, LS-Stream's LI at zipf {skew:g}", paper, round(float(np.mean(found)), 2), ""
            )
        )
    return rows


def notes(at: dict[int, dict[str, Summary]], zipf: dict[str, dict[str, Summary]]) -> list[str]:
    """What does not carry over, and why."""
    small, large = at[16]["BiStream"], at[48]["BiStream"]
    cont, both = at[48]["ContRand"], zipf["G11"]["LS-Stream"]
    inside = at[48]["LS-Stream, scanning its instance"]
    fast = at[48]["FastJoin"]
    return [
        f"+258 % at 16 instances cannot come from balance alone: BiStream's busiest there has "
        f"{small.busiest_over_mean:.2f} of the mean, so perfect balance gains "
        f"{100 * (small.busiest_over_mean - 1):.0f} %; at 48 it has {large.busiest_over_mean:.2f}.",
        f"ContRand is more even than BiStream ({cont.busiest_over_mean:.2f} and "
        f"{large.busiest_over_mean:.2f} of the mean), but each row probes all four instances of "
        f"its group, so that here it is slower, not faster, by "
        f"{-change(cont.rows_per_s, large.rows_per_s):.0f} %.",
        f"With both sides skewed, LS-Stream's busiest instance still has "
        f"{both.busiest_over_mean:.1f} times the mean: one key, which neither it nor FastJoin "
        "divides.",
        f"LS-Stream's lead comes from its scan, of a 32nd of an instance. Scanning whole instances "
        f"as the others do, its throughput on the city is "
        f"{change(inside.rows_per_s, large.rows_per_s):+.0f} % against BiStream's and "
        f"{change(inside.rows_per_s, fast.rows_per_s):+.0f} % against FastJoin's.",
    ]


def thresholds(size: Size) -> list[Json]:
    """The papers' sweeps: FastJoin's theta on the city, LS-Stream's alpha at zipf 0.4 and 0.8."""
    say("thresholds")
    city, rows = city_stream(), []
    contestants: Contestants = {"BiStream": (Hash(), "instance")}
    for theta in size.thetas:
        contestants[f"FastJoin, theta {theta:g}"] = (FastJoin(theta=theta, **AT_ONCE), "instance")
    rows += _swept("city, 48", contest(city, contestants, 48, size))
    for skew in (0.4, 0.8):
        stream = Zipf(keys=1000, left=skew, right=skew, rows_left=25_000, rows_right=25_000)
        contestants = {"BiStream": (Hash(), "slot")}
        for alpha in size.alphas:
            contestants[f"LS-Stream, alpha {alpha:g}"] = (LSStream(alpha=alpha, **AT_ONCE), "slot")
        rows += _swept(f"zipf {skew:g}, 20", contest(stream, contestants, 20, size))
    return rows


def _swept(stream: str, run: dict[str, Summary]) -> list[Json]:
    base = run["BiStream"]
    return [
        {
            "stream": stream,
            "strategy": name,
            "throughput_percent": change(summary.rows_per_s, base.rows_per_s),
            "latency_percent": change(summary.latency.mean_ms, base.latency.mean_ms),
            "busiest_over_mean": summary.busiest_over_mean,
            "max_over_min": summary.max_over_min,
            "deviation": summary.deviation,
            "migrated_rows": summary.migrated_rows,
        }
        for name, summary in run.items()
    ]


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
        Hash, lambda: FastJoin(keys_watched=64, **AT_ONCE), lambda: LSStream(**AT_ONCE),
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
        "papers": side_by_side(size),
        "thresholds": thresholds(size),
        "evenness": runs,
        "one_sided": one_sided(size),
        "uniform": even,
        "targets": [target.judge(values[target.figure]) for target in TARGETS],
    }


def show(out: Console, report: Json) -> None:
    table = _table("papers and ours side by side", "paper", "ours", "same sign")
    for row in report["papers"]["ratios"]:
        shown = [
            f"{row[who]:+g} %" if row["unit"] else f"{row[who]:g}" for who in ("paper", "ours")
        ]
        table.add_row(row["figure"], *shown, "yes" if row["same_sign"] else "[red]no[/]")
    out.print(table)
    for note in report["papers"]["notes"]:
        out.print(f"- {note}")
    _show_thresholds(out, report)
    _show_evenness(out, report)
    for run in report["uniform"]:
        out.print(
            f"uniform, {run['instances']} instances: busiest/mean {run['busiest_over_mean']:.3f}, "
            f"{run['decisions']} decisions"
        )
    for target in report["targets"]:
        out.print(f"{target['figure']}: {target['value']:g}  {verdict(target)}")


def _show_thresholds(out: Console, report: Json) -> None:
    headings = ("throughput", "latency", "busiest/mean", "max/min", "deviation", "rows moved")
    table = _table("thresholds, against BiStream", *headings)
    for row in report["thresholds"]:
        table.add_row(
            f"{row['stream']}: {row['strategy']}", f"{row['throughput_percent']:+.0f} %",
            f"{row['latency_percent']:+.0f} %", f"{row['busiest_over_mean']:.2f}",
            f"{row['max_over_min']:.1f}", f"{row['deviation']:.2f}", count(row["migrated_rows"]),
        )  # fmt: skip
    out.print(table)


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
    """Compare balancing strategies with one another and with the papers."""
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
