"""Which rows of the state each instance rewrites where fetching costs: those it works on, so that
they are on its host already, and what comes of them is read there alone."""

from __future__ import annotations

from collections import defaultdict

from skewless.placement.units import RoutingTable, slot_bounds
from skewless.state.shares import Share, Shares


def equal_shares(instances: int) -> Shares:
    """Where each instance works on an equal range of hashes."""
    ranges = (slot_bounds(instance, instance, instances) for instance in range(instances))
    return tuple((Share(*ends),) for ends in ranges)


def shares_of(table: RoutingTable) -> Shares:
    """What every instance rewrites of the state: what it works on. Those who share a range take
    equal parts of it."""
    sharing: dict[tuple[int, int], list[int]] = defaultdict(list)
    for instance, units in enumerate(table.units):
        for unit in units:
            sharing[unit.hash_min, unit.hash_max].append(instance)
    found: list[list[Share]] = [[] for _ in table.units]
    for ends, instances in sharing.items():
        for part, instance in enumerate(instances):
            found[instance].append(Share(*ends, part, len(instances)))
    return tuple(tuple(mine) for mine in found)
