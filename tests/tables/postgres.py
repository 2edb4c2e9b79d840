"""A PostgreSQL server on loopback, with a database in a temporary folder."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 120


@dataclass(frozen=True)
class Postgres:
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://localhost:{self.port}/postgres?user=skewless"

    def ask(self, sql: str) -> list[list[str]]:
        """What psql prints, as rows of text; times are in UTC."""
        command = ["psql", "-h", "localhost", "-p", str(self.port), "-U", "skewless", "-X", "-q"]
        done = subprocess.run(
            [*command, "-v", "ON_ERROR_STOP=1", "--csv", "-t", "-c", sql, "postgres"],
            env=os.environ | {"PGTZ": "UTC"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return list(csv.reader(io.StringIO(done.stdout)))


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server of a user that is not root, which it refuses; it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="skewless-postgres-"))
    user = {"user": "nobody", "group": "nogroup"} if os.getuid() == 0 else {}
    if user:
        shutil.chown(folder, **user)
    data = folder / "data"
    make = ["initdb", "-D", str(data), "-U", "skewless", "-A", "trust", "-E", "UTF8", "-N"]
    subprocess.run(make, cwd=folder, check=True, capture_output=True, **user)
    port = _free_port()
    own = ["-c", f"unix_socket_directories={folder}", "-c", "listen_addresses=localhost"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            ["postgres", "-D", str(data), "-p", str(port), *own],
            cwd=folder,
            stdout=log,
            stderr=log,
            **user,
        )
    try:
        _wait_for(port, server, folder / "log")
        yield Postgres(port)
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown
        server.wait(PATIENCE_S)
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while subprocess.run(
        ["psql", "-h", "localhost", "-p", str(port), "-U", "skewless", "-c", "", "postgres"],
        capture_output=True,
        check=False,
    ).returncode:
        ended = server.poll() is not None or time.monotonic() > deadline
        assert not ended, f"no server: {log.read_text()}"
        time.sleep(0.05)
