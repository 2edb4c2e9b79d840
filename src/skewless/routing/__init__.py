"""Who works on which rows: one strategy per file, each a frozen configuration."""

from skewless.routing.base import Routing, slot_bounds
from skewless.routing.broadcast import Broadcast
from skewless.routing.contrand import ContRand
from skewless.routing.hash import Hash

__all__ = ["Broadcast", "ContRand", "Hash", "Routing", "slot_bounds"]
