"""How uneven loads are. The papers mean different things by one name: here they are apart.

`FLOOR` stands in for the load of an idle instance: idle beside busy is the strongest imbalance, but
not an infinite one.
"""

from __future__ import annotations

from skewless.arrays.types import Floats

FLOOR = 1e-9


def max_over_mean(loads: Floats) -> float:
    """The busiest instance over the mean: how much longer a batch takes than it would, evenly
    divided. 1.0 is perfect balance.

    >>> import numpy as np
    >>> max_over_mean(np.array([3.0, 1.0]))
    1.5
    """
    mean = float(loads.mean()) if len(loads) else 0.0
    return float(loads.max()) / mean if mean > FLOOR else 1.0


def max_over_min(loads: Floats) -> float:
    """FastJoin's degree of imbalance (its eq. 2): the heaviest over the lightest load.

    >>> import numpy as np
    >>> max_over_min(np.array([3.0, 1.0]))
    3.0
    """
    if not len(loads) or loads.max() <= FLOOR:
        return 1.0
    return float(loads.max()) / max(float(loads.min()), FLOOR)


def deviation_from_mean(loads: Floats) -> float:
    """LS-Stream's degree of imbalance (its eq. 13): the larger of the relative deviations of the
    heaviest and the lightest from the mean.

    >>> import numpy as np
    >>> round(deviation_from_mean(np.array([43.0, 15.0])), 2)
    0.48
    """
    mean = float(loads.mean()) if len(loads) else 0.0
    if mean <= FLOOR:
        return 0.0
    return max(float(loads.max()) - mean, mean - float(loads.min())) / mean
