"""Rows of the result: pairs that are alike, and their distance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import pieces_of
from skewless.arrays.types import Floats, Ints, Side
from skewless.operators.similarity.spec import SimilaritySpec
from skewless.state.segments import Rows

Chosen = tuple[Rows, Ints]  # rows of a segment, by number


@dataclass(frozen=True)
class PairOutput:
    """Makes the rows of the result."""

    spec: SimilaritySpec
    schema: pa.Schema

    @staticmethod
    def of(spec: SimilaritySpec) -> PairOutput:
        return PairOutput(spec, spec.output_schema())

    def rows(
        self, side: Side, new: Chosen, old: Chosen, distances: Floats
    ) -> Iterator[pa.RecordBatch]:
        """Pairs that new rows of a side have found."""
        for piece in pieces_of((new[0].columns, new[1]), (old[0].columns, old[1])):
            some = (new[0], new[1][piece]), (old[0], old[1][piece])
            yield self._rows(side, *some, distances[piece])

    def _rows(self, side: Side, new: Chosen, old: Chosen, distances: Floats) -> pa.RecordBatch:
        columns = (
            self._in_order(new, old)
            if self.spec.is_self_join
            else self._by_side(
                {"left": new, "right": old} if side == "left" else {"left": old, "right": new}
            )
        )
        return pa.RecordBatch.from_arrays([*columns, pa.array(distances)], schema=self.schema)

    def _by_side(self, sides: dict[Side, Chosen]) -> list[pa.Array]:
        taken = {side: (rows.columns, pa.array(chosen)) for side, (rows, chosen) in sides.items()}
        return [taken[c.side][0][c.index].take(taken[c.side][1]) for c in self.spec.output]

    def _in_order(self, new: Chosen, old: Chosen) -> list[pa.Array]:
        """A row joined with one of its own stream: the earlier by event time comes first."""
        swapped = new[0].times[new[1]] < old[0].times[old[1]]
        numbers, mine, theirs = np.arange(len(swapped)), pa.array(new[1]), pa.array(old[1])
        places = {
            "left": pa.array(numbers + swapped * len(swapped)),
            "right": pa.array(numbers + ~swapped * len(swapped)),
        }
        found = []
        for column in self.spec.output:
            both = pa.concat_arrays(
                [old[0].columns[column.index].take(theirs), new[0].columns[column.index].take(mine)]
            )
            found.append(both.take(places[column.side]))
        return found
