"""Spark's own log of a query, written without detours where it lies on a local disk.

For every file of its checkpoint, Spark's default there starts a process that sets permissions: two
or three in a batch of each log, which together take longer than a small batch. Its other way of
writing the same files does not. Which one is taken is a setting of the session at the time when a
query opens its logs: it is set until then, and then is what it was.
"""

from __future__ import annotations

import threading
import weakref

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
STREAMING = "org.apache.spark.sql.execution.streaming"
MANAGER = "FileSystemBasedCheckpointFileManager"
PLACES = (f"{STREAMING}.checkpointing.{MANAGER}", f"{STREAMING}.{MANAGER}")  # by Spark's version

_lock = threading.Lock()
_opening: weakref.WeakKeyDictionary[SparkSession, int] = weakref.WeakKeyDictionary()


class QuickLog:
    """The setting, as long as one query has not opened its logs. Several may be about to."""

    def __init__(self, session: SparkSession) -> None:
        self._session: SparkSession | None = session
        with _lock:
            others = _opening.get(session, 0)
            if not others:
                name = None if session.conf.get(SETTING, None) else _class(session)
                if name is None:
                    self._session = None  # it is the user's own choice, or not to be had
                    return
                session.conf.set(SETTING, name)
            _opening[session] = others + 1

    def opened(self) -> None:
        """Let the session be what it was; once."""
        with _lock:
            session, self._session = self._session, None
            if session is None:
                return
            _opening[session] -= 1
            if not _opening[session]:
                session.conf.unset(SETTING)


def _class(session: SparkSession) -> str | None:
    """What it is called in this version of Spark."""
    for name in PLACES:
        try:
            session._jvm.org.apache.spark.util.Utils.classForName(name, True, False)  # type: ignore[union-attr]
        except Py4JError:
            continue
        return name
    return None
