"""Rows on their way into segments of one range of hashes each, where the store is remote.

On a local disk an input task writes its rows as a segment, of all hashes, and everyone maps its
part of it. Where fetching costs, tasks send their rows as packets of a range to whoever works on
that range; there the packets of all tasks become one segment. So an instance fetches a few files,
and no bytes of others. Which packets go together is a matter of speed only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from skewless.arrays.columns import Columns
from skewless.arrays.counting import longest_runs
from skewless.arrays.types import frozen
from skewless.engine.hosts import claim
from skewless.engine.operator import Arrival, IngestContext, Operator
from skewless.placement.units import slot_ends, slot_of
from skewless.state.files import Folder
from skewless.state.rewriting import in_order
from skewless.state.segments import HASH_FIELD, Rows, times_of

PACKET_BYTES_MAX = 8 << 20
SEGMENT_BYTES_MAX = 256 << 20  # bounds the memory of a task that puts packets together
DEALS = 64  # a hot key's packets are dealt out by 64ths of all instances
HOT_KEYS = 128  # at most: each has at least 1/128 of a task's rows, and packets of its own


@dataclass(frozen=True)
class Packet:
    """Sorted rows of one side that lie in one bucket, an equal range of hashes. They belong to the
    instance that has the bucket or, of a hot key, so many 64ths of all instances after it. If all
    rows have one hash, it is their `key`: such may have places of its own. Else it is None."""

    operator: str
    input: str
    side: str
    bucket: int
    deal: int
    key: int | None
    data: bytes


@dataclass(frozen=True)
class Homes:
    """Where packets go: for each operator, the instance that has each bucket, and how many there
    are; and the instances of hashes that have places `apart`. Without any, nothing is exchanged.
    """

    of: Mapping[str, tuple[Sequence[int], int]] = field(default_factory=dict)
    apart: Mapping[str, Mapping[int, Sequence[int]]] = field(default_factory=dict)

    @property
    def most(self) -> int:
        return max((instances for _, instances in self.of.values()), default=0)

    def place(self, packet: Packet) -> int:
        """The instance that a packet belongs to."""
        homes, instances = self.of[packet.operator]
        own = self.apart.get(packet.operator, {}).get(-1 if packet.key is None else packet.key)
        if own:
            return own[packet.deal % len(own)]
        return (homes[packet.bucket] + packet.deal * instances // DEALS) % instances


class Outbox:
    """The packets that a task makes of the rows of one input."""

    def __init__(self, operator: str, name: str, buckets: int) -> None:
        self._operator, self._input, self._buckets = operator, name, buckets
        self._packets: list[Packet] = []

    def put(self, side: str, rows: Rows) -> None:
        """Send sorted rows away."""
        ends = np.searchsorted(rows.hashes, slot_ends(self._buckets)[1], side="right")
        begins, lengths = longest_runs(frozen(rows.hashes), HOT_KEYS)
        hot = {
            int(b): -(-int(n) * DEALS // len(rows))
            for b, n in zip(begins, lengths, strict=True)
            if n * HOT_KEYS >= len(rows) and n > 1
        }
        borders = np.unique([0, *ends, *begins, *(begins + lengths)])
        for begin, end in pairwise(borders.tolist()):
            self._add(side, rows.slice(begin, end), hot.get(begin, 1))

    def _add(self, side: str, rows: Rows, shares: int) -> None:
        size = sum(column.nbytes for column in rows.columns)
        pieces = min(len(rows), max(shares, -(-size // PACKET_BYTES_MAX)))
        ends = [len(rows) * piece // pieces for piece in range(pieces + 1)]
        first, last = int(rows.hashes[0]), int(rows.hashes[-1])
        bucket, key = slot_of(first, self._buckets), first if first == last else None
        for piece, (begin, end) in enumerate(pairwise(ends)):
            some = rows.slice(begin, end)
            arrays = [pa.array(some.hashes), *some.columns]
            names = ["", *map(str, range(len(some.columns)))]
            data = pa.RecordBatch.from_arrays(arrays, names).serialize().to_pybytes()
            deal = piece % shares  # of others than hot keys: 0
            packet = Packet(self._operator, self._input, side, bucket, deal, key, data)
            self._packets.append(packet)

    def taken(self) -> list[Packet]:
        """What was put in since it was last asked."""
        taken, self._packets = self._packets, []
        return taken


@dataclass(frozen=True)
class MergeTask:
    """What a task does that puts packets together, each kind of them as a segment, in which hashes
    lie apart that have places of their own."""

    operators: Mapping[str, Operator]
    folder: Folder
    apart: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def by(self, homes: Homes) -> MergeTask:
        return replace(self, apart={name: tuple(own) for name, own in homes.apart.items()})

    def __call__(self, packets: Iterable[Packet]) -> Iterator[Arrival]:
        pending: dict[tuple[str, str, str], list[bytes]] = {}
        sizes: dict[tuple[str, str, str], int] = {}
        claim()  # whatever it is, it is not of this task
        for packet in packets:
            kind = packet.operator, packet.input, packet.side
            pending.setdefault(kind, []).append(packet.data)
            sizes[kind] = sizes.get(kind, 0) + len(packet.data)
            if sizes[kind] >= SEGMENT_BYTES_MAX:
                yield self._stored(*kind, pending.pop(kind))
                sizes[kind] = 0
        for kind, some in pending.items():
            yield self._stored(*kind, some)

    def _stored(self, name: str, input_name: str, side: str, some: Sequence[bytes]) -> Arrival:
        operator = self.operators[name]
        layout = operator.exchanged()[side]
        fields = [HASH_FIELD, *layout.schema]
        schema = pa.schema([f.with_name(str(i)) for i, f in enumerate(fields)])
        parts = []
        for data in some:
            hashes, *columns = pa.ipc.read_record_batch(pa.py_buffer(data), schema).columns
            times = times_of(columns, layout.time_index, len(hashes))
            parts.append(Rows(hashes.to_numpy(), times, Columns(columns)))
        rows = parts[0] if len(parts) == 1 else in_order(parts)
        context = IngestContext(self.folder, name, apart=self.apart.get(name, ()))
        stored = operator.store(input_name, side, rows, context)
        return replace(stored, operator=name, traffic=claim())
