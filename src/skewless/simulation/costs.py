"""What work costs on the virtual cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skewless.errors import ArgumentError

Scan = Literal["key", "slot", "instance"]
SCANS: tuple[Scan, ...] = ("key", "slot", "instance")
PAUSE_MS = 250.0  # assumed: FastJoin's paper says of pause and transfer together, below a second


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Prices in milliseconds: of a row that probes, a pair that is compared, a row that an instance
    stores, a row that is sent to it, and a stored row that moves (paid at both ends). This engine
    stores rows before they are divided, hence the 0. A batch comes every `interval_ms`; who needs
    longer for it falls behind.

    `pause_ms` says how rows move. A number: as in the papers' systems, where both instances stop
    until the rows have been transferred. Rows that come meanwhile wait in a queue, and whatever
    comes from then on goes to the new place. Stopping and starting takes `pause_ms`, the transfer
    `migrated_ms` per row. None: so where a strategy is as published (`paper=True`), with `PAUSE_MS`
    for the pause; else as in this engine, where a moved row is read elsewhere from the next batch
    on, which is work among other work.

    `scan` says which stored rows a prober is compared with. "key": those of its key, as this engine
    does with sorted state. "slot": all of its slot, as LS-Stream does. "instance": all that its
    instance holds, as BiStream and FastJoin do. The coarser, the more a heavy instance suffers: its
    rows are more, and each takes longer.

    >>> Costs(scan="row")
    Traceback (most recent call last):
    ...
    skewless.errors.ArgumentError: `scan` must be one of: 'key', 'slot', 'instance'; received 'row'
    """

    row_ms: float = 1e-4
    pair_ms: float = 2e-5
    stored_ms: float = 0.0
    sent_ms: float = 2e-5
    migrated_ms: float = 2.5e-5
    pause_ms: float | None = None
    interval_ms: float = 1000.0
    scan: Scan = "key"

    def __post_init__(self) -> None:
        if self.scan not in SCANS:
            raise ArgumentError("scan", self.scan, f"one of: {', '.join(map(repr, SCANS))}")
        for name in ("row_ms", "pair_ms", "stored_ms", "sent_ms", "migrated_ms", "pause_ms"):
            value = getattr(self, name)
            if value is None and name == "pause_ms":
                continue
            if not value >= 0:
                raise ArgumentError(name, getattr(self, name), "a number of at least 0")
        if not self.interval_ms > 0:
            raise ArgumentError("interval_ms", self.interval_ms, "a number above 0")
