"""Rows on their way from staged files to a producer, without a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.kafka import rows
from skewless.kafka.rows import first_topic, hand_over, staged_rows
from skewless.state.commits import Staged
from skewless.state.files import Folder

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Producer:
    """Keeps what it is given; a poll has it sent."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []
        self.waiting = 0

    def produce(self, *arguments: Any) -> None:
        self.given.append(arguments)
        self.waiting += 1

    def __len__(self) -> int:
        return self.waiting

    def poll(self, timeout: float) -> None:
        self.waiting = 0


def handed_over(topic: str, /, **columns: pa.Array) -> list[tuple[Any, ...]]:
    producer = Producer()
    hand_over(producer, pa.record_batch(columns), topic)
    return producer.given


def test_values_alone() -> None:
    assert handed_over("t", value=pa.array(["a", None, "ü"])) == [
        ("t", b"a", None, -1),
        ("t", None, None, -1),
        ("t", "ü".encode(), None, -1),
    ]


def test_all_columns() -> None:
    given = handed_over(
        "",
        topic=pa.array(["x", "y"]),
        key=pa.array([b"k", None]),
        value=pa.array([b"v", b"w"]),
        headers=pa.array(
            [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None], HEADERS
        ),
        partition=pa.array([3, None], pa.int32()),
    )
    assert given == [
        ("x", b"v", b"k", 3, None, None, 0, [("h", b"1"), ("h", None)]),
        ("y", b"w", None, -1, None, None, 0, []),
    ]


def test_headers_of_a_slice() -> None:
    lists = [[{"key": str(i), "value": b"x"}] * (i % 3) for i in range(9)]
    batch = pa.record_batch({"value": pa.array(["v"] * 9), "headers": pa.array(lists, HEADERS)})
    producer = Producer()
    hand_over(producer, batch.slice(4, 3), "t")
    assert [call[-1] for call in producer.given] == [
        [(h["key"], h["value"]) for h in some] for some in lists[4:7]
    ]


def test_it_waits_for_what_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PORTION_ROWS", 5)
    producer = Producer()
    most = 0
    for _ in range(10):
        hand_over(producer, pa.record_batch({"value": pa.array(["v"] * 4)}), "t")
        most = max(most, producer.waiting)
    assert most <= 9
    assert len(producer.given) == 40


def test_files_are_read_in_order(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    files = []
    for n in range(3):
        table = pa.table({"value": [f"{n}.{i}" for i in range(4)], "other": [n] * 4})
        pq.write_table(table, tmp_path / f"{n}.parquet")
        files.append(Staged(f"{n}.parquet", (tmp_path / f"{n}.parquet").stat().st_size))
    found = pa.Table.from_batches(staged_rows(folder, files[::-1]))
    assert found.column_names == ["value"]
    assert found.column("value").to_pylist() == [f"{n}.{i}" for n in (2, 1, 0) for i in range(4)]


def test_the_topic_of_a_part() -> None:
    batch = pa.record_batch({"topic": pa.array(["x", "y"]), "value": pa.array(["v", "w"])})
    assert first_topic(batch, "") == "x"
    assert first_topic(batch, "all") == "all"
