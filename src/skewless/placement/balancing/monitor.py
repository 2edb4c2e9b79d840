"""The memory of the last batches: figures averaged, prices fitted.

Prices are what a probing row and a compared pair cost, in milliseconds. They are fitted to the
measured times of the instances, so that loads can be foretold for placements never tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from skewless.arrays.types import Floats
from skewless.placement.balancing.moving import PROBES_PER_ROW_MOVED, MovePrices
from skewless.placement.balancing.view import View
from skewless.placement.figures import Figures, LoadReport, WatchedKey, Work
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.prices import Prices

ROW_MS, PAIR_MS = ASSUMED = (1e-4, 2e-5)  # before anything was measured


class Monitor:
    """Averages over `window` batches, and tells `apart` of them each by itself. `pinned` keys stay
    where they are."""

    def __init__(self, window: int, pinned: frozenset[int] = frozenset(), apart: int = 0) -> None:
        self.pinned = pinned
        self._window, self._apart = window, apart
        self._reports: deque[LoadReport] = deque(maxlen=max(window, apart))
        self._prices, self._own_prices = Prices(ASSUMED), Prices(ASSUMED)
        self._moves = MovePrices()
        self._moved: int | None = None
        self._rent_ms = 0.0

    def charge(self, rent_ms: float) -> float:
        """What the last batch has cost that a change would have saved; with it, all that is due."""
        self._rent_ms += rent_ms
        return self._rent_ms

    def changed(self, rows: int) -> None:
        """Something was changed after the last batch, for which so many rows move."""
        self._moved = rows
        self._rent_ms = max(self._rent_ms - self._price_ms(rows), 0.0)

    def _price_ms(self, rows: int) -> float:
        return self._moves.pause_ms + rows * self._moved_row_ms()

    def _moved_row_ms(self) -> float:
        known = self._moves.known
        return self._moves.row_ms if known else PROBES_PER_ROW_MOVED * float(self._prices.now[0])

    def add(self, report: LoadReport, work: Work, own: Work | None = None) -> None:
        """A batch: its figures, and what the instances did, for the prices; and apart from it what
        they did for keys with places of their own, which may cost less or more per row."""
        _learn(self._prices, work)
        if own is not None:
            _learn(self._own_prices, own)
        if self._moved is not None and report.stopped_ms > 0:
            self._moves.learn(self._moved, report.stopped_ms)
        self._moved = None
        self._reports.append(report)

    def latest(self, placement: Placement) -> View:
        """The last batch alone."""
        return self._view([self._reports[-1]], placement)

    def view(self, placement: Placement) -> View:
        """The last batches on the average, as if all had been under this placement."""
        reports = list(self._reports)
        apart = reports[-self._apart :] if self._apart else []
        batches = tuple(self._view([report], placement) for report in apart)
        return replace(self._view(reports[-self._window :], placement), batches=batches)

    def _view(self, reports: list[LoadReport], placement: Placement) -> View:
        own = placement.isolated_by_hash
        share = 1 / len(reports)
        known = {key.hash: key for report in reports for key in report.keys}
        keys = [_told(known[h], isolated=h in own) for h in sorted(known)]
        at = {key.hash: i for i, key in enumerate(keys)}
        slots, of_keys = Figures.zeros(placement.slots), Figures.zeros(len(keys))
        for report in reports:
            slots = slots.plus(_as_if(report, own), share)
            places = [at[key.hash] for key in report.keys]
            for name, values in report.key_figures.arrays().items():
                np.add.at(getattr(of_keys, name), places, values * share)
        row_ms, pair_ms = self._prices.now.tolist()
        apart = np.array([key.isolated for key in keys], np.bool_) & self._own_prices.known
        return View(
            batch_id=reports[-1].batch_id,
            placement=placement,
            slots=_priced(slots, row_ms, pair_ms),
            keys=tuple(keys),
            key_figures=_priced(
                of_keys,
                np.where(apart, self._own_prices.now[0], row_ms),
                np.where(apart, self._own_prices.now[1], pair_ms),
            ),
            pinned=self.pinned,
            row_ms=row_ms,
            pair_ms=pair_ms,
            moved_row_ms=self._moved_row_ms(),
            pause_ms=self._moves.pause_ms,
            rent_ms=self._rent_ms,
        )


def _learn(prices: Prices, work: Work) -> None:
    prices.learn(np.stack([work.rows, work.pairs], axis=1), work.ms)


def _told(key: WatchedKey, *, isolated: bool) -> WatchedKey:
    return key if key.isolated == isolated else replace(key, isolated=isolated)


def _as_if(report: LoadReport, own: Mapping[int, IsolatedKey]) -> Figures:
    """The figures of slots, had the keys apart been those of today."""
    slots = report.slots
    changed = [i for i, key in enumerate(report.keys) if key.isolated != (key.hash in own)]
    if not changed:
        return slots
    slots = slots.times(1.0)
    at = [report.keys[i].slot for i in changed]
    signs = np.array([1.0 if report.keys[i].isolated else -1.0 for i in changed])
    for name, values in report.key_figures.arrays().items():
        np.add.at(getattr(slots, name), at, signs * values[changed])
    return slots


def _priced(figures: Figures, row_ms: float | Floats, pair_ms: float | Floats) -> Figures:
    return replace(
        figures,
        time_left_ms=row_ms * figures.probing_left + pair_ms * figures.pairs_left,
        time_right_ms=row_ms * figures.probing_right + pair_ms * figures.pairs_right,
    )
