"""Where a query's files lie, and how their stores are reached: as Spark itself would.

Settings are Hadoop's, as the session has them. Options ``skewless.store.<setting>`` of a writer
come before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from skewless.errors import ArgumentError
from skewless.spark.interpreter import is_remote
from skewless.state.files import STATE_FOLDER, Folder, qualify
from skewless.state.stores import settings_for
from skewless.state.stores.locations import VOLUMES, check_location, scheme_of
from skewless.state.stores.settings import Lookup

CHECKPOINT = "checkpointLocation"
OPTION = "skewless.store."
DEFAULT_FS = "fs.defaultFS"


@dataclass(frozen=True)
class Stores:
    """The stores of a session. `get` is asked for settings by name. `elsewhere` is whether another
    process opens them than the one that names them."""

    get: Lookup
    elsewhere: bool = False

    @staticmethod
    def of(session: SparkSession, options: Mapping[str, Any] | None = None) -> Stores:
        """Those that a session reaches, with the options of a writer."""
        own = {
            key[len(OPTION) :]: str(value)
            for key, value in (options or {}).items()
            if is_store_option(key)
        }
        remote = is_remote(session)
        asked = _connect_lookup(session) if remote else _hadoop_lookup(session)
        return Stores(lambda name: own[name] if name in own else asked(name), remote)

    def locate(self, argument: str, location: str) -> str:
        """A location as an absolute path or URI."""
        check_location(argument, location)
        if self.elsewhere and not scheme_of(location) and not location.startswith("/"):
            accepted = (
                "a URI or an absolute path: under Spark Connect it is the server that opens it, "
                "whose working folder is another"
            )
            raise ArgumentError(argument, location, accepted)
        default = ""
        if not scheme_of(location) or location.startswith("hdfs:"):
            default = self.get(DEFAULT_FS) or ""
        try:
            root = qualify(location, default).rstrip("/") or "/"
            check_location(argument, root)  # the default file system may be none that is known
        except ArgumentError as error:
            raise ArgumentError(argument, error.received, error.accepted) from None
        return root

    def state_folder(self, checkpoint: str, *others: str) -> Folder:
        """The state folder of a checkpoint, with the settings that some others need, too."""
        return self.folder(f"{self.locate(CHECKPOINT, checkpoint)}/{STATE_FOLDER}", *others)

    def folder(self, root: str, *others: str) -> Folder:
        """A folder, with the settings that it and some others need."""
        return Folder(root, settings=settings_for((root, *others), self.get))


def is_store_option(key: str) -> bool:
    """Whether an option of a writer is a setting of a store."""
    return key.lower().startswith(f"{OPTION}fs.")


def as_spark_names(folder: Folder, given: str) -> str:
    """The state folder of a checkpoint as Spark is to be told of it. What lies on a local disk is
    not to be looked for in Spark's default file system; what has another name there keeps it."""
    if folder.is_local and scheme_of(given) in ("", "file") and not given.startswith(VOLUMES):
        return f"file://{folder.root}"
    return f"{given.rstrip('/')}/{STATE_FOLDER}"


def _hadoop_lookup(session: SparkSession) -> Lookup:
    """What Spark's own reads and writes go by: Hadoop's configuration files, `spark.hadoop.*`, and
    what was set in the session."""
    conf = session._jsparkSession.sessionState().newHadoopConf()
    return lambda name: _text(conf.get(name))


def _connect_lookup(session: SparkSession) -> Lookup:
    """Under Spark Connect nobody tells what Hadoop's configuration files say."""

    def get(name: str) -> str | None:
        for key in (name, f"spark.hadoop.{name}"):
            value = session.conf.get(key, None)
            if value is not None:
                return value
        return None

    return get


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
