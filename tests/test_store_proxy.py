"""The proxy that makes the cluster's store slow and failing: what it passes on, counts and loses.
The server behind it is a few lines here."""

from __future__ import annotations

import asyncio
import json
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.cluster.store_proxy import Head, Proxy, copy_body

Trial = Callable[[int, Proxy], Coroutine[Any, Any, None]]


class Body:
    """What a copied body is written to."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        pass


async def request(
    port: int, method: str, target: str, body: bytes = b"", more: str = ""
) -> tuple[int, bytes]:
    """Status and body of one answer; 0 if the connection ends without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\n{more}"
    if "chunked" not in more:
        head += f"Content-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"\r\n" + body)
    try:
        told = await Head.read(reader)
        while told.first.split()[1] == "100":
            told = await Head.read(reader)
        taken = Body()
        if method != "HEAD":
            await copy_body(told, reader, taken)  # type: ignore[arg-type]
        return int(told.first.split()[1]), taken.data
    except asyncio.IncompleteReadError:
        return 0, b""
    finally:
        writer.close()


def with_proxy(trial: Trial) -> list[tuple[str, bytes]]:
    """A trial on a proxy; the first line and body of every request that reached the server."""
    reached: list[tuple[str, bytes]] = []

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        head, taken = await Head.read(reader), Body()
        await copy_body(head, reader, taken)  # type: ignore[arg-type]
        reached.append((head.first, taken.data))
        assert not head.get("expect")
        size = 5
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close".encode())
        writer.write(b"\r\n\r\n" + (b"" if head.first.startswith("HEAD ") else b"hello"))
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        proxy = Proxy(server.sockets[0].getsockname()[1])
        serving = await asyncio.start_server(proxy.client, "127.0.0.1", 0)
        async with server, serving:
            await trial(serving.sockets[0].getsockname()[1], proxy)

    asyncio.run(run())
    return reached


def test_requests_go_through_and_are_counted() -> None:
    async def trial(port: int, proxy: Proxy) -> None:
        assert await request(port, "PUT", "/b/skewless/x", b"1" * 300_000) == (200, b"hello")
        expecting = "Expect: 100-continue\r\n"
        assert await request(port, "PUT", "/b/y", b"22", expecting) == (200, b"hello")
        chunks = b"3\r\nabc\r\n0\r\n\r\n"
        chunked = "Transfer-Encoding: chunked\r\n"
        assert await request(port, "PUT", "/b/z", chunks, chunked) == (200, b"hello")
        assert await request(port, "HEAD", "/b/y") == (200, b"")
        assert await request(port, "GET", "/b?list-type=2&prefix=c%2Fskewless") == (200, b"hello")
        assert proxy.counts == {
            ("127.0.0.1", "PUT", "state"): 1,
            ("127.0.0.1", "PUT", "other"): 2,
            ("127.0.0.1", "HEAD", "other"): 1,
            ("127.0.0.1", "LIST", "state"): 1,
        }

    reached = with_proxy(trial)
    assert [len(body) for _, body in reached] == [300_000, 2, 13, 0, 0]


def test_failing_requests_are_refused_or_lose_their_answers() -> None:
    """What is refused never reached the server; what lost its answer did."""
    statuses: list[int] = []

    async def trial(port: int, proxy: Proxy) -> None:
        proxy.failing = 0.6
        statuses.extend([(await request(port, "PUT", "/b/x", b"1"))[0] for _ in range(60)])
        proxy.failing = 0.0
        assert (await request(port, "PUT", "/b/x", b"1"))[0] == 200

    reached = with_proxy(trial)
    refused, lost = statuses.count(503), statuses.count(0)
    assert refused > 5 and lost > 5 and refused + lost + statuses.count(200) == 60
    assert len(reached) == 61 - refused


def test_control_socket(tmp_path: Path) -> None:
    """It sets what it is told to, keeps the rest, and answers with the counts."""

    def steer(words: dict[str, float]) -> Any:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(tmp_path / "control"))
            control.sendall(json.dumps(words).encode() + b"\n")
            with control.makefile() as answer:
                return json.loads(answer.read())

    async def trial(port: int, proxy: Proxy) -> None:
        async with await asyncio.start_unix_server(proxy.control, tmp_path / "control"):
            assert await asyncio.to_thread(steer, {"delay_ms": 30, "failing": 0.25}) == []
            assert (proxy.delay_s, proxy.failing) == (0.03, 0.25)
            await asyncio.to_thread(steer, {"failing": 0.0})
            assert (proxy.delay_s, proxy.failing) == (0.03, 0.0)
            await request(port, "GET", "/b/x")
            assert await asyncio.to_thread(steer, {}) == [["127.0.0.1", "GET", "other", 1]]

    with_proxy(trial)
