"""What every strategy is: a frozen, picklable value with all hooks, quick to import."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from skewless.operators.similarity.strategies import (
    S3J,
    AutoSimilarity,
    BruteForce,
    ClusterJoin,
    SimilarityStrategy,
)
from tests.operators.similarity.test_properties import STRATEGIES

SRC = Path(__file__).resolve().parents[3] / "src"


def test_the_base_class_is_none() -> None:
    with pytest.raises(TypeError, match="abstract"):
        SimilarityStrategy()  # type: ignore[abstract]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_strategies_are_values(strategy: SimilarityStrategy) -> None:
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert repr(strategy).startswith(type(strategy).__name__)
    with pytest.raises(FrozenInstanceError):
        strategy.seed = 3  # type: ignore[attr-defined]


def test_what_strategies_do_differently() -> None:
    assert [s.counts_inner for s in (AutoSimilarity(), BruteForce())] == [True, False]
    assert [s.forms_worksets for s in (S3J(), ClusterJoin())] == [True, False]
    assert AutoSimilarity().limit(10**6, 2) == 500
    assert AutoSimilarity().limit(10**6, 384) == 61
    assert AutoSimilarity().limit(1, 2) == 1
    assert [S3J().partitions_for(n) for n in (1, 5)] == [1, 5]
    assert [S3J(partitions=7).partitions_for(n) for n in (1, 5)] == [7, 7]
    assert ClusterJoin().partitions_for(5) == 500
    assert [s.divides_further for s in (S3J(), S3J(partitions=7), ClusterJoin())] == [
        True, False, False,
    ]  # fmt: skip


def test_ways_of_storing_have_different_names() -> None:
    """A checkpoint of one is refused by the others."""
    strategies = (
        S3J(), S3J(partitions=3), S3J(partitions=4), ClusterJoin(3), ClusterJoin(4),
        AutoSimilarity(), BruteForce(),
    )  # fmt: skip
    assert len({s.workset_rule for s in strategies}) == len(strategies)


@pytest.mark.skipif(sys.platform == "win32", reason="paths")
def test_importing_strategies_compiles_nothing() -> None:
    code = (
        "import sys; sys.modules['skewless'] = p = type(sys)('skewless'); "
        f"p.__path__ = [{str(SRC / 'skewless')!r}]; "
        "import skewless.operators.similarity.strategies; "
        "print('numba' in sys.modules, 'pyspark' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout.split() == ["False", "False"], run.stderr
