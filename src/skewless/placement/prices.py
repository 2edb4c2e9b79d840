"""What units of work cost, in milliseconds, fitted to what instances have taken for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skewless.arrays.types import Floats

MEMORY = 0.8  # of the fit, from batch to batch
TRUST = 1e-3  # in what is assumed beside what is measured
LEAP = 4.0  # times what was foretold: more is not believed of an instance in one batch


class Prices:
    """Least squares over the instances of all batches, the recent ones counting most; leaning on
    what was `assumed` as far as the measurements do not tell kinds of work apart."""

    def __init__(self, assumed: Sequence[float]) -> None:
        self._assumed = np.array(assumed)
        self._products = np.zeros((len(assumed), len(assumed)))
        self._times = np.zeros(len(assumed))
        self._warm = False
        self.known = False
        self.now = self._assumed

    def learn(self, done: Floats, ms: Floats) -> None:
        """What each instance has done, one column for each kind of work, and the time it took."""
        if not (ms.sum() > 0 and done.any()):
            return  # nothing was done, however long that took
        if not self._warm:  # the first batch pays for compiling and loading
            self._warm = True
            return
        if self.known:  # so does, later, whoever is the first to do something new in a process
            ms = np.minimum(ms, LEAP * (done @ self.now))
        # No constant: once the load is even, a constant alone would explain it, and nothing could
        # be learned any more.
        self._products = MEMORY * self._products + done.T @ done
        self._times = MEMORY * self._times + done.T @ ms
        # Scaled so that the assumption explains the whole time at least as a ratio.
        scale = float(self._times.sum() / max((self._products @ self._assumed).sum(), 1e-30))
        assumed = self._assumed * scale
        lean = TRUST * np.diag(np.diag(self._products) + 1e-12)
        found = np.linalg.solve(self._products + lean, self._times + lean @ assumed)
        self.now, self.known = np.maximum(found, assumed * 0.01), True
