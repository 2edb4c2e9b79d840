"""The asof join of one instance: the left rows that are decided about, each with its partner.

New rows only make work when it is their turn: once the watermark says that no nearer partner can
come. They are shared out as rows without a partner are in an outer join, so that every left row is
decided about once, by one instance, whatever the routing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from skewless.arrays.pairs import PairsAt
from skewless.arrays.runs import Run
from skewless.arrays.types import SIDES, Flags
from skewless.engine.instance import Instance
from skewless.operators.asof.partners import NONE, Partners
from skewless.operators.asof.spec import AsofSpec
from skewless.operators.two_way.alone import RowsAlone
from skewless.operators.two_way.work import InstanceJoin, JoinPlan, JoinWork

ROWS_PER_CHUNK = 1 << 16


@dataclass(frozen=True)
class AsofWork(JoinWork):
    """The work of every instance in one batch."""

    spec: AsofSpec

    def of(self, instance: Instance) -> InstanceAsof:
        return InstanceAsof(self.spec, self.plan, instance)


class InstanceAsof(InstanceJoin):
    """One instance at work on one batch."""

    def __init__(self, spec: AsofSpec, plan: JoinPlan, instance: Instance) -> None:
        super().__init__(spec, plan, instance)
        self._asof = spec

    def _emitted(self) -> Iterator[pa.RecordBatch]:
        for side in SIDES:
            self._count_late(side)
            self._note_stored(side)
        alone = self._rows_alone()
        others = alone.others("right")
        own = [u for u in self._units if u.isolated]
        plain = [u for u in self._units if not u.isolated]
        yield from self._decided(replace(alone, units=plain), others)
        self._set_apart(True)
        yield from self._decided(replace(alone, units=own), others)
        self._set_apart(False)
        if "left" in self._asof.how.unmatched:
            yield from self._emit_alone("left", alone.due_keyless("left"))

    def _decided(self, alone: RowsAlone, others: Sequence[Run]) -> Iterator[pa.RecordBatch]:
        """The results of all left rows of some units whose time has come."""
        for due in alone.due("left"):
            for epoch, spec in self._asof.of_epochs():
                mine, partners = due.keep(epoch.holds_at(due.times)), Partners(spec, others)
                for at in range(0, len(mine), ROWS_PER_CHUNK):
                    rows = mine.take(np.arange(at, min(at + ROWS_PER_CHUNK, len(mine))))
                    yield from self._with_partners(rows, partners)

    def _with_partners(self, rows: Run, partners: Partners) -> Iterator[pa.RecordBatch]:
        chosen = partners.of(rows)
        self._note(rows, chosen.run != NONE)
        for number, run in enumerate(partners.others):
            asking, found = chosen.of_run(number)
            if len(asking):
                yield from self._emit_all("left", [PairsAt(rows, asking, run, found)])
        if "left" in self._asof.how.unmatched:
            yield from self._emit_alone("left", iter([rows.keep(chosen.run == NONE)]))

    def _note(self, rows: Run, matched: Flags) -> None:
        """The rows that probe here are those that are decided about. Each costs about as much as a
        pair."""
        self._tally.rows += len(rows)
        self._tally.pairs += len(rows)
        describe, one_each = partial(self._describe, "left", rows), np.ones(len(rows), np.int64)
        self._meter.probed("left", rows.hashes, one_each, matched, describe)
