"""Stands before the S3 server: counts requests, and makes the store slow and failing when told to.

    python store_proxy.py LISTEN_HOST:PORT SERVER_PORT CONTROL_SOCKET

Requests go on as they are, so that their signatures hold. The control socket takes one line,
``{"delay_ms": 100, "failing": 0.05}``, all of it optional, and answers with the counts so far. Half
of the requests that fail are refused with 503, as S3 does when it is busy; the others are done by
the server, but the answer is lost: whoever repeats them meets his own first try.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from asyncio import StreamReader, StreamWriter
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote

PIECE = 1 << 18
END = b"\r\n\r\n"
BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>busy</Message></Error>"
GONE = (ConnectionError, asyncio.IncompleteReadError)


@dataclass(frozen=True)
class Head:
    """The first line and the headers of a request or an answer."""

    first: str
    headers: list[tuple[str, str]]

    @classmethod
    async def read(cls, reader: StreamReader) -> Head:
        first, *lines = (await reader.readuntil(END)).decode("latin-1").rstrip().split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return cls(first, [(name, value.strip()) for name, _, value in pairs])

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def without(self, *names: str) -> bytes:
        kept = [f"{key}: {value}" for key, value in self.headers if key.lower() not in names]
        return "\r\n".join([self.first, *kept]).encode("latin-1") + END


def kind_of(request: Head) -> tuple[str, str]:
    """What is done, and whether with state of ours or with other files."""
    method, target, _ = request.first.split(" ", 2)
    listing = method == "GET" and ("list-type=" in target or "prefix=" in target)
    part = "state" if "/skewless/" in unquote(target) + "/" else "other"
    return "LIST" if listing else method, part


@dataclass
class Proxy:
    server_port: int
    delay_s: float = 0.0
    failing: float = 0.0
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    async def control(self, reader: StreamReader, writer: StreamWriter) -> None:
        told = json.loads(await reader.readline())
        self.delay_s = told.get("delay_ms", 1000 * self.delay_s) / 1000
        self.failing = told.get("failing", self.failing)
        counts = [[*key, number] for key, number in sorted(self.counts.items())]
        writer.write(json.dumps(counts).encode() + b"\n")
        await writer.drain()
        writer.close()

    async def client(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Requests of one connection, one after the other."""
        with suppress(*GONE):
            while await self._request(reader, writer):
                pass
        writer.close()

    async def _request(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Whether the connection can be used again."""
        head = await Head.read(reader)
        self.counts[writer.get_extra_info("peername")[0], *kind_of(head)] += 1
        await asyncio.sleep(self.delay_s)
        luck = self.chance.random()
        if head.get("expect"):
            writer.write(b"HTTP/1.1 100 Continue" + END)
        if luck < self.failing / 2:
            await copy_body(head, reader, None)
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\n")
            writer.write(f"Content-Length: {len(BUSY)}\r\n\r\n".encode())
            writer.write(b"" if head.first.startswith("HEAD ") else BUSY)
            await writer.drain()
            return True
        answer, upstream = await asyncio.open_connection("127.0.0.1", self.server_port)
        try:
            upstream.write(head.without("expect"))
            await copy_body(head, reader, upstream)
            lost = luck < self.failing
            return await self._answer(head, answer, None if lost else writer)
        finally:
            upstream.close()

    async def _answer(self, head: Head, answer: StreamReader, writer: StreamWriter | None) -> bool:
        told = await Head.read(answer)
        while told.first.split()[1] == "100":
            told = await Head.read(answer)
        if writer is not None:
            writer.write(told.without("connection"))
        if not head.first.startswith("HEAD "):
            await copy_body(told, answer, writer)
        return writer is not None


async def copy_body(head: Head, reader: StreamReader, writer: StreamWriter | None) -> None:
    """What follows a head, to its end; without a writer it is only read."""
    if head.get("transfer-encoding").lower() == "chunked":
        size = 1
        while size:
            line = await reader.readuntil(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            if writer is not None:
                writer.write(line)
            await copy(size + 2, reader, writer)
    else:
        await copy(int(head.get("content-length") or 0), reader, writer)
    if writer is not None:
        await writer.drain()


async def copy(size: int, reader: StreamReader, writer: StreamWriter | None) -> None:
    while size:
        piece = await reader.read(min(size, PIECE))
        if not piece:
            raise ConnectionError("ended in the middle")
        size -= len(piece)
        if writer is not None:
            writer.write(piece)
            await writer.drain()


async def main(listen: str, server_port: str, control: str) -> None:
    proxy = Proxy(int(server_port))
    host, _, port = listen.partition(":")
    steering = await asyncio.start_unix_server(proxy.control, control)
    serving = await asyncio.start_server(proxy.client, host, int(port), limit=PIECE, backlog=1000)
    async with steering, serving:
        await serving.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
