"""One running query per checkpoint.

The lock is the operating system's on a file in the state folder, so it ends with its process
however that dies. Remote stores have no such lock; there Spark's own log refuses the second writer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from skewless.errors import CheckpointInUseError, StateAccessError
from skewless.state.files import Folder

WAIT_S = 30.0

_holders: dict[str, Any] = {}  # the queries of this process that hold a lock, by its path


class CheckpointLock:
    """Held from the start of a query to its end."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.path("lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. A query of this process that was stopped a moment ago may still be
        finishing its batch: that is waited for, a running one is not."""
        if not self._folder.is_local:
            return
        self._folder.make()
        deadline = time.monotonic() + WAIT_S
        while True:
            ending = self._is_ending()  # asked first: what lets go in between is then free to take
            if self._try():
                return
            if not ending or time.monotonic() > deadline:
                raise CheckpointInUseError(
                    f"another query (process {self._holder()}) is running on {self._folder.root}. "
                    "Stop it first, or give this query a checkpointLocation of its own."
                )
            time.sleep(0.02)

    def _is_ending(self) -> bool:
        """Whether a query of this process has ended but not yet let go."""
        query = _holders.get(self._path)
        if query is None:
            return False
        try:
            return not query.isActive
        except Exception:  # its session has ended, and the query with it
            return True

    def _try(self) -> bool:
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StateAccessError(
                f"cannot write {self._path}: {error}. "
                "Give a checkpointLocation that this user may write to."
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        with contextlib.suppress(OSError):  # on a full disk nobody learns who holds the lock
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        self._descriptor = descriptor
        return True

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return self._folder.read("lock").decode(errors="replace").strip() or "unknown"
        return "unknown"

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def release_after(self, query: Any, close: Callable[[], None]) -> None:
        """Release when a streaming query has ended, for whatever reason, and `close` has returned:
        it waits for a batch that is still being worked on."""
        if self._descriptor is not None:
            _holders[self._path] = query
            threading.Thread(target=self._wait, args=(query, close), daemon=True).start()

    def _wait(self, query: Any, close: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(Exception):  # the query's error is its owner's business
                query.awaitTermination()
            close()
        finally:
            self.release()
            if _holders.get(self._path) is query:
                del _holders[self._path]
