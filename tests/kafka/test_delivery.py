"""Staged results to a real broker: every row once, whoever delivers it how often."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.errors import ArgumentError, CheckpointInUseError, DeliveryError
from skewless.kafka import clients, delivery
from skewless.kafka.clients import Marker, PartClient
from skewless.kafka.delivery import KafkaDeliverer, PartsTask, prefix_of
from skewless.kafka.options import client_settings
from skewless.kafka.rows import hand_over
from skewless.state.commits import Commit, Delivery, Staged
from skewless.state.files import Folder
from skewless.state.identity import query_id
from tests.crashes import CrashError, crash_at
from tests.kafka.broker import Broker, free_port, running_broker
from tests.kafka.reading import Record, read_all
from tests.spark.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Staging:
    """A checkpoint with some files to deliver."""

    def __init__(self, root: Path, broker: Broker, topic: str | None, **settings: str) -> None:
        self.folder = Folder(str(root), epoch=1)
        self.own(1)
        options = {"kafka.bootstrap.servers": broker.servers}
        options |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
        self.deliverer = KafkaDeliverer(client_settings(options), topic)
        self.to = topic or ""

    def own(self, epoch: int) -> None:
        self.folder = Folder(self.folder.root, epoch=epoch)
        self.folder.make("owner")
        self.folder.write(f"owner/{epoch:012d}.json", b"{}")

    def commit(self, batch_id: int, *parts: pa.Table) -> Commit:
        staged = []
        for number, table in enumerate(parts):
            name = f"{batch_id}-{number}.parquet"
            pq.write_table(table, f"{self.folder.root}/{name}")
            staged.append((Staged(name, self.folder.size(name) or 0),))
        deliver = Delivery(self.to, tuple(staged))
        return Commit(batch_id, {}, epoch=self.folder.epoch, deliver=deliver)

    def deliver(self, commit: Commit) -> None:
        self.deliverer.deliver(self.folder, commit)

    def task(self, commit: Commit) -> PartsTask:
        marker = Marker(commit.epoch, commit.batch_id)
        assert commit.deliver is not None
        return PartsTask(
            self.folder,
            query_id(self.folder),
            marker,
            commit.deliver.parts,
            self.to,
            self.deliverer._settings,
        )


def rows(begin: int, count: int = 10) -> pa.Table:
    numbers = range(begin, begin + count)
    return pa.table({"key": [f"k{n % 7}" for n in numbers], "value": [f"v{n}" for n in numbers]})


@pytest.fixture(autouse=True)
def _clients_of_one_test() -> Iterator[None]:
    yield
    clients.forget("")


@pytest.fixture
def staging(tmp_path: Path, kafka_broker: Broker, topic: str) -> Staging:
    return Staging(tmp_path, kafka_broker, topic)


def values(broker: Broker, topic: str, isolation: str = "read_committed") -> Counter[str]:
    found = read_all(broker.servers, [topic], isolation)
    return Counter((record.value or b"").decode() for record in found)


def once(*begins: int) -> Counter[str]:
    return Counter(f"v{n}" for begin in begins for n in range(begin, begin + 10))


def test_rows_are_there_once(staging: Staging, kafka_broker: Broker, topic: str) -> None:
    first = staging.commit(0, rows(0), rows(10))
    for _ in range(3):
        staging.deliver(first)
        assert values(kafka_broker, topic) == once(0, 10)
    staging.deliver(staging.commit(1, rows(20)))
    assert values(kafka_broker, topic) == once(0, 10, 20)


@pytest.mark.parametrize("visit", [1, 2])
@pytest.mark.parametrize("point", ["delivery.produced", "delivery.one"])
def test_what_was_begun_is_ended(
    staging: Staging, kafka_broker: Broker, topic: str, point: str, visit: int
) -> None:
    """The process ends in the midst of it; the next one has no clients yet."""
    staging.deliver(staging.commit(0, rows(0), rows(10)))
    second = staging.commit(1, rows(20), rows(30))
    with pytest.raises(CrashError), crash_at(point, visit):
        staging.deliver(second)
    clients._clients.clear()
    staging.deliver(second)
    assert values(kafka_broker, topic) == once(0, 10, 20, 30)


def test_readers_without_isolation_see_what_was_aborted(
    staging: Staging, kafka_broker: Broker, topic: str
) -> None:
    """Which is why readers have to ask for committed rows; and the test above can fail."""
    commit = staging.commit(0, rows(0))
    with pytest.raises(CrashError), crash_at("delivery.produced"):
        staging.deliver(commit)
    [client] = clients._clients.values()
    client.producer.flush()
    clients._clients.clear()
    staging.deliver(commit)
    assert values(kafka_broker, topic, "read_uncommitted") == once(0, 0)
    assert values(kafka_broker, topic) == once(0)


def test_two_at_the_same_time(staging: Staging, kafka_broker: Broker, topic: str) -> None:
    """A task and its repetition: one of them is fenced, and finds the marker of the other."""
    staging.deliver(staging.commit(0, rows(0)))
    task = staging.task(staging.commit(1, rows(10, 30_000)))
    script = "import pickle, sys\ntask = pickle.load(sys.stdin.buffer)\nprint(task(0), flush=True)"
    others = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": f"{ROOT}:{ROOT}/src", "PATH": ""},
        )
        for _ in range(2)
    ]
    told: list[bytes] = []
    threads = [
        threading.Thread(target=lambda o=other: told.append(o.communicate(pickle.dumps(task))[0]))
        for other in others
    ]
    for thread in threads:
        thread.start()
    mine = task(0)
    for thread in threads:
        thread.join()
    delivered = sorted([mine, *(int(text) for text in told)])
    assert delivered == [0, 0, 30_000]
    expected = once(0) + Counter(f"v{n}" for n in range(10, 30_010))
    assert values(kafka_broker, topic) == expected


def test_a_client_that_was_fenced_is_replaced(
    staging: Staging, kafka_broker: Broker, topic: str
) -> None:
    staging.deliver(staging.commit(0, rows(0)))
    name = f"{prefix_of(query_id(staging.folder))}0"
    PartClient(staging.deliverer._settings, name)  # as in another process
    staging.deliver(staging.commit(1, rows(10)))
    assert values(kafka_broker, topic) == once(0, 10)


def test_a_client_with_settings_of_before_is_replaced(
    staging: Staging, kafka_broker: Broker, topic: str
) -> None:
    """A worker keeps its clients when a query ends. Started again in the same session, it may be
    told of other brokers or of another password."""
    staging.deliver(staging.commit(0, rows(0)))
    former = staging.deliverer._settings
    staging.deliverer._settings = former | {"client.id": "another"}
    staging.deliver(staging.commit(1, rows(10)))
    [client] = clients._clients.values()
    assert client.settings == staging.deliverer._settings != former
    assert values(kafka_broker, topic) == once(0, 10)


def test_after_a_rollback_batches_come_again(
    staging: Staging, kafka_broker: Broker, topic: str
) -> None:
    for batch_id in range(3):
        staging.deliver(staging.commit(batch_id, rows(10 * batch_id)))
    staging.own(3)
    staging.deliver(staging.commit(1, rows(100)))
    assert values(kafka_broker, topic) == once(0, 10, 20, 100)


def test_a_driver_of_before_delivers_nothing(
    staging: Staging, kafka_broker: Broker, topic: str
) -> None:
    old = staging.commit(1, rows(0))
    former = staging.folder
    staging.own(2)
    with pytest.raises(CheckpointInUseError, match="another query has taken over"):
        staging.deliverer.deliver(former, old)
    assert values(kafka_broker, topic) == Counter()


def test_a_checkpoint_that_is_older_than_what_was_delivered(staging: Staging) -> None:
    staging.own(5)
    staging.deliver(staging.commit(7, rows(0)))
    restored = Folder(f"{staging.folder.root}/copy", epoch=2)
    restored.make("owner")
    restored.write("owner/000000000002.json", b"{}")
    restored.write("identity", query_id(staging.folder).encode())
    staging.folder = restored
    with pytest.raises(DeliveryError, match=r"has the results of epoch 5, batch 7 .* older copy"):
        staging.deliver(staging.commit(3, rows(0)))


def test_all_columns(tmp_path: Path, kafka_broker: Broker) -> None:
    topics = [kafka_broker.create(f"{name}-{uuid.uuid4().hex[:8]}", 3) for name in "ab"]
    staging = Staging(tmp_path, kafka_broker, None)
    headers = [[{"key": "h", "value": b"1"}], None, []]
    table = pa.table(
        {
            "topic": [topics[0], topics[1], topics[0]],
            "key": pa.array([b"a", None, b"\xff"], pa.binary()),
            "value": pa.array(["x", None, "z"]),
            "headers": pa.array(headers, HEADERS),
            "partition": pa.array([2, 1, 0], pa.int32()),
        }
    )
    staging.deliver(staging.commit(0, table))
    staging.deliver(staging.commit(0, table))
    found = sorted(read_all(kafka_broker.servers, topics), key=lambda r: (r.topic, r.partition))
    assert found == [
        Record(topics[0], 0, b"\xff", b"z", ()),
        Record(topics[0], 2, b"a", b"x", (("h", b"1"),)),
        Record(topics[1], 1, None, None, ()),
    ]


def test_a_broker_that_is_killed_and_comes_back(
    staging: Staging, kafka_broker: Broker, topic: str
) -> None:
    """It is away when rows are handed over: they wait for it."""
    staging.deliver(staging.commit(0, rows(0)))
    kafka_broker.kill()
    back = threading.Timer(1.0, kafka_broker.start)
    back.start()
    staging.deliver(staging.commit(1, rows(10), rows(20)))
    back.join()
    assert values(kafka_broker, topic) == once(0, 10, 20)


def test_what_kafka_does_not_take_waits(
    tmp_path: Path, kafka_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "ATTEMPTS", 2)
    staging = Staging(tmp_path, kafka_broker, topic)
    large = pa.table({"value": ["v0", "x" * 2_000_000]})
    commit = staging.commit(0, large)
    with pytest.raises(DeliveryError, match=r"batch 0 to 127.0.0.1:\d+: .*too large.*wait in"):
        staging.deliver(commit)
    assert values(kafka_broker, topic) == Counter()
    far = pa.table({"value": ["v0", "v1"], "partition": pa.array([0, 99], pa.int32())})
    told = rf"a row for partition 99 of {topic} was not taken \(.*[Uu]nknown partition"
    with pytest.raises(DeliveryError, match=told):
        staging.deliver(staging.commit(0, far))
    assert values(kafka_broker, topic) == Counter()


def test_a_broker_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "ASK_S", 1.0)
    nobody = f"127.0.0.1:{free_port()}"
    deliverer = KafkaDeliverer(client_settings({"kafka.bootstrap.servers": nobody}), "t")
    with pytest.raises(ArgumentError, match=rf"`kafka.bootstrap.servers` .*received '{nobody}'"):
        deliverer.check()


def test_a_topic_that_is_not_there_is_named(kafka_broker: Broker) -> None:
    settings: Any = client_settings({"kafka.bootstrap.servers": kafka_broker.servers})
    with pytest.raises(ArgumentError, match=r"`topic` must be a topic of 127.*received 'nosuch'"):
        KafkaDeliverer(settings, "nosuch").check()


def test_a_transaction_that_brokers_do_not_allow_is_refused_at_once(
    kafka_broker: Broker, topic: str
) -> None:
    """Not when the first results are committed."""
    options = {"kafka.bootstrap.servers": kafka_broker.servers}
    KafkaDeliverer(client_settings(options), topic).check()
    options |= {"kafka.transaction.timeout.ms": "3600000"}
    with pytest.raises(ArgumentError, match=r"`kafka.transaction.timeout.ms` must be at most tran"):
        KafkaDeliverer(client_settings(options), topic).check()


@pytest.mark.parametrize("names", [1, delivery.CHECK_NAMES])
def test_queries_that_start_in_the_same_moment(
    kafka_broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, names: int
) -> None:
    """They begin to be producers of one name, and do not stand in each other's way."""
    monkeypatch.setattr(delivery, "CHECK_NAMES", names)
    settings = client_settings({"kafka.bootstrap.servers": kafka_broker.servers})
    together = threading.Barrier(8)

    def start(_: int) -> None:
        together.wait()
        KafkaDeliverer(settings, topic).check()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(start, range(8))) == [None] * 8


def test_brokers_without_transactions_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single broker with the settings of many."""
    monkeypatch.setattr(delivery, "ASK_S", 5.0)
    with running_broker(settings="\ntransaction.state.log.replication.factor=3\n") as broker:
        settings = client_settings({"kafka.bootstrap.servers": broker.servers})
        with pytest.raises(ArgumentError, match=r"begin transactions.* A single broker needs"):
            KafkaDeliverer(settings, broker.create("t")).check()


def test_a_transaction_that_takes_too_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers abort it. With more time, what is left is delivered."""

    def slow(*arguments: Any) -> None:
        hand_over(*arguments)
        time.sleep(4.0)

    monkeypatch.setattr(delivery, "ATTEMPTS", 1)
    monkeypatch.setattr(delivery, "hand_over", slow)
    impatient = "\ntransaction.abort.timed.out.transaction.cleanup.interval.ms=200\n"
    with running_broker(settings=impatient) as broker:
        staging = Staging(tmp_path, broker, broker.create("t"), transaction_timeout_ms="1000")
        commit = staging.commit(0, rows(0))
        with pytest.raises(DeliveryError, match=r"may take 1 s: .* raise kafka\.transaction\.time"):
            staging.deliver(commit)
        assert values(broker, "t") == Counter()
        patient = Staging(tmp_path, broker, "t", transaction_timeout_ms="60000")
        patient.deliver(commit)
        assert values(broker, "t") == once(0)
        clients.forget("")
