"""Packets on Spark: its plan brings each to where the driver would."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from skewless.arrays.types import HASH_MAX
from skewless.engine.exchange import Homes, Packet
from skewless.engine.operator import Arrival
from skewless.errors import StateAccessError
from skewless.spark import executor
from skewless.spark.exchange import (
    PACKET_NAMES,
    _as_row,
    merge_function,
    of_one_attempt,
    report_function,
)
from skewless.spark.executor import _consistent, _place_of

HOMES = Homes(
    {"join-1": ([0, 2, 1, 2], 3), "join-2": ([1, 0], 2)},
    {"join-1": {7: [2], HASH_MAX: [1, 0]}, "join-2": {}},
)


@pytest.mark.parametrize("homes", [HOMES, Homes(HOMES.of)], ids=["apart", "none apart"])
def test_spark_finds_where_packets_go(spark: SparkSession, homes: Homes) -> None:
    packets = [
        Packet(operator, "left", "left", bucket, deal, key, b"")
        for operator, buckets in (("join-1", 4), ("join-2", 2))
        for bucket in range(buckets)
        for deal in (0, 1, 31, 63)
        for key in (None, 7, 8, HASH_MAX)
    ]
    rows = [_as_row(packet, packets=True).to_pylist()[0] for packet in packets]
    schema = "json string, operator string, input string, side string, bucket int, deal int, "
    frame = spark.createDataFrame(
        [tuple(row[name] for name in PACKET_NAMES) for row in rows],
        schema + "key string, data binary",
    )
    found = [place for (place,) in frame.select(_place_of(homes)).collect()]
    assert found == [homes.place(packet) for packet in packets]


# A host is lost while rows are exchanged ----------------------------------------------------------

PACKETS = [Packet("join-1", "left", "left", bucket, 0, None, b"x") for bucket in range(4)]


class Telling:
    """Tells which buckets came to a task."""

    def __call__(self, packets: Iterable[Packet]) -> Iterator[Arrival]:
        yield Arrival("left", detail={"buckets": [packet.bucket for packet in packets]})


def sent() -> list[pa.RecordBatch]:
    """What an attempt of a task sends: its report, and packets."""

    def work(number: int) -> Iterator[Arrival | Packet]:
        yield Arrival("left", rows=number)
        yield from PACKETS

    return list(report_function(work, packets=True)(iter([pa.record_batch({"id": [8]})])))


def put_together(*batches: pa.RecordBatch) -> list[dict[str, Any]]:
    found = merge_function(Telling())(iter(batches))  # type: ignore[arg-type]
    return [json.loads(text) for batch in found for text in batch.column(0).to_pylist()]


class Sending:
    """A DataFrame that gives something else each time it is collected."""

    def __init__(self, *times: list[dict[str, Any]]) -> None:
        self._times = list(times)

    def collect(self) -> list[tuple[str]]:
        return [(json.dumps(one),) for one in self._times.pop(0)]


def test_all_packets_are_of_the_attempts_that_reported() -> None:
    report, *packets = sent()
    told = [*put_together(report, *packets[:2]), *put_together(*packets[2:])]
    found = [Arrival.from_json(one) for one in of_one_attempt(told) or []]
    assert [arrival.rows for arrival in found] == [0, 8, 0]
    assert [arrival.detail for arrival in found] == [{"buckets": [0, 1]}, {}, {"buckets": [2, 3]}]


def test_what_was_sent_again_in_between_is_put_together_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task has read what the first attempt of another sent, the other what the second did."""
    (_, *first), (report, *again) = sent(), sent()
    mixed = [*put_together(report, *again[:2]), *put_together(*first[2:])]
    whole = [*put_together(report, *again[:2]), *put_together(*again[2:])]
    assert of_one_attempt(mixed) is None
    told = _consistent(Sending(mixed, whole))  # type: ignore[arg-type]
    assert [one["detail"] for one in told if one["detail"]] == [
        {"buckets": [0, 1]},
        {"buckets": [2, 3]},
    ]
    assert "rows were sent again" in caplog.text
    monkeypatch.setattr(executor, "EXCHANGE_TRIES", 2)
    with pytest.raises(StateAccessError, match="hosts were lost 2 times"):
        _consistent(Sending(mixed, mixed))  # type: ignore[arg-type]
