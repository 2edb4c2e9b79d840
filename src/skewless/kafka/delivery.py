"""Exactly once to Kafka: staged results go there in transactions, after the commit that lists them.

One transaction a part: its rows, and a marker that says of which commit they are. Who delivers a
part makes itself the only one who can, and then looks at the marker. So a part that is delivered
again, by a task that ran twice or by the next driver, is found to be there.
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from skewless import failpoints
from skewless.errors import ArgumentError, CheckpointInUseError, DeliveryError
from skewless.kafka.clients import Marker, RefusedError, StuckError, client, forget, kafka
from skewless.kafka.options import PREFIX, SERVERS, TIMEOUT, WITHOUT
from skewless.kafka.rows import first_topic, hand_over, staged_rows
from skewless.state.commits import Commit, Staged
from skewless.state.epochs import newest_epoch
from skewless.state.files import Folder
from skewless.state.identity import IDENTITY, query_id

ATTEMPTS = 5
ASK_S = 20.0
NAMES = "skewless-"  # what names of parts begin with
CHECK_NAMES = 64
APPEAR_S = 10.0  # a topic that a broker makes because somebody asked for it

log = logging.getLogger("skewless")


@dataclass(frozen=True)
class PartsTask:
    """The parts of one commit. It is sent to the tasks, each of which delivers one."""

    folder: Folder
    id: str
    marker: Marker
    parts: tuple[tuple[Staged, ...], ...]
    topic: str  # empty if rows have their own
    settings: dict[str, str] = field(repr=False)

    def __call__(self, number: int) -> int:
        """Deliver one part, unless it is there; the rows that it has."""
        name = f"{prefix_of(self.id)}{number}"
        library = kafka()
        for attempt in range(1, ATTEMPTS + 1):
            self._check_owner()
            begun_s = time.monotonic()
            try:
                return self._deliver(name, self.parts[number], told=attempt > 1)
            except (library.KafkaException, StuckError, RefusedError) as error:
                # Whatever it was: what was begun is ended by the next try, or the marker is there.
                forget(name)
                self._check_owner()
                if attempt == ATTEMPTS:
                    raise self._failed(error, time.monotonic() - begun_s) from error
                log.warning("part %d of %s is tried again: %s", number, self.marker, _reason(error))
        raise AssertionError("there is a last attempt")

    def _deliver(self, name: str, files: tuple[Staged, ...], *, told: bool = False) -> int:
        portions = (rows for rows in staged_rows(self.folder, files) if rows.num_rows)
        first = next(portions, None)
        if first is None:
            return 0
        here, topic = client(self.settings, name, told=told), first_topic(first, self.topic)
        marker = here.marker(topic)
        if here.is_stale:
            here = client(self.settings, name, told=told)
            marker = here.marker(topic)
        if self._is_there(marker):
            return 0
        delivered = 0
        with here.transaction(self.marker, topic):
            for rows in chain([first], portions):
                hand_over(here.producer, rows, self.topic)
                delivered += int(rows.num_rows)
            failpoints.hit("delivery.produced", self.folder.root, self.marker.batch_id)
        failpoints.hit("delivery.one", self.folder.root, self.marker.batch_id)
        return delivered

    def _is_there(self, found: Marker | None) -> bool:
        if found is not None and found > self.marker:
            self._check_owner()
            raise DeliveryError(
                f"{self.settings[SERVERS]} has the results of {found} of this query, while its "
                f"checkpoint {self.folder.root} is at {self.marker}: was it restored from an "
                f"older copy? Remove {self.folder.path(IDENTITY)} to deliver from there on; rows "
                "of batches that are repeated are then in Kafka twice."
            )
        return found == self.marker

    def _check_owner(self) -> None:
        """A driver whose checkpoint was taken over must not keep the next one from its work."""
        if newest_epoch(self.folder) != self.folder.epoch:
            raise CheckpointInUseError(
                f"another query has taken over {self.folder.root}: it delivers what is left."
            )

    def _failed(self, error: Exception, took_s: float) -> DeliveryError:
        limit_s, hint = int(self.settings[TIMEOUT]) / 1000, ""
        if took_s >= limit_s:
            hint = (
                f" It took {took_s:.0f} s, and a transaction may take {limit_s:g} s: if brokers "
                f"did answer, raise {PREFIX}{TIMEOUT}."
            )
        return DeliveryError(
            f"cannot deliver the results of batch {self.marker.batch_id} to "
            f"{self.settings[SERVERS]}: {_reason(error)}. They are committed and wait in "
            f"{self.folder.root}: start the query again when Kafka takes them.{hint}"
        )


def _reason(error: Exception) -> str:
    told = error.args[0]
    return told if isinstance(told, str) else str(told.str())


def prefix_of(known_as: str) -> str:
    """What the names of a query's transactional ids and consumer groups begin with."""
    return f"{NAMES}{known_as}-"


class KafkaDeliverer:
    """Delivers the results of a query, in this process, one part after the other."""

    def __init__(self, settings: dict[str, str], topic: str | None, tasks: int = 1) -> None:
        self._settings, self._topic, self.tasks = settings, topic, tasks
        self._prefix = ""

    @property
    def to(self) -> str:
        """The topic, empty where rows have their own."""
        return self._topic or ""

    def check(self) -> None:
        """Whether there is a broker, the topic, and leave to deliver: asked before anything is
        changed."""
        self._check_topic()
        self._check_transactions()

    def _check_topic(self) -> None:
        library = kafka()
        servers = self._settings[SERVERS]
        said: list[str] = []  # of single brokers: why they do not answer
        own: dict[str, Any] = {"log_level": "0", "error_cb": lambda error: said.append(error.str())}
        asking = library.Producer(self._settings | own)
        try:
            topics = asking.list_topics(timeout=ASK_S).topics
            if self._topic is not None and self._topic not in topics:
                topics = asking.list_topics(self._topic, APPEAR_S).topics
        except library.KafkaException as error:
            asking.poll(0)  # now it tells of errors
            accepted = f"brokers that answer ({'; '.join([error.args[0].str(), *said[:1]])})"
            raise ArgumentError(f"{PREFIX}{SERVERS}", servers, accepted) from error
        if self._topic is not None and (
            self._topic not in topics or topics[self._topic].error is not None
        ):
            accepted = f"a topic of {servers}: create it, with as many partitions as it should have"
            raise ArgumentError("topic", self._topic, accepted)

    def _check_transactions(self) -> None:
        """Begin to be someone who delivers: what is in the way of that would show when the first
        results are committed, and wait. Nobody delivers under these names. Of a name, brokers serve
        one after the other, and they keep each for days: hence some, and not one per start."""
        library = kafka()
        name = f"{NAMES}check-{random.randrange(CHECK_NAMES)}"
        own = {"transactional.id": name, "log_level": "0"}
        try:
            library.Producer(self._settings | own).init_transactions(ASK_S)
        except library.KafkaException as error:
            told, servers = error.args[0], self._settings[SERVERS]
            if told.code() == library.KafkaError.INVALID_TRANSACTION_TIMEOUT:
                accepted = f"at most transaction.max.timeout.ms of {servers}"
                raise ArgumentError(
                    f"{PREFIX}{TIMEOUT}", self._settings[TIMEOUT], accepted
                ) from error
            accepted = (
                f"brokers that let this user begin transactions, of ids with the prefix {NAMES} "
                f"({told.str()}). A single broker needs "
                f"transaction.state.log.replication.factor=1; {WITHOUT}"
            )
            raise ArgumentError(f"{PREFIX}{SERVERS}", servers, accepted) from error

    def deliver(self, folder: Folder, commit: Commit) -> None:
        assert commit.deliver is not None
        known_as = query_id(folder)
        self._prefix = prefix_of(known_as)
        marker = Marker(commit.epoch, commit.batch_id)
        parts, topic = commit.deliver.parts, commit.deliver.to
        self._run(PartsTask(folder, known_as, marker, parts, topic, self._settings))

    def _run(self, task: PartsTask) -> None:
        for number in range(len(task.parts)):
            task(number)

    def close(self) -> None:
        if self._prefix:
            forget(self._prefix)
