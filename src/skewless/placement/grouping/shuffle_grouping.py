"""Shuffle grouping: the instances in turn, whatever the key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skewless.placement.grouping.base import Grouping, State, Targets, UInts


@dataclass(frozen=True)
class ShuffleGrouping(Grouping):
    """Round robin: perfect balance, and every frequent key ends up everywhere. The seed says which
    instance is first (`seed % instances`).

    >>> ShuffleGrouping().build(3, seed=1).assign(np.array([7, 7, 7, 7])).tolist()
    [1, 2, 0, 1]
    """

    def _fresh(self, instances: int, seed: int) -> State:
        return {"next": np.array([seed % instances], np.int64)}

    def _route(self, state: State, keys: UInts, targets: Targets) -> None:
        instances, first = len(state["loads"]), int(state["next"][0])
        targets[:] = (np.arange(len(keys)) + first) % instances
        rounds, rest = divmod(len(keys), instances)
        state["loads"] += rounds
        state["loads"][(np.arange(rest) + first) % instances] += 1
        state["next"][0] = (first + rest) % instances
