"""Which rows are compared, and who does it; the result is the same. One strategy per file."""

from skewless.operators.similarity.strategies.auto import AutoSimilarity
from skewless.operators.similarity.strategies.base import SimilarityStrategy
from skewless.operators.similarity.strategies.bruteforce import BruteForce
from skewless.operators.similarity.strategies.clusterjoin import ClusterJoin
from skewless.operators.similarity.strategies.s3j import S3J

__all__ = ["S3J", "AutoSimilarity", "BruteForce", "ClusterJoin", "SimilarityStrategy"]
