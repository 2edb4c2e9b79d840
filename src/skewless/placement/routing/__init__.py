"""Fixed divisions of a join's work: one strategy per file, each a frozen configuration."""

from skewless.placement.routing.base import Routing
from skewless.placement.routing.broadcast import Broadcast
from skewless.placement.routing.contrand import ContRand
from skewless.placement.routing.hash import Hash

__all__ = ["Broadcast", "ContRand", "Hash", "Routing"]
