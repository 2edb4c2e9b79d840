"""The instance of each row of a stream: one strategy per file, each a frozen configuration."""

from skewless.placement.grouping.base import Grouper, Grouping
from skewless.placement.grouping.batchaware import BatchAware, BatchAwareGrouper
from skewless.placement.grouping.dagreedy import DAGreedy
from skewless.placement.grouping.dalton import Dalton
from skewless.placement.grouping.dchoices import DChoices, choices_needed
from skewless.placement.grouping.hashing import home_of
from skewless.placement.grouping.key_grouping import KeyGrouping
from skewless.placement.grouping.metrics import (
    GroupingMetrics,
    GroupingReport,
    load_imbalance,
    measure,
    replication_factor,
)
from skewless.placement.grouping.pdstream import PdStream, PdStreamGrouper, probability_table
from skewless.placement.grouping.pkg import PKG
from skewless.placement.grouping.shuffle_grouping import ShuffleGrouping
from skewless.placement.grouping.wchoices import WChoices

__all__ = [
    "PKG",
    "BatchAware",
    "BatchAwareGrouper",
    "DAGreedy",
    "DChoices",
    "Dalton",
    "Grouper",
    "Grouping",
    "GroupingMetrics",
    "GroupingReport",
    "KeyGrouping",
    "PdStream",
    "PdStreamGrouper",
    "ShuffleGrouping",
    "WChoices",
    "choices_needed",
    "home_of",
    "load_imbalance",
    "measure",
    "probability_table",
    "replication_factor",
]
