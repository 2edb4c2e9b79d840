"""Whether materializing pairs pays: what the third stream saves, against what the pairs cost.

A new row of the third stream meets F candidates on its two hops without such pairs. With them it
meets f·h + m: f rows of the hub stream, of which only the share h has a partner and so a pack, and
the m pairs it makes triples of. Every new pair costs as much as `PAIR_COST` candidates to pack,
write and compact. All of this was observed in the batches before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from skewless.operators.three_way.packs import PackKind, kinds_of
from skewless.operators.three_way.spec import NAMES, STREAMS, Hop, ThreeSpec
from skewless.operators.three_way.tally import Met
from skewless.placement.figures import Decision

PAIR_COST = 100.0  # measured: 60 in chains, 150 in cycles
KEEP = 0.7  # of the averages, from batch to batch
PATIENCE = 3  # batches in a row in which it would pay, or would no longer
GAIN_MIN = 1.5


class MaterializationPolicy:
    """Which kind of pairs, if any, an automatic three-way join materializes."""

    def __init__(self, spec: ThreeSpec, materialized: PackKind | None) -> None:
        self._spec, self.materialized = spec, materialized
        self._fan_out: dict[Hop, float] = {}
        self._hits: dict[Hop, float] = {}
        self._cost: dict[int, float] = {}
        self._rows: dict[int, float] = {}
        self._since = 0

    def observe(self, hops: Sequence[Met], rows: Sequence[int]) -> list[Decision]:
        """Take note of a batch, with the new rows of each stream in it; decide."""
        self._note(hops, rows)
        best, reason = self._best()
        if best == self.materialized:
            self._since = 0
            return []
        self._since += 1
        if self._since < PATIENCE:
            return []
        self._since = 0
        before, self.materialized = self.materialized, best
        if best is None:
            assert before is not None
            return [_decision("drop pairs", before, reason)]
        return [_decision("keep pairs", best, reason)]

    def _note(self, hops: Sequence[Met], rows: Sequence[int]) -> None:
        probes: Counter[tuple[int, Hop]] = Counter()
        candidates: Counter[tuple[int, Hop]] = Counter()
        hits: Counter[tuple[int, Hop]] = Counter()
        for met in hops:
            probes[met.new, met.hop] += met.probes
            candidates[met.new, met.hop] += met.candidates
            hits[met.new, met.hop] += met.hits
        for stream in STREAMS:
            _average(self._rows, stream, rows[stream])
            mine = sum(m for (new, _), m in candidates.items() if new == stream)
            finds_pairs = self.materialized is not None and self.materialized.third == stream
            if rows[stream] and not finds_pairs:
                _average(self._cost, stream, mine / rows[stream])
        for (new, hop), n in probes.items():
            # From the new rows themselves, not from pairs that they were found in.
            if n and hop[0] == new:
                _average(self._fan_out, hop, candidates[new, hop] / n)
                _average(self._hits, hop, hits[new, hop] / n)

    def _best(self) -> tuple[PackKind | None, str]:
        """What to materialize, and why."""
        best, gain, why = None, 0.0, "no pairs pay any more"
        for kind in kinds_of(self._spec):
            judged = self._judge(kind)
            if judged is not None and judged[0] > gain:
                best, (gain, why) = kind, judged
        return best, why

    def _judge(self, kind: PackKind) -> tuple[float, str] | None:
        """The candidates saved in a batch by materializing a kind of pairs, if that pays."""
        to_hub, pairing = (kind.third, kind.hub), (kind.hub, kind.partner)
        back = (kind.partner, kind.hub)
        known = (to_hub in self._fan_out and pairing in self._fan_out and back in self._fan_out
                 and kind.third in self._cost)  # fmt: skip
        if not known:
            return None
        flat = self._cost[kind.third]
        packed = self._fan_out[to_hub] * self._hits[pairing]
        saved = self._rows[kind.third] * (flat - packed)
        pairs = (self._rows[kind.hub] * self._fan_out[pairing]
                 + self._rows[kind.partner] * self._fan_out[back])  # fmt: skip
        if saved < GAIN_MIN * PAIR_COST * pairs:
            return None
        third = NAMES[kind.third]
        reason = (
            f"a new row of {third} meets {flat:.1f} candidates, {packed:.1f} packs; "
            f"{pairs:.0f} new pairs a batch save {saved:.0f} candidates"
        )
        return saved - PAIR_COST * pairs, reason


def _average(averages: dict[Any, float], key: Any, now: float) -> None:
    before = averages.get(key)
    averages[key] = now if before is None else KEEP * before + (1 - KEEP) * now


def _decision(what: str, kind: PackKind, reason: str) -> Decision:
    hub, partner = NAMES[kind.hub], NAMES[kind.partner]
    return Decision(what, f"pairs of {hub} and {partner}", hub, NAMES[kind.third], reason, True)
