"""Who moves what, and why: one strategy per file, each a frozen configuration."""

from skewless.balancing.auto import Auto
from skewless.balancing.base import Balancing
from skewless.balancing.fastjoin import FastJoin
from skewless.balancing.lsstream import LSStream
from skewless.balancing.none import NoBalancing

__all__ = ["Auto", "Balancing", "FastJoin", "LSStream", "NoBalancing"]
