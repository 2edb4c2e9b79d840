"""The examples in docstrings hold. Those that need Spark are marked to be skipped there."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import skewless

MODULES = ["skewless", *(m.name for m in pkgutil.walk_packages(skewless.__path__, "skewless."))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


def test_there_are_examples() -> None:
    found = {
        test.name
        for name in MODULES
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
        if test.examples
    }
    public = {"skewless.conditions.band", "skewless.durations.parse_duration_us"}
    public |= {f"skewless.spark.arguments.{n}.{n}" for n in ("join", "join3", "aggregate")}
    assert public <= found
