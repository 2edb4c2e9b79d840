"""What every host has to do for the same batches, on 1, 2, 4 and 8 hosts.

    python -m benchmarks.scale_out [--json] [--hosts 1,2,4,8]

A join of two streams whose hot keys change, so that work moves and keys are split, on Spark workers
in network namespaces with the checkpoint on an S3 server (`tests/cluster`; needs root). Counted
are: what comes over each host's link, requests to the store, processor time and what lies on
local disks. Times are not: all hosts share the cores of this machine.

Inputs are read from a disk that all hosts see, and results go nowhere, so that the bytes are those
of the state and of Spark's own tasks. Bytes per host are to fall as 1/n within 20 %, and requests
in all to grow at most linearly. One host shuffles to itself, over no link: so bytes are compared
with two hosts', too, and with what must cross: what one host receives, which is Spark's own, and of
the batch's share of a host the (n - 1)/n that other hosts have read. Told beside it is the state
that was moved in these batches, which must cross as well: it counts as received, and not as what
must. How the figures go on to 1,000 hosts and 10 TB of state, and what breaks first, is told by
`benchmarks.scale_out_model`.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.table import Table

import skewless as sk
from benchmarks.measure import Json, say
from benchmarks.scale_out_model import Scale, foretell
from benchmarks.scale_out_query import Feed
from benchmarks.tables import Target, console, count, machine, machine_line, times, verdict
from tests.cluster.machines import Cluster, Driver, Requests
from tests.cluster.network import ClusterError, Host, Traffic

PROGRAM = Path(__file__).with_name("scale_out_query.py")
PATIENCE_S = 600.0  # for one batch
WINDOW_BATCHES = 4  # of ten seconds each: the state is kept for 31
WRITING = ("PUT", "POST", "DELETE")
BYTES, REQUESTS = "received per host times hosts, over one host's", "requests over one host's × n"
OVER_TWO = "received per host times hosts, over two hosts'"
CROSSING = "received per host, over what must cross"
TARGETS = {name: Target(name, "<=", 1.2) for name in (BYTES, OVER_TWO, CROSSING)} | {
    REQUESTS: Target(REQUESTS, "<=", 1.0)
}
SENDERS = ("store", "driver")  # to a worker; all others are other workers, and the master


@dataclass(frozen=True)
class Sample:
    """All counters at one moment."""

    traffic: dict[str, Traffic]
    senders: dict[str, dict[str, int]]
    requests: Requests
    cpu_s: dict[str, float]
    disk: dict[str, int]

    @staticmethod
    def take(cluster: Cluster) -> Sample:
        working = [*cluster.workers, cluster.host("driver")]
        return Sample(
            cluster.network.traffic(),
            {host.name: cluster.network.received_from(host) for host in cluster.workers},
            cluster.requests(),
            {host.name: _cpu_s(host) for host in working},
            {host.name: cluster.disk_bytes(host) for host in cluster.workers},
        )


def _cpu_s(host: Host) -> float:
    """Of all that runs there, and has ended under it."""
    seconds = 0.0
    for pid in host.pids():
        try:
            seconds += sum(psutil.Process(pid).cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return seconds


@dataclass(frozen=True)
class Phases:
    """Small batches, of which some are measured, then large ones, of which the last are. Before
    each, the window fills."""

    measured: int

    @property
    def small(self) -> int:
        return WINDOW_BATCHES + self.measured

    @property
    def end(self) -> int:
        return 2 * self.small


def measure(hosts: int, rows: int, phases: Phases) -> Json:
    """The figures of one cluster, per batch."""
    say(f"{hosts} hosts: starting")
    feed = Feed(rows, phases.small)
    with Cluster.start(hosts) as cluster:
        inputs = cluster.folder / "inputs"
        feed.write(inputs, phases.end)
        for host in cluster.workers:
            cluster.network.tell_apart(host, [cluster.host(name) for name in SENDERS])
        checkpoint = cluster.uri("checkpoint")
        config = {"inputs": str(inputs), "checkpoint": checkpoint, "instances": hosts}
        with cluster.driver(PROGRAM, config) as driver:
            samples = list(_samples(cluster, driver, phases.end))
        reports = sk.history(str(cluster.bucket / "checkpoint"))
    workers = [f"w{number + 1}" for number in range(hosts)]
    accepted = [d for report in reports for d in report.decisions if d.accepted]
    full, small = (
        _figures(samples[:end][-phases.measured - 1 :], workers)
        | {
            "rows": (rows := 2 * feed.rows_of(end - 1)),
            "batch_bytes": (size := feed.bytes_of(end - 1)),
            "moved_per_host": moved_rows(reports[end - phases.measured - 1 : end - 1])
            * (size / rows / hosts / phases.measured),
        }
        for end in (phases.end, phases.small)
    )
    return full | {
        "hosts": hosts,
        "window_batches": WINDOW_BATCHES,
        "matches": sum(report.matches for report in reports),
        "moves": sum(d.kind == "move" for d in accepted),
        "splits": sum(d.kind == "split" for d in accepted),
        "small": small,
    }


def moved_rows(reports: Sequence[sk.BatchReport]) -> int:
    """How many stored rows have another place after some batches: in the next ones, these are
    fetched from where they were."""
    return sum(d.rows for report in reports for d in report.decisions if d.accepted)


def _samples(cluster: Cluster, driver: Driver, batches: int) -> Iterator[Sample]:
    """One after each batch."""
    log = cluster.bucket / "checkpoint" / "commits"
    for batch in range(batches):
        deadline = time.monotonic() + PATIENCE_S
        while not (log / str(batch)).exists():
            if not driver.is_alive or time.monotonic() > deadline:
                raise ClusterError(f"batch {batch} was not done:\n{driver.last_words()}")
            time.sleep(0.05)
        say(f"  batch {batch}")
        yield Sample.take(cluster)


def _figures(samples: Sequence[Sample], workers: Sequence[str]) -> Json:
    first, last, batches = samples[0], samples[-1], len(samples) - 1
    passed = {name: last.traffic[name].since(first.traffic[name]) for name in last.traffic}
    received = [passed[name].received / batches for name in workers]
    asked = last.requests - first.requests
    by_workers = sum(n for (host, _, _), n in asked.items() if host in workers)
    cpu = {name: (last.cpu_s[name] - first.cpu_s[name]) / batches for name in last.cpu_s}
    writes = sum(n for (_, kind, _), n in asked.items() if kind in WRITING)
    kinds = sorted({kind for _, kind, _ in asked})
    return {
        "received_per_host": statistics.mean(received),
        "received_most": max(received),
        "received_from": {
            sender: statistics.mean(
                (last.senders[name][sender] - first.senders[name][sender]) / batches
                for name in workers
            )
            for sender in (*SENDERS, "others")
        },
        "sent_per_host": statistics.mean(passed[name].sent / batches for name in workers),
        "driver_received": passed["driver"].received / batches,
        "driver_sent": passed["driver"].sent / batches,
        "requests": asked.total() / batches,
        "requests_of_workers": by_workers / batches,
        "requests_of_the_state": sum(n for k, n in asked.items() if k[2] == "state") / batches,
        "requests_by_kind": {
            kind: sum(n for k, n in asked.items() if k[1] == kind) / batches for kind in kinds
        },
        "reads": (asked.total() - writes) / batches,
        "writes": writes / batches,
        "cpu_per_host_s": statistics.mean(cpu[name] for name in workers),
        "driver_cpu_s": cpu["driver"],
        "disk_per_host": statistics.mean(last.disk[name] for name in workers),
    }


def judge(runs: Sequence[Json]) -> None:
    """How each run compares with the first."""
    base, two = runs[0], next((run for run in runs if run["hosts"] == 2), None)
    for run in runs:
        hosts, received = run["hosts"], run["received_per_host"]
        more = hosts / base["hosts"]
        run["ratios"] = {BYTES: received * more / base["received_per_host"]}
        if two is not None and hosts > 1:
            run["ratios"][OVER_TWO] = received * hosts / 2 / two["received_per_host"]
        if base["hosts"] == 1:
            must = base["received_per_host"] + (hosts - 1) / hosts**2 * run["batch_bytes"]
            run["ratios"][CROSSING] = received / must
        run["ratios"][REQUESTS] = run["requests"] / base["requests"] / more
        run["targets"] = [TARGETS[name].judge(ratio) for name, ratio in run["ratios"].items()]


def show(out: Console, runs: Sequence[Json], foretold: Json | None) -> None:
    table = Table(
        title="per batch; of a worker host, where nothing else is said", title_justify="left"
    )
    table.add_column("hosts", justify="right")
    for heading in (
        "received KB", "most", "of store", "of driver", "of hosts", "moved",
        "× n / 1's", "× n / 2's", "/ must", "requests", "of state", "/ n", "processor s", "disk MB",
        "driver KB", "its s", "moves", "splits",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for run in runs:
        table.add_row(
            str(run["hosts"]),
            *(count(run[name] / 1e3) for name in ("received_per_host", "received_most")),
            *(count(run["received_from"][sender] / 1e3) for sender in (*SENDERS, "others")),
            count(run["moved_per_host"] / 1e3),
            *(_told(run, name) for name in (BYTES, OVER_TWO, CROSSING)),
            *(count(run[name]) for name in ("requests", "requests_of_the_state")),
            times(run["ratios"][REQUESTS]),
            f"{run['cpu_per_host_s']:.2f}",
            f"{run['disk_per_host'] / 1e6:.1f}",
            count(run["driver_received"] / 1e3),
            f"{run['driver_cpu_s']:.2f}",
            count(run["moves"]),
            count(run["splits"]),
        )
    out.print(table)
    for run in runs[1:]:
        for target in run["targets"]:
            figure, value = target["figure"], times(target["value"])
            out.print(f"  {run['hosts']} hosts: {figure}: {value}  {verdict(target)}")
    if foretold is not None:
        show_foretold(out, foretold)


def _told(run: Json, name: str) -> str:
    return times(run["ratios"][name]) if name in run["ratios"] else ""


def show_foretold(out: Console, foretold: Json) -> None:
    scale = foretold["scale"]
    out.print(
        f"\n{scale['hosts']:,} hosts, {scale['state_bytes'] / 1e12:g} TB of state in a window of "
        f"{scale['window_batches']} batches, one every {scale['interval_s']:g} s; busiest host "
        f"{foretold['balance']['busiest_over_mean']:.2f} of the mean. Share of what can be had:"
    )
    for name, share in sorted(foretold["shares"].items(), key=lambda item: -item[1]):
        out.print(f"  {name}: {100 * share:,.1f} % ({foretold['needs'][name]:,.4g})")
    out.print(f"What breaks first: {foretold['breaks_first']}")


def main(
    hosts: Annotated[str, typer.Option(help="Numbers of worker hosts, by commas.")] = "1,2,4,8",
    rows: Annotated[int, typer.Option(min=1, help="Rows of each side in a batch.")] = 40_000,
    batches: Annotated[int, typer.Option(min=1, help="Batches to measure, of each size.")] = 6,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what every host has to do, against their number."""
    try:
        numbers = sorted({int(number) for number in hosts.split(",")})
    except ValueError:
        raise typer.BadParameter(f"numbers, separated by commas, not {hosts!r}") from None
    if numbers[0] < 1:
        raise typer.BadParameter("at least one host")
    told = machine()
    runs = [measure(number, rows, Phases(batches)) for number in numbers]
    judge(runs)
    foretold = foretell(runs, Scale()) if len(runs) > 2 else None  # by two, no curve is told
    if as_json:
        report = {"benchmark": "scale_out", "machine": told, "runs": runs, "foretold": foretold}
        print(json.dumps(report))
        return
    out = console()
    out.print(machine_line(told), "\n")
    show(out, runs, foretold)


if __name__ == "__main__":
    try:
        typer.run(main)
    except ClusterError as error:
        raise SystemExit(str(error)) from None
