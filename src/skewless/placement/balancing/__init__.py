"""Who moves what, and why: one strategy per file, each a frozen configuration."""

from skewless.placement.balancing.auto import Auto
from skewless.placement.balancing.base import Balancing
from skewless.placement.balancing.fastjoin import FastJoin
from skewless.placement.balancing.lsstream import LSStream
from skewless.placement.balancing.none import NoBalancing

__all__ = ["Auto", "Balancing", "FastJoin", "LSStream", "NoBalancing"]
