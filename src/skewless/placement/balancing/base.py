"""What every balancing strategy is: a frozen configuration that looks at loads and proposes.

A strategy keeps nothing between calls and changes nothing. It sees a `View` and yields `Move`,
`Split` and `Merge` values, each with its reason; the governor judges and enacts them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from skewless.errors import ArgumentError
from skewless.placement.balancing.changes import Change
from skewless.placement.balancing.loads import LoadModel, MeasuredTime
from skewless.placement.balancing.view import View
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.strategy import PlacementStrategy, Placing


@dataclass(frozen=True, kw_only=True)
class Balancing(PlacementStrategy):
    """What all strategies have in common.

    - `window`: so many batches are averaged. More are steadier, and notice a change later.
    - `patience`: the loads must have been uneven in so many batches in a row before anything is
      proposed, so that one odd batch moves nothing. Fewer act sooner, also on chance.
    - `cooldown`: what was changed stays as it is for so many batches. More prevent moving to and
      fro, and correct a mistake later.
    - `horizon`: a change must pay back the rows it moves within so many batches. More allow dearer
      changes, which only pay off if the skew lasts.
    - `keys_watched`: so many heavy keys are told apart per instance; "all": every key that has a
      new row. More can be isolated, and make reports larger: a key costs about 150 bytes and 30 µs
      per batch, so that thousands hardly matter, and a hundred thousand take seconds.
    - `seed`: of random choices, where a strategy makes any.
    - `dry_run`: record what would be done, and do nothing.
    - `pin`: keep a key (its value, or a tuple of values) at an instance, whatever its load.
    """

    window: int = 2
    patience: int = 2
    cooldown: int = 2
    horizon: int = 60
    keys_watched: int | Literal["all"] = 32
    seed: int = 0
    dry_run: bool = False
    pin: Mapping[object, int] | tuple[tuple[object, int], ...] = field(default=())

    def __post_init__(self) -> None:
        for name, least in (
            ("window", 1), ("patience", 1), ("cooldown", 0), ("horizon", 1), ("seed", 0),
        ):  # fmt: skip
            self._check_whole(name, least)
        if self.keys_watched != "all":
            self._check_whole("keys_watched", 0, " or 'all'")
        if isinstance(self.pin, Mapping):
            object.__setattr__(self, "pin", tuple(self.pin.items()))
        for _, instance in self.pinned:
            if not isinstance(instance, int) or isinstance(instance, bool) or instance < 0:
                raise ArgumentError("pin", self.pin, "{key: instance}, instances from 0 on")

    def _check_whole(self, name: str, least: int, alternative: str = "") -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ArgumentError(name, value, f"a whole number of at least {least}{alternative}")

    def _check_at_least(self, name: str, least: float) -> None:
        value = getattr(self, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not value >= least:
            raise ArgumentError(name, value, f"a number of at least {least:g}")

    def _check_above(self, name: str, least: float, alternative: str = "") -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > least:
            raise ArgumentError(name, value, f"a number above {least:g}{alternative}")

    @property
    def pinned(self) -> tuple[tuple[object, int], ...]:
        return tuple(self.pin.items()) if isinstance(self.pin, Mapping) else self.pin

    @cached_property
    def load(self) -> LoadModel:
        """What this strategy means by load."""
        return MeasuredTime()

    @property
    def judged_together(self) -> bool:
        """Whether changes of one round only make sense as a whole."""
        return False

    def rent_ms(self, view: View) -> float:
        """What it costs in a batch not to change anything, for strategies that wait until that has
        come to the price of a change (`adaptive`)."""
        return 0.0

    @property
    def batches_apart(self) -> int:
        """How many of the last batches this strategy wants to see each by itself."""
        return 0

    @property
    def trusted(self) -> bool:
        """Whether changes are made as they are proposed, and asked for in every batch."""
        return False

    @property
    def keys_told(self) -> int | None:
        return None if self.keys_watched == "all" else self.keys_watched

    def begin(
        self,
        slots: int,
        instances: int,
        stored: Mapping[str, Any] | None = None,
        pinned: Mapping[int, IsolatedKey] | None = None,
    ) -> Placing:
        from skewless.placement.balancing.governor import Governor

        placement = None if stored is None else Placement.from_json(stored)
        if placement is None or (placement.instances, placement.slots) != (instances, slots):
            placement = self.start(slots, instances)
        return Governor(self, placement, pinned)

    def start(self, slots: int, instances: int) -> Placement:
        """Where everything is before the first change."""
        return Placement.spread(slots, instances)

    @abstractmethod
    def wants_change(self, view: View) -> bool:
        """Whether the loads of one batch are reason to act, were they to last."""

    @abstractmethod
    def propose(self, view: View) -> Iterator[Change]:
        """The changes that would help, the most useful first. Pure: the same view, the same
        changes."""
