"""How three streams are joined; the result is the same. Importing this does not load kernels."""

from skewless.operators.three_way.strategies.auto import AutoThree
from skewless.operators.three_way.strategies.base import RunningStrategy, ThreeStrategy
from skewless.operators.three_way.strategies.tree import Tree
from skewless.operators.three_way.strategies.trijoin import TriJoin

__all__ = ["AutoThree", "RunningStrategy", "ThreeStrategy", "Tree", "TriJoin"]
