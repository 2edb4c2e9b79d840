"""From some hosts to a thousand: how measured figures go on, and what breaks first.

Each figure is fitted with the terms that it can have by its nature, with coefficients of at least
0. Bytes, disks and processor time are told apart into what a batch costs whatever it holds, and
what each of its bytes costs, by batches of two sizes; requests are taken as they are.

How uneven the hosts are comes from the virtual cluster: the same strategy on as many instances,
with the measured price of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.measure import Json
from skewless.arrays.types import Floats
from skewless.placement.balancing.auto import Auto
from skewless.simulation.cluster import VirtualCluster
from skewless.simulation.costs import Costs
from skewless.simulation.workloads import Zipf

TERMS: dict[str, Callable[[int], float]] = {
    "shared": lambda n: 1 / n,
    "shuffled": lambda n: (n - 1) / n**2,  # shared, and n - 1 of n parts come from other hosts
    "all": lambda n: 1.0,
    "each": float,
    "each for each": lambda n: float(n**2),
}
# What a host may need; what all together may. Of two that fit as well, the earlier is taken.
PER_HOST = ("shared", "shuffled", "all")
IN_ALL = ("all", "each", "each for each")
# What one of each can do; the first of the store are Amazon's figures for one prefix.
LIMITS = {
    "requests that read": 5_500.0,
    "requests that write": 3_500.0,
    "network of a host": 1.25e9,
    "network of the driver": 1.25e9,
    "processor of a host": 1.0,
    "processor of the driver": 1.0,
    "disk of a host": 1e12,
}


@dataclass(frozen=True)
class Fit:
    """A sum of terms, each so many times."""

    terms: Mapping[str, float]

    @staticmethod
    def of(hosts: Sequence[int], values: Sequence[float], names: Sequence[str]) -> Fit:
        """The best one without negative terms: a negative term would win anywhere far enough. A
        further term must make a difference."""
        wanted = np.array(values, float)
        scale = float((wanted**2).sum())
        best, least = Fit({}), np.inf
        for count in range(1, len(names) + 1):
            for some in combinations(names, count):
                columns = np.array([[TERMS[name](n) for name in some] for n in hosts])
                found: Floats = np.linalg.lstsq(columns, wanted, rcond=None)[0]
                error = float(((columns @ found - wanted) ** 2).sum())
                if (found >= 0).all() and error < least - 1e-9 * scale:
                    best, least = Fit(dict(zip(some, found.tolist(), strict=True))), error
        return best

    def at(self, hosts: int) -> float:
        return sum(times * TERMS[name](hosts) for name, times in self.terms.items())


@dataclass(frozen=True)
class Scale:
    """A cluster to foretell: its hosts, bytes of state in a window of so many batches, which come
    every so many seconds."""

    hosts: int = 1_000
    state_bytes: float = 10e12
    window_batches: int = 60
    interval_s: float = 60.0

    @property
    def batch_bytes(self) -> float:
        return self.state_bytes / self.window_batches


@dataclass(frozen=True)
class Grown:
    """A figure per host: what it is for an empty batch, and for each byte of one."""

    empty: Fit
    per_byte: Fit

    @staticmethod
    def of(runs: Sequence[Json], name: str) -> Grown:
        hosts = [run["hosts"] for run in runs]
        empty, per_byte = [], []
        for run in runs:
            small = run["small"]
            slope = (run[name] - small[name]) / (run["batch_bytes"] - small["batch_bytes"])
            slope = min(max(slope, 0.0), run[name] / run["batch_bytes"])
            per_byte.append(slope)
            empty.append(run[name] - slope * run["batch_bytes"])
        return Grown(Fit.of(hosts, empty, PER_HOST), Fit.of(hosts, per_byte, PER_HOST))

    def at(self, hosts: int, batch_bytes: float) -> float:
        return self.empty.at(hosts) + self.per_byte.at(hosts) * batch_bytes


def foretell(runs: Sequence[Json], scale: Scale) -> Json:
    """What each part of such a cluster would have to do, as a share of what it can."""
    hosts = [run["hosts"] for run in runs]
    in_all = {
        name: Fit.of(hosts, [run[name] for run in runs], IN_ALL)
        for name in ("reads", "writes", "driver_received", "driver_cpu_s")
    }
    per_host = {
        name: Grown.of(runs, name)
        for name in ("received_per_host", "cpu_per_host_s", "disk_per_host")
    }
    batch, n, interval = scale.batch_bytes, scale.hosts, scale.interval_s
    rows_per_byte = runs[0]["rows"] / runs[0]["batch_bytes"]
    row_ms = 1000 * per_host["cpu_per_host_s"].per_byte.at(1) / rows_per_byte
    balance = _balance(scale, row_ms, batch * rows_per_byte)
    uneven = balance["busiest_over_mean"]
    in_window = scale.window_batches / runs[0]["window_batches"]
    needs = {
        "requests that read": in_all["reads"].at(n) / interval,
        "requests that write": in_all["writes"].at(n) / interval,
        "network of a host": uneven * per_host["received_per_host"].at(n, batch) / interval,
        "network of the driver": in_all["driver_received"].at(n) / interval,
        "processor of a host": uneven * per_host["cpu_per_host_s"].at(n, batch) / interval,
        "processor of the driver": in_all["driver_cpu_s"].at(n) / interval,
        "disk of a host": per_host["disk_per_host"].at(n, batch * in_window),
    }
    shares = {name: need / LIMITS[name] for name, need in needs.items()}
    return {
        "scale": vars(scale) | {"batch_bytes": scale.batch_bytes},
        "in_all": {name: fit.terms for name, fit in in_all.items()},
        "per_host": {
            name: {"empty": grown.empty.terms, "per_byte": grown.per_byte.terms}
            for name, grown in per_host.items()
        },
        "balance": balance,
        "needs": needs,
        "shares": shares,
        "breaks_first": max(shares, key=lambda name: shares[name]),
    }


def _balance(scale: Scale, row_ms: float, rows: float) -> Json:
    """The virtual cluster with as many instances, once its places have settled."""
    stream = Zipf(
        keys=100_000, left=1.2, right=0.0, rows_left=round(rows / 2), rows_right=round(rows / 2)
    )
    costs = Costs(row_ms=row_ms, pair_ms=0.0, sent_ms=0.0, interval_ms=1000 * scale.interval_s)
    cluster = VirtualCluster(Auto(), scale.hosts, costs=costs, window_batches=4)
    figures = [cluster.step(stream.batch(number)) for number in range(10)]
    last = figures[-3:]
    return {
        "busiest_over_mean": float(np.mean([f.busiest_over_mean for f in last])),
        "migrated_share": float(np.mean([f.migrated_rows / f.stored_rows for f in last])),
        "extra_probes_share": float(np.mean([f.extra_probes / f.rows for f in last])),
        "units": figures[-1].units,
    }
