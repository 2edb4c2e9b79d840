"""A Spark cluster with an S3 store, on one machine: every part on a host of its own.

    with Cluster.start(workers=2) as cluster:
        with cluster.driver("program.py", {…}) as driver:
            …

The hosts are `store`, `master`, `driver`, `driver2` and `w1`, `w2` …. Workers have one core and
1 GB. Each host has its own folder for temporary files, so that its local disk can be measured; the
store is a folder, too, and can be read as such. One cluster at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from tests.cluster import tools
from tests.cluster.network import PREFIX, ClusterError, Host, Network, kill

ROOT = Path(__file__).resolve().parents[2]
PROXY = Path(__file__).parent / "store_proxy.py"
BUCKET = "bucket"
USER, PASSWORD = "skewless", "skewless-secret"
STORE_PORT, SERVER_PORT, MASTER_PORT = 9000, 9001, 7077
# Java is started often here, and shares few cores: most of their time would go into compiling.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE_S = 300.0
Requests = Counter[tuple[str, str, str]]  # host, kind, and "state" or "other"


@dataclass
class Cluster:
    """What is running. Parts that are taken away come back by `start_…`."""

    folder: Path
    network: Network
    workers: list[Host] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def start(cls, workers: int) -> Iterator[Cluster]:
        """All of it, ready for drivers. However the block ends, nothing remains; what a killed
        process could not remove, the next start does."""
        if (reason := tools.missing()) is not None:
            raise ClusterError(reason)
        with ExitStack() as stack:
            stack.enter_context(_alone())
            network = stack.enter_context(Network())
            remove_folders()
            folder = Path(tempfile.mkdtemp(prefix=PREFIX))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            cluster = cls(folder, network)
            stack.callback(cluster._stop)
            cluster._start(workers)
            yield cluster

    # Parts ----------------------------------------------------------------------------------------

    def _start(self, workers: int) -> None:
        for name in ("store", "master", "driver", "driver2"):
            self._add(name)
        self.bucket.mkdir(parents=True)
        self.start_store()
        proxy = [sys.executable, str(PROXY), f"{self.host('store').address}:{STORE_PORT}"]
        self._run("proxy", "store", [*proxy, str(SERVER_PORT), str(self._control)])
        wait_until(self._control.exists, "the store's proxy listens", self)
        master = ["--host", self.host("master").address, "--port", str(MASTER_PORT)]
        self._daemon("master", "master", "org.apache.spark.deploy.master.Master", master)
        wait_until(lambda: "New state: ALIVE" in self.log("master"), "a master", self)
        self.workers = [self._add(f"w{number + 1}") for number in range(workers)]
        for host in self.workers:
            self.start_worker(host)
        for host in self.workers:
            self.wait_for_worker(host)

    def _stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _add(self, name: str) -> Host:
        host = self.network.add(name)
        (self.disk(host) / "tmp").mkdir(parents=True)
        return host

    def start_store(self) -> None:
        """The S3 server, with what the folder has."""
        server = [str(tools.server()), "--port", f"127.0.0.1:{SERVER_PORT}", "--quiet"]
        server += ["--access", USER, "--secret", PASSWORD, "posix", str(self.bucket.parent)]
        self._run("store", "store", server)

    def kill_store(self) -> None:
        self._kill("store")

    def start_worker(self, host: Host) -> None:
        words = ["--host", host.address, "--cores", "1", "--memory", "1g"]
        words += ["--work-dir", str(self.disk(host) / "work")]
        words += [f"spark://{self.host('master').address}:{MASTER_PORT}"]
        self._daemon(host.name, host.name, "org.apache.spark.deploy.worker.Worker", words)

    def wait_for_worker(self, host: Host) -> None:
        said = "Successfully registered with master"
        wait_until(lambda: said in self.log(host.name), f"{host.name} is known", self)

    def kill_host(self, host: Host) -> None:
        """Everything that runs on a worker host, at once."""
        kill(host.pids())
        self._kill(host.name)

    def kill_executor(self, host: Host) -> bool:
        """The executor of a host with its Python workers; its worker may start another. Whether
        there was one."""
        executors = [pid for pid in host.pids() if "CoarseGrainedExecutorBackend" in _words(pid)]
        for pid in executors:
            with suppress(psutil.NoSuchProcess):
                below = psutil.Process(pid).children(recursive=True)
                kill([pid, *(process.pid for process in below)])
        return bool(executors)

    def _kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def _daemon(self, name: str, host: str, main_class: str, words: Sequence[str]) -> None:
        start = [str(tools.SPARK / "bin" / "spark-class"), main_class, "--webui-port", "0"]
        self._run(name, host, [*start, *words])

    def _run(self, name: str, host: str, words: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:  # what an earlier one said is past
            self.processes[name] = self._popen(self.host(host), words, log)

    def _popen(self, host: Host, words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            host.command(words),
            cwd=self.disk(host),
            env=self._environment(host),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us; the others we end ourselves
        )

    def _environment(self, host: Host) -> dict[str, str]:
        places = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        disk = self.disk(host)
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(places),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(tools.SPARK),
            "SPARK_LOCAL_IP": host.address,
            "SPARK_LOCAL_DIRS": str(disk / "tmp"),
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",  # they are killed often
            "SPARK_NO_DAEMONIZE": "1",
            "TMPDIR": str(disk / "tmp"),
        }

    # Drivers --------------------------------------------------------------------------------------

    @contextmanager
    def driver(
        self, program: Path, config: dict[str, Any], host: str = "driver"
    ) -> Iterator[Driver]:
        """A Python program that gets a config as one JSON argument, among it the `settings` of its
        session."""
        on, path = self.host(host), self.folder / f"{host}.log"
        settings = self.settings(on) | config.get("settings", {})
        words = [sys.executable, str(program), json.dumps(config | {"settings": settings})]
        with path.open("ab") as log:
            driver = Driver(on, self._popen(on, words, log), path)
        try:
            yield driver
        finally:
            driver.kill()

    def settings(self, driver: Host) -> dict[str, str]:
        """What a session is started with: where the cluster and the store are."""
        jars = os.pathsep.join(map(str, tools.jars()))
        store = {
            "endpoint": f"http://{self.host('store').address}:{STORE_PORT}",
            "endpoint.region": "us-east-1",
            "access.key": USER,
            "secret.key": PASSWORD,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
        }
        return {
            "spark.master": f"spark://{self.host('master').address}:{MASTER_PORT}",
            "spark.driver.host": driver.address,
            "spark.driver.bindAddress": driver.address,
            "spark.driver.memory": "1g",
            "spark.executor.memory": "640m",
            "spark.executor.cores": "1",
            "spark.driver.extraJavaOptions": SHORT_LIVED,
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            "spark.driver.extraClassPath": jars,
            "spark.executor.extraClassPath": jars,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self.disk(driver) / "warehouse"),
            **{f"spark.hadoop.fs.s3a.{name}": value for name, value in store.items()},
        }

    # What there is to see and to break ------------------------------------------------------------

    def host(self, name: str) -> Host:
        return self.network.hosts[name]

    def disk(self, host: Host) -> Path:
        """The folder that stands for a host's local disk."""
        return self.folder / "disks" / host.name

    def disk_bytes(self, host: Host) -> int:
        files = (path for path in (self.disk(host) / "tmp").rglob("*"))
        return sum(_size(path) for path in files)

    @property
    def bucket(self) -> Path:
        """The store's files, as they lie on its disk."""
        return self.folder / "store" / BUCKET

    def uri(self, name: str) -> str:
        return f"s3a://{BUCKET}/{name}"

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def _control(self) -> Path:
        return self.folder / "control"

    def disturb_store(self, *, delay_ms: float = 0.0, failing: float = 0.0) -> None:
        """From now on each request waits, and this share of them fails."""
        self._steer({"delay_ms": delay_ms, "failing": failing})

    def requests(self) -> Requests:
        """Those to the store since the beginning."""
        names = {host.address: name for name, host in self.network.hosts.items()}
        told = self._steer({})
        return Counter({(names[address], kind, part): n for address, kind, part, n in told})

    def _steer(self, words: dict[str, float]) -> Any:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self._control))
            control.sendall(json.dumps(words).encode() + b"\n")
            with control.makefile() as answer:
                return json.loads(answer.read())


@dataclass(frozen=True)
class Driver:
    """A driver's process on its host."""

    host: Host
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """It and its JVM, and whatever else its host runs."""
        kill(self.host.pids())
        self.process.kill()
        self.process.wait()

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        return self.process.wait(patience_s)

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def wait_until(
    condition: Callable[[], bool], what: str, cluster: Cluster, patience_s: float = PATIENCE_S
) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            logs = "\n".join(
                f"{p.name}: {p.read_text()[-800:]}" for p in cluster.folder.glob("*.log")
            )
            raise ClusterError(f"waited in vain for this: {what}\n{logs}")
        time.sleep(0.1)


@contextmanager
def _alone() -> Iterator[None]:
    """Hosts go by their names, so that two clusters would take each other for leftovers."""
    tools.CACHE.mkdir(parents=True, exist_ok=True)
    with (tools.CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError("another cluster runs on this machine: one at a time") from None
        yield


def remove_folders() -> None:
    """Those of earlier runs."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if (folder / "disks").is_dir():
            shutil.rmtree(folder, ignore_errors=True)


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _size(path: Path) -> int:
    try:
        return 0 if path.is_dir() else path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0
