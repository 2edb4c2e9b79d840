"""Clients of a Kafka broker that deliver one part each, and what they left word of.

A part has a name: its transactional id, and the consumer group whose offset is its marker. The
marker is written in the transaction of the rows, so that it is there if and only if they are. What
is asked for a second time finds it.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

from skewless.errors import ArgumentError
from skewless.kafka import options

CLIENTS_MAX = 16  # that a process keeps
COMMIT_S = 15.0  # of rows that Kafka has already


def kafka() -> ModuleType:
    """The client library, which is an extra of this package."""
    try:
        import confluent_kafka
    except ImportError as error:
        accepted = f"confluent-kafka, which is not installed: {options.INSTALL}, {options.WITHOUT}"
        raise ArgumentError("format", "kafka", f"used with {accepted}") from error
    return confluent_kafka


class Marker(NamedTuple):
    """The commit that was last delivered: later ones are greater."""

    epoch: int
    batch_id: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, batch {self.batch_id}"

    @staticmethod
    def parse(text: str | None) -> Marker | None:
        """
        >>> Marker.parse(str(Marker(3, 41)))
        Marker(epoch=3, batch_id=41)
        """
        found = re.fullmatch(r"epoch (\d+), batch (\d+)", text or "")
        return Marker(int(found[1]), int(found[2])) if found else None


class StuckError(Exception):
    """The client library gave no answer in time."""


class RefusedError(Exception):
    """Kafka did not take a row, and why."""


class PartClient:
    """Delivers one part after the other, those of one name. Nobody else of that name can, once this
    one is ready: Kafka fences them, and ends what they have begun. If it is `told` what becomes of
    every row, it can say why one was not taken; that takes time, and is for once."""

    def __init__(self, settings: dict[str, str], name: str, *, told: bool = False) -> None:
        library = kafka()
        self.settings, self.is_stale = settings, False
        self._delivered: dict[str, Marker] = {}  # the last one, by topic
        self._refused, self._said, self._is_told = "", "", told
        own: dict[str, Any] = {"transactional.id": name, "error_cb": self._note_error}
        if told:
            own |= {"on_delivery": self._note_refused}
        self.producer: Any = library.Producer({**settings, **own})
        self._patience_s = int(settings[options.TIMEOUT]) / 1000
        # Its only task is to look after an offset: it reads nothing, and is no member of a group.
        group = {"group.id": name, "enable.auto.commit": "false"}
        self._consumer: Any = library.Consumer(
            {**settings, **group, "isolation.level": "read_committed"}
        )
        self._partition = library.TopicPartition
        try:
            self.producer.init_transactions(self._patience_s)
        except library.KafkaException as error:
            self.producer.poll(0)  # now it tells of errors
            if not self._said:
                raise
            raise StuckError(f"{error.args[0].str()} ({self._said})") from error

    def _note_error(self, error: Any) -> None:
        """A connection was lost: librdkafka would send offsets to where nobody listens any more."""
        self.is_stale, self._said = True, self._said or error.str()

    def _note_refused(self, error: Any, row: Any) -> None:
        if error is not None and not self._refused:
            where = f"a row for partition {row.partition()} of {row.topic()}"
            self._refused = f"{where} was not taken ({error.str()})"

    def marker(self, topic: str) -> Marker | None:
        """Of the last part that was delivered; it lies beside an offset of that topic. If that was
        not by this client, then another of its name has fenced it."""
        [found] = self._consumer.committed([self._partition(topic, 0)], self._patience_s)
        marker = Marker.parse(found.metadata)
        self.is_stale |= self._delivered.get(topic, marker) != marker
        return marker

    @contextmanager
    def transaction(self, marker: Marker, topic: str) -> Iterator[None]:
        """What is produced within is there with its marker, or not at all."""
        self.producer.begin_transaction()
        yield
        # All rows first: what is asked of a coordinator that is away may never be answered.
        if self.producer.flush(self._patience_s):
            raise StuckError(f"Kafka did not take all rows within {self._patience_s:g} s")
        place = self._partition(topic, 0, marker.batch_id + 1, str(marker))
        if self._refused:
            raise RefusedError(self._refused)
        self._in_time(lambda: self._commit(place))
        self._delivered[topic] = marker
        self.is_stale |= self._is_told

    def _commit(self, place: Any) -> None:
        group = self._consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction([place], group, self._patience_s)
        self.producer.commit_transaction(self._patience_s)

    def _in_time(self, work: Callable[[], None]) -> None:
        """Do something that may not come back, whatever time it was given: librdkafka forgets about
        offsets if a broker goes away at the wrong moment. Then this client is of no more use."""
        failed: list[BaseException] = []

        def do() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=do, name="skewless-kafka", daemon=True)
        thread.start()
        thread.join(COMMIT_S)
        if thread.is_alive():
            raise StuckError(f"Kafka did not commit within {COMMIT_S:g} s")
        if failed:
            raise failed[0]

    def close(self) -> None:
        """Let go of the connections, which may take a while if nobody answers. What is not
        committed is aborted by whoever comes next."""
        threading.Thread(target=self._close, name="skewless-kafka", daemon=True).start()

    def _close(self) -> None:
        self._consumer.close()
        self.producer.purge()
        del self.producer


_clients: OrderedDict[str, PartClient] = OrderedDict()  # by name; the last one used is the last


def client(settings: dict[str, str], name: str, *, told: bool = False) -> PartClient:
    """The client of a name in this process; to make one takes longer than a small transaction. A
    worker outlives queries, so that there may be one of before, with brokers of before."""
    found = _clients.pop(name, None)
    if found is not None:
        found.producer.poll(0)  # it hears of errors only when it is asked
        if found.is_stale or found.settings != settings:
            found.close()
            found = None
    _clients[name] = found = found or PartClient(settings, name, told=told)
    while len(_clients) > CLIENTS_MAX:
        _clients.popitem(last=False)[1].close()
    return found


def forget(prefix: str) -> None:
    """Close the clients whose names begin so."""
    for name in [name for name in _clients if name.startswith(prefix)]:
        _clients.pop(name).close()
