"""From Kafka to Kafka: JSON in two topics, joined, JSON out, as docs/kafka.md shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless as sk
from tests.documents import DOCS, snippets
from tests.kafka.city import City

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def run(city: City, kafka_spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    """Run what the document shows."""
    [snippet] = snippets(DOCS / "kafka.md")
    block = snippet.source.replace("localhost:9092", city.broker.servers)
    block = block.replace('"ckpt"', repr(str(tmp_path / "ckpt")))

    def run(*changes: tuple[str, str]) -> None:
        source = block
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        exec(compile(source, "docs/kafka.md", "exec"), {"sk": sk, "F": F, "spark": kafka_spark})

    return run


def test_json_in_and_out_with_restarts(city: City, run: Callable[..., None]) -> None:
    for _ in range(3):
        city.send(60)
        run()
        assert city.expected()
        assert city.matches() == city.expected()


def test_at_least_once_is_sparks_sink(city: City, run: Callable[..., None]) -> None:
    city.send(60)
    least = '.option("topic", "matches").option("skewless.delivery", "at-least-once")'
    run(('.option("topic", "matches")', least))
    assert city.matches() == city.expected()


def test_a_broker_that_is_killed_in_mid_query(
    city: City, run: Callable[..., None], tmp_path: Path
) -> None:
    """Small batches, so that it is away while records are read and rows are delivered."""
    city.send(400)
    commits = tmp_path / "ckpt" / "skewless" / "commits"
    seen: list[int] = []

    def kill() -> None:
        while not commits.exists() or len(list(commits.iterdir())) < 3:
            time.sleep(0.01)
        seen.append(len(list(commits.iterdir())))
        city.broker.kill()
        city.broker.start()

    away = threading.Thread(target=kill, daemon=True)
    away.start()
    # A batch takes from partitions as it likes: what lies behind must not be late.
    late = ('within="30 seconds"', 'within="30 seconds", late="1 hour"')
    run((".load()", '.option("maxOffsetsPerTrigger", 40).load()'), late)
    away.join()
    assert seen[0] < len(list(commits.iterdir())), "there was more to do"
    assert city.matches() == city.expected()
