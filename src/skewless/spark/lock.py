"""One running query per checkpoint.

The lock is the operating system's on a file in the state folder, so it ends with its process
however that dies. Remote stores have no such lock; there Spark's own log refuses the second writer.
"""

from __future__ import annotations

import fcntl
import os
import threading
from typing import Any

from skewless.errors import CheckpointInUseError
from skewless.state.files import Folder


class CheckpointLock:
    """Held from the start of a query to its end."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        if not self._folder.is_local:
            return
        self._folder.make()
        path = self._folder.path("lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 100).decode(errors="replace").strip()
            os.close(descriptor)
            raise CheckpointInUseError(
                f"another query (process {holder or 'unknown'}) is running on {self._folder.root}. "
                "Stop it first, or give this query a checkpointLocation of its own."
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def release_after(self, query: Any) -> None:
        """Release when a streaming query has ended, for whatever reason."""
        if self._descriptor is not None:
            threading.Thread(target=self._wait, args=(query,), daemon=True).start()

    def _wait(self, query: Any) -> None:
        try:
            query.awaitTermination()
        except Exception:
            pass
        finally:
            self.release()
