"""Who works on which rows: one strategy per file, each a frozen configuration.

A `Routing` divides the work of a join's batch; a `Grouping` chooses the instance of each tuple of a
stream.
"""

from skewless.routing.base import Routing, slot_bounds
from skewless.routing.batchaware import BatchAware, BatchAwareGrouper
from skewless.routing.broadcast import Broadcast
from skewless.routing.contrand import ContRand
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
from skewless.routing.hash import Hash
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
