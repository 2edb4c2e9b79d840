"""A Kafka broker on loopback, in a process of its own: one node that is its own controller.

It can be killed and started again on the same folder and ports, as after a crash. `benchmarks/`
uses it, too.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.kafka.jars import broker_jars

PATIENCE_S = 60
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=1000
file.delete.delay.ms=100
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """Formatted when it is made; it listens between `start` and `stop` or `kill`."""

    def __init__(self, folder: Path, memory: str = "512m", settings: str = "") -> None:
        self._folder, self._memory = folder, memory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        ports = {"port": self.port, "controller": free_port()}
        text = (SETTINGS + settings).format(folder=folder, **ports)
        self._settings.write_text(text, encoding="utf-8")
        name = b"\0" + uuid.uuid4().bytes[1:]  # so that it does not begin with a dash
        cluster = base64.urlsafe_b64encode(name).decode().rstrip("=")
        command = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
        subprocess.run(self._java(*command), check=True, capture_output=True, timeout=PATIENCE_S)

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _java(self, *command: str) -> list[str]:
        return ["java", f"-Xmx{self._memory}", "-cp", os.pathsep.join(broker_jars()), *command]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._settings)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self._folder / "broker.log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"the broker does not start:\n{said}")

    def _answers(self) -> bool:
        try:
            return bool(self.admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: as a machine that is switched off, but for what the kernel still writes."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE_S)
        self._process = None

    def create(self, topic: str, partitions: int = 2, **settings: str) -> str:
        new = NewTopic(topic, partitions, 1, config=settings)
        admin = self.admin  # it must live until it has its answer
        admin.create_topics([new])[topic].result(PATIENCE_S)
        return topic

    def delete(self, topic: str) -> None:
        admin = self.admin
        admin.delete_topics([topic])[topic].result(PATIENCE_S)


@contextmanager
def running_broker(memory: str = "512m", settings: str = "") -> Iterator[Broker]:
    """A broker in a temporary folder, which is gone in the end."""
    with tempfile.TemporaryDirectory(prefix="skewless-kafka-") as folder:
        broker = Broker(Path(folder), memory, settings)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()
