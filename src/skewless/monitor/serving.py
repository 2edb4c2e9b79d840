"""What the servers of this package have in common: a thread that serves until it is stopped."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from skewless.errors import ArgumentError


class Serving(ABC):
    """A server in a thread of this process, until it is stopped."""

    _thread: threading.Thread

    @abstractmethod
    def stop(self) -> None:
        """End it. Stopping it again does nothing."""

    def wait(self) -> None:
        """Wait until it is stopped, or interrupted."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def check_port(port: int) -> None:
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65_535:
        raise ArgumentError("port", port, "a number from 0 (any free port) to 65535")


def not_free(host: str, port: int, error: OSError) -> ArgumentError:
    """What to say of an address that cannot be taken."""
    if isinstance(error, socket.gaierror):
        return ArgumentError("host", host, "a name or address of this machine")
    accepted = f"an address and port that are free, or port 0 for any ({error.strerror})"
    return ArgumentError("port", f"{host}:{port}", accepted)


def in_address(host: str) -> str:
    """A host as addresses have it."""
    return f"[{host}]" if ":" in host else host
