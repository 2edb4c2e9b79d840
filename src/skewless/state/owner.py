"""One running query per checkpoint: is the one that had it last still alive?

On a disk of this machine the operating system's lock on a file says so at once, and ends with its
process however that dies. Elsewhere a running query rewrites a small file every few seconds, and
who wants to start looks whether it changes: no clocks are compared. One that was stopped says so in
that file. All this only spares queries each other's company: that two of them do no harm is seen to
by their epochs (`state/epochs.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from skewless.errors import CheckpointInUseError, StateAccessError
from skewless.state.epochs import beat_file, newest_epoch, note, noted, who_claimed
from skewless.state.files import Folder

WAIT_S = 30.0  # for a query of this process that is ending
BEAT_S = 5.0
LOCK = "lock"
LOOK_S = 4 * BEAT_S  # without a sign of life, until another query counts as gone

log = logging.getLogger("skewless")

_holders: dict[str, Any] = {}  # the queries of this process that hold a checkpoint, by its path
_held: set[str] = set()  # the checkpoints on remote stores that this process holds
_guard = threading.Lock()


def held_here() -> list[str]:
    """The state folders of the queries that run in this process, in the order of their starts."""
    return [path.removesuffix(f"/{LOCK}") for path in list(_holders)]


class CheckpointLock:
    """Held from the start of a query to its end."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._path = folder.path(LOCK)
        self._descriptor: int | None = None
        self._is_held = False
        self._heart: Heart | None = None

    def acquire(self) -> None:
        """Take the checkpoint, unless a query is alive that has it. A query of this process that
        was stopped a moment ago may still be finishing its batch: that is waited for, a running one
        is not."""
        self._folder.check()
        deadline = time.monotonic() + WAIT_S
        while True:
            ending = self._is_ending()  # asked first: what lets go in between is then free to take
            if self._try():
                break
            if not ending or time.monotonic() > deadline:
                raise self._refusal(self._holder())
            time.sleep(0.02)
        try:
            self._look()
        except BaseException:
            self.release()
            raise

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
        if self._folder.is_local:
            self._is_held = self._lock()
        else:
            with _guard:
                self._is_held = self._path not in _held
                _held.add(self._path)
        return self._is_held

    def _lock(self) -> bool:
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
        """Who holds the lock, as well as one can tell."""
        claim = who_claimed(self._folder, newest_epoch(self._folder))
        if not self._folder.is_local:
            return str(claim)
        with contextlib.suppress(OSError):
            process = self._folder.read("lock").decode(errors="replace").strip()
            return str(claim) if process == str(claim.process) else f"process {process}"
        return "process unknown"

    def _refusal(self, holder: str) -> CheckpointInUseError:
        return CheckpointInUseError(
            f"another query ({holder}) is running on {self._folder.root}. "
            "Stop it first, or give this query a checkpointLocation of its own."
        )

    def _look(self) -> None:
        """Wait for a sign of life of whoever had the checkpoint last, where nothing else tells."""
        epoch = newest_epoch(self._folder)
        claim = who_claimed(self._folder, epoch)
        told_by_lock = self._folder.is_local and claim.is_of_this_machine
        if not epoch or told_by_lock or claim.is_of_this_process or claim.is_surely_gone:
            return
        before = noted(self._folder, beat_file(epoch))
        if has_ended(before):
            return
        log.warning(
            "%s was last used by another query (%s): looking for %g s whether it is alive",
            self._folder.root,
            claim,
            LOOK_S,
        )
        deadline = time.monotonic() + LOOK_S
        while time.monotonic() < deadline:
            time.sleep(BEAT_S / 5)
            newest = newest_epoch(self._folder)
            now = noted(self._folder, beat_file(epoch))
            if newest == epoch and has_ended(now):
                return
            if newest != epoch or now != before:
                raise self._refusal(str(who_claimed(self._folder, newest)))

    def keep_alive(self, epoch: int) -> None:
        """Give signs of life, from now on until the end."""
        self._heart = Heart(self._folder, epoch)

    def release(self) -> None:
        if not self._is_held:
            return
        self._is_held = False
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        else:
            with _guard:
                _held.discard(self._path)

    def release_after(self, query: Any, close: Callable[[], None]) -> None:
        """Release when a streaming query has ended, for whatever reason, and `close` has returned:
        it waits for a batch that is still being worked on."""
        if self._is_held:
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


def has_ended(sign: dict[str, object]) -> bool:
    """Whether a sign of life is the last one."""
    return bool(sign.get("ended"))


class Heart:
    """Rewrites a file every few seconds, as long as its process lives."""

    def __init__(self, folder: Folder, epoch: int) -> None:
        self._folder, self._name = folder, beat_file(epoch)
        self._beats = 0
        self._stopped = threading.Event()
        self._beat()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def _go_on(self) -> None:
        while not self._stopped.wait(BEAT_S):
            with contextlib.suppress(Exception):  # the store may be away for a while
                self._beat()

    def _beat(self) -> None:
        self._beats += 1
        note(self._folder, self._name, {"beats": self._beats})

    def stop(self) -> None:
        """Say that this was the last one."""
        atexit.unregister(self.stop)
        self._stopped.set()
        self._thread.join(BEAT_S)
        if not self._thread.is_alive():
            with contextlib.suppress(Exception):  # then the next query has to look for a while
                note(self._folder, self._name, {"beats": self._beats, "ended": True})
