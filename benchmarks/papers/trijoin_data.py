"""Stand-ins for the two traces of TriJoin's paper, of which it gives no statistics: rides of a city
for DiDi's, packets for those of the WIDE project. Tuples have the paper's six fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skewless.workloads import City, SixFields
from skewless.workloads.zipf import EPOCH, ZipfKeys

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rides:
    """A ride begins in cell `I` of a city and ends in cell `Int`, cells being numbered along a
    Hilbert curve: neighbours in number are neighbours in the city. So a cycle asks for rides r and
    s that begin near each other, s and t that end so, and t that begins where r ends. The skew is
    that of DiDi's data set as FastJoin's paper tells it: 20 % of the cells have 80 % of the orders.
    """

    order: int = 7
    seed: int = 1

    @cached_property
    def _city(self) -> City:
        return City(order=self.order, seed=self.seed)

    def table(
        self, stream: int, rows: int, begin_s: float, seconds: float, stretch: int = 0
    ) -> pa.Table:
        """As `SixFields.table`."""
        start, batch = EPOCH + timedelta(seconds=begin_s), 3 * stretch + stream
        ends = (self._city.orders(rows, start, seconds, 2 * batch + use) for use in (0, 1))
        first, second = (drawn["cell"].to_numpy() for drawn in ends)
        rest = SixFields(seed=self.seed).table(stream, rows, begin_s, seconds, stretch)
        return _with_ints(rest, stream, first, second)


@dataclass(frozen=True)
class Packets:
    """A packet goes from host `I` to host `Int`; popular hosts are so by a Zipf law. The streams
    share them: a cycle asks for packets r and s from the same host, s and t to the same one, and t
    from the host that r goes to, or neighbours of them."""

    hosts: int = 20_000
    exponent: float = 0.5
    seed: int = 1

    @cached_property
    def _law(self) -> ZipfKeys:
        return ZipfKeys(self.hosts, self.exponent, self.seed)

    def table(
        self, stream: int, rows: int, begin_s: float, seconds: float, stretch: int = 0
    ) -> pa.Table:
        """As `SixFields.table`."""
        first, second = (self._law.draw(rows, stretch, 2 * stream + use) for use in (0, 1))
        rest = SixFields(seed=self.seed).table(stream, rows, begin_s, seconds, stretch)
        return _with_ints(rest, stream, first, second)


def _with_ints(table: pa.Table, stream: int, first: Ints, second: Ints) -> pa.Table:
    for name, values in ((f"{'rst'[stream]}_I", first), (f"{'rst'[stream]}_Int", second)):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, pa.array(values.astype(np.int32)))
    return table
