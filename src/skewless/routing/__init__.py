"""Who works on which rows: one strategy per file, each a frozen configuration.

A `Routing` divides the work of a join's batch; a `Grouping` chooses the instance of each tuple of a
stream.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from skewless.routing.base import Routing, slot_bounds
from skewless.routing.broadcast import Broadcast
from skewless.routing.contrand import ContRand
from skewless.routing.hash import Hash

if TYPE_CHECKING:
    from skewless.routing.batchaware import BatchAware, BatchAwareGrouper
    from skewless.routing.dagreedy import DAGreedy
    from skewless.routing.dalton import Dalton
    from skewless.routing.dchoices import DChoices, choices_needed
    from skewless.routing.grouping import Grouper, Grouping, home_of
    from skewless.routing.grouping_metrics import (
        GroupingMetrics,
        GroupingReport,
        load_imbalance,
        measure,
        replication_factor,
    )
    from skewless.routing.key_grouping import KeyGrouping
    from skewless.routing.pdstream import PdStream, PdStreamGrouper, probability_table
    from skewless.routing.pkg import PKG
    from skewless.routing.shuffle_grouping import ShuffleGrouping
    from skewless.routing.wchoices import WChoices

__all__ = [
    "BatchAware",
    "BatchAwareGrouper",
    "Broadcast",
    "ContRand",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "Grouper",
    "Grouping",
    "GroupingMetrics",
    "GroupingReport",
    "Hash",
    "KeyGrouping",
    "PKG",
    "PdStream",
    "PdStreamGrouper",
    "Routing",
    "ShuffleGrouping",
    "WChoices",
    "choices_needed",
    "home_of",
    "load_imbalance",
    "measure",
    "probability_table",
    "replication_factor",
    "slot_bounds",
]

# Groupings are compiled by Numba, which takes long to load: only for who asks for one.
_LATE = {
    "batchaware": ("BatchAware", "BatchAwareGrouper"),
    "dagreedy": ("DAGreedy",),
    "dalton": ("Dalton",),
    "dchoices": ("DChoices", "choices_needed"),
    "grouping": ("Grouper", "Grouping", "home_of"),
    "grouping_metrics": (
        "GroupingMetrics", "GroupingReport", "load_imbalance", "measure", "replication_factor",
    ),
    "key_grouping": ("KeyGrouping",),
    "pdstream": ("PdStream", "PdStreamGrouper", "probability_table"),
    "pkg": ("PKG",),
    "shuffle_grouping": ("ShuffleGrouping",),
    "wchoices": ("WChoices",),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(importlib.import_module(f"skewless.routing.{module}"), name)
    raise AttributeError(f"module 'skewless.routing' has no attribute {name!r}")
