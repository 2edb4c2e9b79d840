"""LS-Stream: slots move from the straggler to the least loaded instance.

Wu et al., "LS-Stream: Lightening Stragglers in Join Operators for Skewed Data Stream Processing",
sections III-D to V. Where the paper slips, this is what is meant here: the migration impact factor
is maximised (eq. 26 says minimised); a worse set is accepted with a probability of
``exp((mif_new - mif_old)/T)`` (eq. 32 lacks a sign); conditions (30) and (31) must both hold (line
20 of algorithm 1 says *or*); and the first set is built to be feasible (line 9 may stop before).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from skewless.arrays.types import Floats
from skewless.errors import ArgumentError
from skewless.placement.balancing.adaptive import is_due, rent_ms
from skewless.placement.balancing.annealing import Annealed, Schedule, anneal
from skewless.placement.balancing.arrivals import steady_batches
from skewless.placement.balancing.changes import Change, Move
from skewless.placement.balancing.imbalance import deviation_from_mean
from skewless.placement.balancing.loads import WeightedResources
from skewless.placement.balancing.published import Published
from skewless.placement.balancing.view import View

LONGEST_MS = 3_600_000.0  # the longest sojourn told apart: an hour
TINY = 1e-9  # what a set that just fails misses by
FILLS = 64  # orders in which a first set is tried


def sojourn_ms(arriving: float, served: float) -> float:
    """How long a row stays in an instance, as M/M/1 has it: ``1/(μ - E)`` (eq. 20), for rows per
    millisecond that arrive and that can be served.

    An instance with ``μ <= E`` is saturated, and its rows wait ever longer. That ranks above all
    that is not saturated, the more the worse, but is a number all the same: from one to two times
    `LONGEST_MS`, which no other exceeds.

    >>> sojourn_ms(1.0, 1.5), sojourn_ms(3.0, 3.0) == LONGEST_MS, sojourn_ms(4.0, 3.0) / LONGEST_MS
    (2.0, True, 1.25)
    """
    if served > arriving:
        return min(1 / (served - arriving), LONGEST_MS)
    return LONGEST_MS * (2 - served / arriving) if arriving > 0 else LONGEST_MS


def impact_factor(resource_benefit: float, latency_benefit: float, rows: float) -> float:
    """The migration impact factor, ``mif = (ΔR + lb)/card(SK)`` (eq. 25): what is gained per stored
    row that comes along. What moves no rows counts as one row.

    ``ΔR`` counts rows times rows and ``lb`` milliseconds, and the paper adds them as they are. So
    ``ΔR`` decides, unless an instance is saturated. With instances busy for 90 and 20 % of a
    second, eight slots of 20,000 stored and 350 probing rows, moved from one to the other, gain
    895,350 and 7 ms; were the first at 110 %, ``lb`` would be 4,000,000.

    >>> impact_factor(30.0, 10.0, 20.0)
    2.0
    """
    return (resource_benefit + latency_benefit) / max(rows, 1.0)


@dataclass(frozen=True)
class Work:
    """What an instance has to do in a batch: its load, the rows that probe, and their time; the
    latter two on the average of the batches that eq. 4 counts."""

    load: float
    rows: float
    time_ms: float


@dataclass(frozen=True)
class Relief:
    """The question of algorithm 1: which slots leave the straggler for the least loaded instance?
    The arrays have an element per slot of the straggler; `stored` are the rows that come along."""

    straggler: Work
    least: Work
    mean: float
    alpha: float
    loads: Floats
    stored: Floats
    rows: Floats
    time_ms: Floats
    batch_ms: float
    row_ms: float

    @property
    def needed(self) -> float:
        """The slots must have more load than this, for the straggler to come near the mean (30)."""
        return max(self.straggler.load - self.mean * (1 + self.alpha), 0.0)

    @property
    def room(self) -> float:
        """They must have less load than this, for the straggler to stay the heavier one (31)."""
        return (self.straggler.load - self.least.load) / 2

    def sojourn_ms(self, rows: float, time_ms: float) -> float:
        """Rows arrive evenly over a batch. They are served at the pace they are worked on; where
        there are none, at that of a row that meets nothing."""
        each = time_ms / rows if rows > 0 else self.row_ms
        return sojourn_ms(rows / self.batch_ms, 1 / each if each > 0 else math.inf)

    @cached_property
    def sojourns_ms(self) -> float:
        return sum(self.sojourn_ms(of.rows, of.time_ms) for of in (self.straggler, self.least))

    def impact(self, load: float, stored: float, rows: float, time_ms: float) -> float:
        """The impact factor of a set of slots, given its sums: ``ΔR`` is twice its load (eq. 23),
        ``lb`` what the two sojourn times lose together (eq. 24)."""
        heavy, light = self.straggler, self.least
        left = self.sojourn_ms(max(heavy.rows - rows, 0.0), max(heavy.time_ms - time_ms, 0.0))
        grown = self.sojourn_ms(light.rows + rows, light.time_ms + time_ms)
        return impact_factor(2 * load, self.sojourns_ms - left - grown, stored)


def choose_slots(relief: Relief, schedule: Schedule, seed: int) -> list[int]:
    """The slots to move, as indices, those with the largest load per stored row first; none, where
    none is feasible.

    Both conditions cannot hold at once where the straggler has about four times the mean or more,
    or where one slot is too heavy to move and the others are too light to matter. Then (31) still
    holds, and (30) is eased: the slots need not bring the straggler near the mean, but must have
    more than half of the load of the fullest set that was found. That is a step which surely lowers
    the straggler, and not by next to nothing, as the impact factor alone would have it.
    """
    room = relief.room
    able: list[int] = np.flatnonzero((relief.loads > 0) & (relief.loads < room)).tolist()
    loads = relief.loads[able]
    start = _fullest(loads.tolist(), room, seed)
    if not start:
        return []
    reached = math.fsum(loads[start])
    needed = relief.needed if reached > relief.needed else reached / 2
    items = np.column_stack([loads, relief.stored[able], relief.rows[able], relief.time_ms[able]])

    def judge(sums: Sequence[float]) -> tuple[float, float]:
        load = sums[0]
        missed = 0.0 if needed < load < room else max(needed - load, load - room) / room + TINY
        return relief.impact(*sums), missed

    found = [able[i] for i in anneal(items, start, judge, schedule, seed)]
    each = relief.loads / np.maximum(relief.stored, 1)
    return sorted(found, key=lambda i: (-each[i], i))


def fullest_slots(relief: Relief) -> list[int]:
    """Slots that relieve the straggler about as far as (31) allows, found at once. What they cost
    and gain is close to what annealing would find, for strategies that ask in every batch."""
    loads: list[float] = relief.loads.tolist()
    order = [i for i in _heaviest_first(loads) if loads[i] > 0]
    return _filled(loads, order, relief.room)


def _heaviest_first(loads: list[float]) -> list[int]:
    return sorted(range(len(loads)), key=lambda i: -loads[i])


def _fullest(loads: list[float], room: float, seed: int) -> list[int]:
    """A set with as much load as fits: the best of filling up heaviest first, and in some random
    orders."""
    rng = np.random.default_rng(seed)
    orders = [_heaviest_first(loads)]
    orders += [rng.permutation(len(loads)).tolist() for _ in range(FILLS)]
    fills = [_filled(loads, order, room) for order in orders]
    return max(fills, key=lambda fill: math.fsum(loads[i] for i in fill))


def _filled(loads: list[float], order: Iterable[int], room: float) -> list[int]:
    fill: list[int] = []
    total = 0.0
    for i in order:
        if total + loads[i] < room:
            fill.append(i)
            total += loads[i]
    # Summed exactly, the last may be too many by a rounding.
    while math.fsum(loads[i] for i in fill) >= room > 0:
        fill.pop()
    return fill


@dataclass(frozen=True, kw_only=True)
class LSStream(Annealed, Published):
    """Moves slots when an instance deviates from the mean load by more than `alpha` times the mean
    (eq. 13). A lower `alpha` balances better and moves more often. "auto" sets no threshold: slots
    move once imbalance has cost as much as moving them would (`adaptive`), and are to bring the
    straggler as near to the mean as they can.

    Load is `gamma` times memory, stored and waiting rows, and the rest times computing, stored
    times probing rows (eqs. 7 to 12). Which slots leave the straggler is annealed, so that much is
    gained per row that moves: `temperature`, `temperature_min`, `decay` and `rounds` say how long
    (`annealing.Schedule`). More `slots_per_instance` can be balanced more finely and cost longer
    tables; a key is never parted from its slot, so a heavy one bounds what can be done.

    Sojourn times need rates. Rows arrive over `batch_ms`, the time that a batch should take, such
    as the trigger's interval; they are served as fast as was measured. An instance that takes
    longer than that is saturated, and relieving it counts most. How fast rows arrive is the mean of
    the last `rate_batches` without the one with the most and the one with the fewest (eq. 4): more
    are steadier, and notice a lasting change later.

    >>> LSStream().slots_wanted
    32
    """

    alpha: float | Literal["auto"] = 1.0
    gamma: float = 0.5
    slots_per_instance: int = 32
    batch_ms: float = 1000.0
    rate_batches: int = 5
    keys_watched: int | Literal["all"] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("slots_per_instance", "rate_batches"):
            self._check_whole(name, 1)
        if self.alpha != "auto":
            self._check_above("alpha", 0, " or 'auto'")
        self._check_above("batch_ms", 0)
        if not isinstance(self.gamma, int | float) or isinstance(self.gamma, bool):
            raise ArgumentError("gamma", self.gamma, "a number from 0 to 1")
        _ = self.load, self.schedule  # raise what is wrong with them

    @cached_property
    def load(self) -> WeightedResources:
        return WeightedResources(self.gamma)

    @property
    def slots_wanted(self) -> int:
        return self.slots_per_instance

    @property
    def batches_apart(self) -> int:
        return self.rate_batches

    def wants_change(self, view: View) -> bool:
        if self.alpha == "auto":
            return is_due(view, list(self._plan(view, fullest_slots)))
        return deviation_from_mean(self.load.of_instances(view, view.placement)) > self.alpha

    def rent_ms(self, view: View) -> float:
        if self.alpha != "auto":
            return 0.0
        return rent_ms(view, list(self._plan(view, fullest_slots)))

    def propose(self, view: View) -> Iterator[Change]:
        return self._plan(view, self._annealed) if self.wants_change(view) else iter(())

    def _annealed(self, relief: Relief) -> list[int]:
        return choose_slots(relief, self.schedule, self.seed)

    def _plan(self, view: View, choose: Callable[[Relief], list[int]]) -> Iterator[Change]:
        loads = self.load.of_instances(view, view.placement)
        source, target = int(loads.argmax()), int(loads.argmin())
        slots = np.flatnonzero(view.instance_of == source).tolist()
        relief = self._relief(view, loads, source, target, slots)
        for chosen in choose(relief):
            slot, share = slots[chosen], relief.loads[chosen] / loads[source]
            part = f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"
            times = f"instance {source} has {loads[source] / loads.mean():,.1f} times the mean load"
            yield Move(slot, source, target, f"{times}; slot {slot} has {part} of it")

    def _relief(
        self, view: View, loads: Floats, source: int, target: int, slots: list[int]
    ) -> Relief:
        recent = _Recent.of(view)
        steady = recent.steady(source)
        return Relief(
            straggler=recent.work(source, float(loads[source])),
            least=recent.work(target, float(loads[target])),
            mean=float(loads.mean()),
            alpha=0.0 if self.alpha == "auto" else self.alpha,
            loads=self.load.of_items(view.slots)[slots],
            stored=(view.slots.stored_left + view.slots.stored_right)[slots],
            rows=recent.slot_rows[steady].mean(axis=0)[slots],
            time_ms=recent.slot_ms[steady].mean(axis=0)[slots],
            batch_ms=self.batch_ms,
            row_ms=view.row_ms,
        )


@dataclass(frozen=True)
class _Recent:
    """Rows that probed and the time they took, per batch (the first axis) and slot or instance."""

    slot_rows: Floats
    slot_ms: Floats
    instance_rows: Floats
    instance_ms: Floats

    @staticmethod
    def of(view: View) -> _Recent:
        told = [_rows_and_ms(batch) for batch in view.batches or (view,)]
        return _Recent(*(np.stack(figures) for figures in zip(*told, strict=True)))

    def steady(self, instance: int) -> npt.NDArray[np.bool_]:
        """The batches that tell how fast rows arrive at an instance (eq. 4)."""
        return steady_batches(self.instance_rows[:, instance])

    def work(self, instance: int, load: float) -> Work:
        steady = self.steady(instance)
        rows, ms = (of[steady, instance].mean() for of in (self.instance_rows, self.instance_ms))
        return Work(load, float(rows), float(ms))


def _rows_and_ms(view: View) -> tuple[Floats, Floats, Floats, Floats]:
    """Of one view: by slot, and by instance."""
    slots, keys = view.slots, view.key_figures
    rows = slots.probing_left + slots.probing_right
    pairs = slots.pairs_left + slots.pairs_right
    rows_of = view.sums(view.placement, rows, keys.probing_left, keys.probing_right)
    pairs_of = view.sums(view.placement, pairs, keys.pairs_left, keys.pairs_right)

    def ms(rows: Floats, pairs: Floats) -> Floats:
        return view.row_ms * rows + view.pair_ms * pairs

    return rows, ms(rows, pairs), rows_of, ms(rows_of, pairs_of)
