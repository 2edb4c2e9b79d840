"""The one registry of strategies: what `strategy=` accepts, operator by operator.

Arguments, job files, error texts, contract tests and `dir(skewless)` all read it. Strategies are
named here by module and loaded when asked for: some are compiled by Numba, which takes its
time.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skewless.errors import ArgumentError

_BALANCING = "skewless.placement.balancing"
_GROUPING = "skewless.placement.grouping"
_ROUTING = "skewless.placement.routing"
_SIMILARITY = "skewless.operators.similarity.strategies"
_THREE_WAY = "skewless.operators.three_way.strategies"


@dataclass(frozen=True)
class Family:
    """The strategies of one operator: `members` maps their names to modules, one file each. All
    derive from `base`. `auto` is what "auto" stands for. Both are (module, name)."""

    operator: str
    base: tuple[str, str]
    auto: tuple[str, str]
    members: Mapping[str, str]

    def load(self, name: str) -> Any:
        """A strategy's class by its name."""
        return getattr(importlib.import_module(self.members[name]), name)

    def classes(self) -> dict[str, Any]:
        return {name: self.load(name) for name in self.members}

    def words(self) -> dict[str, str]:
        """What the strategies are called where there are only words, as in job files: as their
        files are. Maps words to names."""
        return {module.rpartition(".")[2]: name for name, module in self.members.items()}

    def choose(self, value: object, argument: str = "strategy") -> Any:
        """The strategy that an argument says; None and "auto" leave the choice to us."""
        if value is None or (isinstance(value, str) and value == "auto"):
            return _loaded(self.auto)()
        if not isinstance(value, _loaded(self.base)):
            raise ArgumentError(argument, value, self.choices())
        return value

    def choices(self) -> str:
        """What is accepted, in words."""
        *some, last = [f"sk.{name}(…)" for name in self.members]
        return f"'auto', {', '.join(some)} or {last}"


def choose_strategy(operator: str, strategy: object, **older: object) -> Any:
    """The strategy that an operator is given by `strategy`, or by its `older` name."""
    for name, value in older.items():
        if value is not None:
            if strategy is not None:
                raise ArgumentError(name, value, "left out where `strategy` is given")
            return FAMILIES[operator].choose(value, name)
    return FAMILIES[operator].choose(strategy)


def _loaded(place: tuple[str, str]) -> Any:
    module, name = place
    return getattr(importlib.import_module(module), name)


FAMILIES = {
    family.operator: family
    for family in (
        Family(
            "join",
            ("skewless.placement.strategy", "PlacementStrategy"),
            (f"{_BALANCING}.auto", "Auto"),
            {
                "Auto": f"{_BALANCING}.auto",
                "FastJoin": f"{_BALANCING}.fastjoin",
                "LSStream": f"{_BALANCING}.lsstream",
                "NoBalancing": f"{_BALANCING}.none",
                "Hash": f"{_ROUTING}.hash",
                "ContRand": f"{_ROUTING}.contrand",
                "Broadcast": f"{_ROUTING}.broadcast",
            },
        ),
        Family(
            "aggregate",
            (f"{_GROUPING}.base", "Grouping"),
            (f"{_GROUPING}.batchaware", "BatchAware"),
            {
                "BatchAware": f"{_GROUPING}.batchaware",
                "PdStream": f"{_GROUPING}.pdstream",
                "PKG": f"{_GROUPING}.pkg",
                "DChoices": f"{_GROUPING}.dchoices",
                "WChoices": f"{_GROUPING}.wchoices",
                "DAGreedy": f"{_GROUPING}.dagreedy",
                "Dalton": f"{_GROUPING}.dalton",
                "KeyGrouping": f"{_GROUPING}.key_grouping",
                "ShuffleGrouping": f"{_GROUPING}.shuffle_grouping",
            },
        ),
        Family(
            "join3",
            (f"{_THREE_WAY}.base", "ThreeStrategy"),
            (f"{_THREE_WAY}.auto", "AutoThree"),
            {
                "TriJoin": f"{_THREE_WAY}.trijoin",
                "Tree": f"{_THREE_WAY}.tree",
            },
        ),
        Family(
            "similarity_join",
            (f"{_SIMILARITY}.base", "SimilarityStrategy"),
            (f"{_SIMILARITY}.auto", "AutoSimilarity"),
            {
                "S3J": f"{_SIMILARITY}.s3j",
                "ClusterJoin": f"{_SIMILARITY}.clusterjoin",
                "BruteForce": f"{_SIMILARITY}.bruteforce",
            },
        ),
    )
}
