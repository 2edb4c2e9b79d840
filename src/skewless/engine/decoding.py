"""Rows with a column of JSON texts, which the tasks that take them in make columns of.

Whoever follows the stream hands each text over as it is. So one column crosses from the JVM instead
of many, and all texts of a batch are parsed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skewless.arrays.types import Flags
from skewless.engine.exchange import Packet
from skewless.engine.letters import LetterBox, OpenBox
from skewless.engine.loss import BAD_VALUES, DEAD_LETTERS
from skewless.engine.operator import Arrival
from skewless.engine.pipeline import IngestTask
from skewless.expressions import Shape
from skewless.expressions.shape import shaped
from skewless.files.json_values import JsonColumns

ON_BAD = ("null", "error", "drop")
ASIDE = "aside"  # the same for rows that are written to files
NO_JSON = "no JSON of the given schema"
SHOWN = 80  # letters of a bad value that an error shows
ORIGIN = ("topic", "partition", "offset")  # columns by which a value can be found again


@dataclass(frozen=True)
class Decoding:
    """How the rows of one stream become rows of an input. Column `text` of them is parsed; `made`
    are the columns that come of it, each a column of the rows, or -1 - i for field i of the texts.
    `shapes` are what is done to these, and then they are taken in. `origin` are columns that tell
    where a value comes from; `letters` take the rows with bad values, if these are put aside."""

    ingest: IngestTask
    json: JsonColumns
    text: int
    made: tuple[int, ...]
    on_bad: str = "null"
    shapes: tuple[Shape, ...] = ()
    origin: tuple[tuple[str, int], ...] = ()
    letters: LetterBox | None = None

    @property
    def buckets(self) -> int:
        return self.ingest.buckets

    def __call__(self, batches: Iterable[pa.RecordBatch], task: int) -> Iterator[Arrival | Packet]:
        box = None if self.letters is None else self.letters.open(self.ingest.folder_now(), task)
        seen = _Seen(box)
        rows = (shaped(self._decoded(batch, seen), self.shapes) for batch in batches)
        try:
            yield from self.ingest(rows, task)
            if seen.count:
                yield self._told(seen)
        except BaseException:
            if box is not None:
                box.abort()
            raise

    def _told(self, seen: _Seen) -> Arrival:
        is_dropped = self.on_bad in ("drop", ASIDE)
        cause = DEAD_LETTERS if self.on_bad == ASIDE else BAD_VALUES
        return Arrival(
            self.ingest.name,
            rows=seen.count if is_dropped else 0,
            dropped={cause: seen.count} if is_dropped else {},
            operator=self.ingest.operator_name,
            bad_values=0 if is_dropped else seen.count,
            refused=seen.first if self.on_bad == "error" else "",
            letters=() if seen.box is None else seen.box.close(),
        )

    def _decoded(self, rows: pa.RecordBatch, seen: _Seen) -> pa.RecordBatch:
        texts = rows.column(self.text)
        fields = [-1 - i for i in self.made if i < 0]
        found, bad = self.json.read(texts, fields)
        parsed = iter(found)
        columns = [next(parsed) if i < 0 else rows.column(i) for i in self.made]
        made = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
        if bad.any():
            seen.add(rows, bad, lambda at: self._shown(rows, at))
            if self.on_bad in ("drop", ASIDE):
                return made.filter(pa.array(~bad))
        return made

    def _shown(self, rows: pa.RecordBatch, at: int) -> str:
        """The beginning of a value, and where it stood."""
        value = rows.column(self.text)[at].as_buffer().to_pybytes()
        text = value[: 4 * SHOWN].decode(errors="replace")
        shown = f"{text[:SHOWN]!r}{' …' if len(text) > SHOWN else ''}"
        where = ", ".join(f"{name} {rows.column(i)[at].as_py()}" for name, i in self.origin)
        return f"{shown} ({where})" if where else shown


@dataclass
class _Seen:
    """The bad values of a task: how many, and the first; they go into the box, if there is one."""

    box: OpenBox | None = None
    count: int = 0
    first: str = ""

    def add(self, rows: pa.RecordBatch, bad: Flags, shown: Callable[[int], str]) -> None:
        if self.box is not None:
            self.box.add(rows, bad, NO_JSON)
        if not self.count:
            self.first = shown(int(np.flatnonzero(bad)[0]))
        self.count += int(bad.sum())
