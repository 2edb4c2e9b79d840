"""The changes a strategy can propose. Each says what it does and why, and can be tried on a
placement; none is enacted by who proposes it."""

from __future__ import annotations

from dataclasses import dataclass

from skewless.placement.figures import WatchedKey
from skewless.placement.places import IsolatedKey, Placement


class _OfKey:
    """What changes of one key have in common."""

    isolated: IsolatedKey

    @property
    def subject(self) -> str:
        return f"key {self.isolated.value}"

    @property
    def key_hash(self) -> int | None:
        return self.isolated.hash

    @property
    def cools(self) -> object:
        return ("key", self.isolated.hash)


@dataclass(frozen=True)
class Move:
    """A slot goes to another instance; or, with a `key`, that key alone, which then has a place of
    its own."""

    slot: int
    source: int
    target: int
    reason: str
    key: WatchedKey | None = None

    kind = "move"

    @property
    def subject(self) -> str:
        return f"slot {self.slot}" if self.key is None else f"key {self.key.value}"

    @property
    def key_hash(self) -> int | None:
        """The hash of the key that this is about; None for a slot."""
        return None if self.key is None else self.key.hash

    @property
    def cools(self) -> object:
        """What may not change again for a while."""
        return self.slot if self.key is None else ("key", self.key.hash)

    @property
    def targets(self) -> tuple[int, ...]:
        return (self.target,)

    def on(self, placement: Placement) -> Placement:
        if self.key is None:
            return placement.with_slot(self.slot, self.target)
        key, here = self.key, (self.target,)
        return placement.with_isolated(IsolatedKey(key.hash, key.value, key.slot, here, here))


@dataclass(frozen=True)
class Split(_OfKey):
    """The work of a key is shared by several instances, as `own` says."""

    isolated: IsolatedKey
    source: int
    reason: str

    kind = "split"

    @property
    def targets(self) -> tuple[int, ...]:
        return self.isolated.instances

    def on(self, placement: Placement) -> Placement:
        return placement.with_isolated(self.isolated)


@dataclass(frozen=True)
class Merge(_OfKey):
    """A key with a place of its own goes back to its slot."""

    isolated: IsolatedKey
    target: int
    reason: str

    kind = "merge"

    @property
    def source(self) -> int:
        return self.isolated.instances[0]

    @property
    def targets(self) -> tuple[int, ...]:
        return (self.target,)

    def on(self, placement: Placement) -> Placement:
        return placement.without_isolated(self.isolated.hash)


Change = Move | Split | Merge
