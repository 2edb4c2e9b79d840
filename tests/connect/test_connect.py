"""Queries of clients that only ask a Spark Connect server: every operator, composed, started again,
and with server or client killed in the midst."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pytest

from tests.connect.server import ROOT, connect_server, environment, free_port
from tests.documents import DOCS, snippets
from tests.spark.killed import a_query, last_commit
from tests.spark.processes import kill_tree, wait_until
from tests.spark.query_kits import JOIN, JOIN_AGGREGATE, KITS, QueryKit, add_batches, close
from tests.spark.support import (
    TIMESTAMP,
    FileStream,
    assert_same,
    at,
    file_stream,
    read_parquet,
)

pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CLIENT = "tests.connect.client"


@dataclass
class Work:
    """A query in a folder of its own, asked for by one client after another."""

    kit: QueryKit
    folder: Path
    streams: Sequence[FileStream]

    @staticmethod
    def of(kit: QueryKit, folder: Path) -> Work:
        folder.mkdir()
        return Work(kit, folder, kit.sources(folder))

    def asked(self, number: int) -> dict[str, Any]:
        ways = list(self.kit.ways)
        return a_query(self.kit, self.folder, ways[number % len(ways)], number % 2 == 1)

    def check(self) -> None:
        expected = self.kit.expected(self.streams)
        assert expected.total() > self.kit.more_than // 2
        assert_same(read_parquet(self.folder / "out"), expected)


@dataclass(frozen=True)
class Clients:
    """Those of a server on a port."""

    folder: Path
    port: int

    @contextmanager
    def start(self, works: Sequence[Work], number: int, **more: Any) -> Iterator[psutil.Popen]:
        """A client that asks for some queries, one after another."""
        config = {
            "folder": str(self.folder),
            "url": f"sc://127.0.0.1:{self.port}",
            "queries": [work.asked(number) for work in works],
        }
        with self.log.open("ab") as out:
            process = psutil.Popen(
                [sys.executable, "-m", CLIENT, json.dumps(config | more)],
                env=environment(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill_tree(process)

    def run(self, works: Sequence[Work], number: int = 0) -> None:
        """All of it, to the end."""
        with self.start(works, number) as process:
            code = process.wait(1500)
        assert code == 0, self.log.read_text()[-4000:]

    @property
    def log(self) -> Path:
        return self.folder / "client.log"


def test_every_query_goes_on_where_it_ended(tmp_path: Path) -> None:
    works = [Work.of(kit, tmp_path / str(n)) for n, kit in enumerate(KITS.values())]
    clients = Clients(tmp_path, free_port())
    with connect_server(tmp_path, clients.port):
        for work in works:
            add_batches(work.streams, 3)
        clients.run(works)
        for work in works:
            add_batches(work.streams, 1)
            close(work.streams)
        clients.run(works, number=1)
    for work in works:
        work.check()


@pytest.mark.parametrize(
    "point", ["instance.worked", "commit.begun", "commit.written", "publish.one"]
)
def test_a_server_that_is_killed(tmp_path: Path, point: str) -> None:
    works = [Work.of(kit, tmp_path / kit.name) for kit in (JOIN, JOIN_AGGREGATE)]
    clients = Clients(tmp_path, free_port())
    for number, work in enumerate(works):
        add_batches(work.streams, 4)
        marker = work.folder / "checkpoint" / "skewless" / "here"
        pause = {"SKEWLESS_PAUSE_AT": f"{point}=here"}
        with (
            connect_server(tmp_path, clients.port, **pause) as server,
            clients.start([work], number) as client,
        ):
            wait_until(marker.exists, client, clients.log)
            kill_tree(server)
        marker.unlink()
    with connect_server(tmp_path, clients.port):
        for work in works:
            close(work.streams)
        clients.run(works, number=2)
    for work in works:
        work.check()


def test_a_client_that_is_killed(tmp_path: Path) -> None:
    """Its query may go on for a while, and keeps its checkpoint for so long."""
    work = Work.of(JOIN, tmp_path / "join")
    clients = Clients(tmp_path, free_port())
    add_batches(work.streams, 12)
    with connect_server(tmp_path, clients.port):
        with clients.start([work], 0) as client:
            wait_until(lambda: last_commit(work.folder) >= 1, client, clients.log)
            kill_tree(client)
        deadline = time.monotonic() + 300
        while last_commit(work.folder) < 11 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert last_commit(work.folder) == 11, "the query did not go on at the server"
        close(work.streams)
        clients.run([work], number=1)
    work.check()


def test_what_the_document_shows(tmp_path: Path) -> None:
    """The snippet of docs/connect.md, as a program of its own."""
    columns = {"rides": ("at", "ride", 1), "offers": ("seen", "offer", 7)}
    for stream, (time_name, number, apart_s) in columns.items():
        cells, times = [f"c{i % 3}" for i in range(60)], [at(i * apart_s) for i in range(60)]
        rows = {"cell": cells, time_name: pa.array(times, TIMESTAMP), number: list(range(60))}
        file_stream(tmp_path / stream, [pa.table(rows)])
    [snippet] = snippets(DOCS / "connect.md")
    port = free_port()
    program = snippet.source.replace("localhost:15002", f"127.0.0.1:{port}")
    program = program.replace('"/data/', f'"{tmp_path}/')
    program += "query.processAllAvailable()\nquery.stop()\n"
    with connect_server(tmp_path, port):
        command = [sys.executable, "-c", program]
        run = subprocess.run(
            command, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert run.returncode == 0, run.stderr[-4000:]
    pairs = {
        (ride, offer)
        for ride in range(60)
        for offer in range(60)
        if ride % 3 == offer % 3 and abs(ride - offer * 7) <= 30
    }
    found = duckdb.sql(f"SELECT ride, offer FROM '{tmp_path}/out/*.parquet'").fetchall()
    assert len(found) == len(pairs) > 0 and set(found) == pairs
