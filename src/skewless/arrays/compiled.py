"""How loops are compiled. All inputs are read-only views (`types.frozen`), so that each kernel
compiles once whether its input is a fresh array or a memory-mapped file."""

from __future__ import annotations

import numba

kernel = numba.njit(cache=True, nogil=True)
