"""What an instance counts while it works, and how it is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from skewless.engine.report import InstanceReport
from skewless.operators.three_way.spec import Hop


class Met(NamedTuple):
    """What new rows of a stream have met on one hop: how many looked for partners, how many
    candidates there were, and how many rows met any."""

    new: int
    source: int
    target: int
    probes: int
    candidates: int
    hits: int

    @property
    def hop(self) -> Hop:
        return self.source, self.target


@dataclass
class Tally:
    """What an instance counts. For the new rows of each stream and each of their hops: the rows
    that probed, the candidates they met, and how many of them met any. `shipped` are new rows that
    came to this instance while others have them, too."""

    rows: int = 0
    matches: int = 0
    shipped: int = 0
    probes: Counter[tuple[int, Hop]] = field(default_factory=Counter)
    candidates: Counter[tuple[int, Hop]] = field(default_factory=Counter)
    hits: Counter[tuple[int, Hop]] = field(default_factory=Counter)

    def met(self, new: int, hop: Hop, probes: int, candidates: int, hits: int) -> None:
        self.probes[new, hop] += probes
        self.candidates[new, hop] += candidates
        self.hits[new, hop] += hits

    def hops(self) -> list[Met]:
        return [
            Met(new, *hop, probes, self.candidates[new, hop], self.hits[new, hop])
            for (new, hop), probes in sorted(self.probes.items())
        ]


def hops_in(reports: Iterable[InstanceReport]) -> list[Met]:
    """What all instances have met."""
    return [Met(*hop) for report in reports for hop in report.detail["hops"]]
