"""One cluster for all tests in this folder: to start it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import tools
from tests.cluster.machines import Cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if (reason := tools.missing()) is not None:
        pytest.skip(reason)
    with Cluster.start(workers=2) as cluster:
        yield cluster
