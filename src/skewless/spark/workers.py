"""What makes Spark's Python workers quick: said once per process, or around every task."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import socket
import stat
import sys

FREEZING_TASKS = 4
DESCRIPTORS = range(3, 32)  # a worker's connection is among the first things it opens
OLDEST = 2  # the generation of objects that is collected with all others
# glibc's names for what malloc may keep. Larger arrays are rare, and 32 MiB is as far as it goes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES, OWN_MAPPING_BYTES = 128 << 20, 32 << 20

_tasks_run = 0


def begin_task() -> None:
    """Before a task reads anything."""
    set_tcp_nodelay()
    if _tasks_run == 0:
        keep_heap()
    if _between_tasks not in gc.callbacks:
        gc.callbacks.append(_between_tasks)


def end_task() -> None:
    """When a task has told everything."""
    global _tasks_run  # noqa: PLW0603  one count per process is what is meant
    _tasks_run += 1
    if _tasks_run <= FREEZING_TASKS:
        freeze_gc()


def _between_tasks(phase: str, info: dict[str, int]) -> None:
    """The last that runs in a worker before it waits for its next task is Spark's collection of
    all garbage."""
    if phase == "stop" and info["generation"] == OLDEST:
        set_tcp_nodelay()


def set_tcp_nodelay() -> None:
    """Spare each Python task three waits of 40 ms.

    Spark and its Python workers talk over loopback TCP in small writes without TCP_NODELAY: each
    waits for the acknowledgement of the one before, which the kernel delays. Acknowledging what
    came, and not waiting with what goes, takes that time away. The kernel forgets the former with
    the next answer, so it is said at the beginning of a task and again after its end, for what will
    tell the worker of its next task. It has no effect, and is not needed, with
    ``spark.python.unix.domain.socket.enabled``.
    """
    settings = [socket.TCP_NODELAY, getattr(socket, "TCP_QUICKACK", socket.TCP_NODELAY)]
    for descriptor in DESCRIPTORS:
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    for setting in settings:
                        connection.setsockopt(socket.IPPROTO_TCP, setting, 1)


def freeze_gc() -> None:
    """Keep a worker's libraries out of the garbage collector's sight.

    Spark collects garbage in a worker after every task, before the worker can take the next one.
    With Numba loaded that alone takes tens of milliseconds. What a worker's first tasks have loaded
    stays for its life, so it is moved to where the collector does not look.
    """
    gc.freeze()


def keep_heap() -> bool:
    """Keep memory that NumPy has given back, for the next array; whether that could be said.

    By default glibc returns freed arrays of half a megabyte and more to the system, and the kernel
    clears every page of the next one anew: that takes ten times as long as to subtract two such
    arrays from each other. Users' own settings of malloc stay.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # not glibc
        return False
    said = [mallopt(M_MMAP_THRESHOLD, OWN_MAPPING_BYTES), mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)]
    return all(said)
