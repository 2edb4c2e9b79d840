"""Two joins of two streams each, as the baseline of TriJoin's paper has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skewless.errors import ArgumentError
from skewless.operators.three_way.strategies.base import RunningStrategy, ThreeStrategy

if TYPE_CHECKING:
    from skewless.operators.three_way.spec import ThreeSpec


@dataclass(frozen=True)
class Tree(ThreeStrategy):
    """BiStream + Tree, the paper's baseline: two two-way joins, one after the other. Instances form
    four groups, for the three inputs and for the pairs of the first two; each holds a part of what
    its group stores, and what is new is sent to all instances of the group on the other side.

    - `order`: which two streams are joined first, and which comes last, by the names "r", "s", "t"
      of the first, second and third input. The first two must have a condition. Default: by what
      the conditions allow, in the order of the inputs.
    - `subgroups`: by the hash of a key, a group is divided into so many (as BiStream can), and
      rows are sent to one subgroup only (of a band: to three at most). 1 sends them to the whole
      group, as TriJoin's paper does; more means less to send, but a hot key has
      fewer instances.
    """

    order: tuple[str, ...] | None = None
    subgroups: int = 1

    def __post_init__(self) -> None:
        given: Any = self.order
        if given is not None and (
            not isinstance(given, tuple | list) or sorted(map(str, given)) != ["r", "s", "t"]
        ):
            raise ArgumentError("order", given, 'the names "r", "s" and "t" in any order')
        count: Any = self.subgroups
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ArgumentError("subgroups", count, "a whole number of at least 1")

    def check(self, spec: ThreeSpec) -> None:
        first, second, _ = self.numbers(spec)
        if spec.edge(first, second) is None:
            linked = ", ".join(e.name for e in spec.edges)
            accepted = f"begun with two inputs that have a condition: one of {linked}"
            raise ArgumentError("order", self.order, accepted)

    def numbers(self, spec: ThreeSpec) -> tuple[int, int, int]:
        """The order of the joins, as numbers of streams."""
        if self.order is not None:
            first, second, third = ("rst".index(name) for name in self.order)
            return first, second, third
        edge = spec.edges[0]
        return edge.a, edge.b, 3 - edge.a - edge.b

    def intermediates(self, spec: ThreeSpec) -> str:
        from skewless.operators.three_way.tree import kind_of

        return f"pairs, {kind_of(spec, self.numbers(spec)).side}"

    def begin(self, spec: ThreeSpec, facts: Mapping[str, Any]) -> RunningStrategy:
        from skewless.operators.three_way.tree import RunningTree, kind_of

        return RunningTree(spec, kind_of(spec, self.numbers(spec)), self.subgroups)
