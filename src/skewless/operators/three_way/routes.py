"""Which way new rows go to find their partners: by what earlier batches have met on each.

A route's cost is the number of candidates that a new row is compared with, on both hops. Once the
state is full, each route is tried in a batch of its own; then the cheapest is taken. When the cost
of the one in use has doubled since it was chosen, all are tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from skewless.operators.three_way.spec import (
    NAMES,
    STREAMS,
    Hop,
    Routes,
    ThreeSpec,
    routes_of,
)
from skewless.operators.three_way.tally import Met
from skewless.placement.figures import Decision

Route = tuple[Hop, Hop]
KEEP = 0.7  # of the average, from batch to batch
WORSE = 2.0


class RouteChooser:
    """What is known of all routes of the three streams."""

    def __init__(self, spec: ThreeSpec) -> None:
        self._options = [routes_of(spec, stream) for stream in STREAMS]
        self._costs: list[dict[Route, float]] = [{} for _ in STREAMS]
        self._chosen: list[Route | None] = [None for _ in STREAMS]
        self._cost_then = [0.0 for _ in STREAMS]

    @property
    def routes(self) -> Routes:
        return tuple(self._next(stream) for stream in STREAMS)

    def _next(self, stream: int) -> Route:
        chosen = self._chosen[stream]
        if chosen is not None:
            return chosen
        untried = [r for r in self._options[stream] if r not in self._costs[stream]]
        return untried[0] if untried else self._cheapest(stream)

    def _cheapest(self, stream: int) -> Route:
        costs = self._costs[stream]
        return min(self._options[stream], key=lambda route: costs[route])

    def observe(self, used: Routes, hops: Sequence[Met]) -> tuple[Decision, ...]:
        """Take note of what a batch has met; decide."""
        decisions = []
        for stream in STREAMS:
            rows, candidates = _met(stream, used[stream][0], hops)
            if not rows:
                continue
            costs, now = self._costs[stream], candidates / rows
            before = costs.get(used[stream])
            costs[used[stream]] = now if before is None else KEEP * before + (1 - KEEP) * now
            decision = self._decide(stream, used[stream])
            if decision is not None:
                decisions.append(decision)
        return tuple(decisions)

    def _decide(self, stream: int, used: Route) -> Decision | None:
        costs, chosen = self._costs[stream], self._chosen[stream]
        if len(self._options[stream]) == 1:
            self._chosen[stream] = used
            return None
        if chosen is None and len(costs) == len(self._options[stream]):
            best = self._cheapest(stream)
            self._chosen[stream], self._cost_then[stream] = best, costs[best]
            others = min(cost for route, cost in costs.items() if route != best)
            reason = f"{costs[best]:.2f} candidates per new row, the next best way has {others:.2f}"
            return _decision(stream, best, reason)
        if chosen is not None and costs[chosen] > WORSE * max(self._cost_then[stream], 0.01):
            reason = (f"{costs[chosen]:.2f} candidates per new row, where there were "
                      f"{self._cost_then[stream]:.2f}: all ways are tried again")  # fmt: skip
            self._chosen[stream], self._costs[stream] = None, {}
            return _decision(stream, chosen, reason, kind="try routes")
        return None


def _met(stream: int, first: Hop, hops: Sequence[Met]) -> tuple[int, int]:
    """New rows of a stream, and the candidates they met on all hops."""
    mine = [met for met in hops if met.new == stream]
    rows = sum(met.probes for met in mine if met.hop == first)
    return rows, sum(met.candidates for met in mine)


def _decision(stream: int, route: Route, reason: str, kind: str = "route") -> Decision:
    (_, y), (via, z) = route
    target = f"{NAMES[y]}, then {NAMES[z]} by its condition with {NAMES[via]}"
    return Decision(kind, f"new rows of {NAMES[stream]}", NAMES[stream], target, reason, True)
