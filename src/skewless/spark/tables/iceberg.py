"""Iceberg tables: every snapshot says which batch it is of.

Before a batch is written, the head of the table is noted in the checkpoint. When it is repeated,
the snapshots from the head of then to that of now tell whether it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.errors import ArgumentError, StateError
from skewless.spark.sinks import Sink
from skewless.spark.tables.snapshots import Snapshot, has_batch
from skewless.spark.tables.target import Target
from skewless.state.epochs import Ownership
from skewless.state.identity import query_id
from skewless.state.publish import Moves
from skewless.state.tries import NOTE, Try, last_try, note_try

PROPERTY = "snapshot-property."
QUERY, BATCH = "skewless.query", "skewless.batch"
STAGED_ELSEWHERE = ("spark.wap.id", "spark.wap.branch")
_BRANCH = re.compile(r"\.`?branch_([^.`]+)`?$")

Metadata = Callable[[SparkSession, str], DataFrame]
"""Reads what a table tells of itself: "refs" or "snapshots"."""


def parted(name: str) -> tuple[str, str]:
    """The table that a name is of, and its branch.

    >>> parted("lake.db.t"), parted("lake.db.t.branch_audit")
    (('lake.db.t', 'main'), ('lake.db.t', 'audit'))
    """
    found = _BRANCH.search(name)
    return (name, "main") if found is None else (name[: found.start()], found[1])


def of_catalog(table: str) -> Metadata:
    """Of a table of the catalog, which may be cached there."""

    def read(session: SparkSession, what: str) -> DataFrame:
        session.sql(f"REFRESH TABLE {table}")
        return session.table(f"{table}.{what}")

    return read


def of_location(location: str) -> Metadata:
    """Of a table by its name or folder, as `format("iceberg").load` takes it."""
    sign = "#" if "/" in location else "."
    return lambda session, what: session.read.format("iceberg").load(f"{location}{sign}{what}")


class IcebergSink(Sink):
    may_skip = True

    def __init__(
        self, target: Target, ownership: Ownership, metadata: Metadata, branch: str
    ) -> None:
        self._target, self._ownership = target, ownership
        self._metadata, self._branch = metadata, branch

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        folder, session = self._ownership.folder, result.sparkSession
        _refuse_staging(session)
        former, head = last_try(folder), self._head(session)
        now = Try(query_id(folder), batch_id, {"head": head})
        if former and now.repeats(former) and self._is_there(session, former, head):
            return []
        note_try(folder, now)
        marks = {f"{PROPERTY}{QUERY}": now.query, f"{PROPERTY}{BATCH}": batch_id}
        self._target.append(result, marks)
        return []

    def _head(self, session: SparkSession) -> int | None:
        """The snapshot that the branch shows now, None if it has none yet."""
        refs = self._metadata(session, "refs").where(F.col("name") == self._branch)
        found = refs.select("snapshot_id").collect()
        return int(found[0][0]) if found else None

    def _is_there(self, session: SparkSession, former: Try, head: int | None) -> bool:
        told = self._metadata(session, "snapshots").select(
            "snapshot_id", "parent_id", F.col("summary")[QUERY], F.col("summary")[BATCH]
        )
        snapshots = [
            Snapshot(id, parent, None if query is None else (query, int(batch)))
            for id, parent, query, batch in told.collect()
        ]
        found = has_batch(snapshots, head, former.facts["head"], (former.query, former.batch))
        if found is None:
            note = self._ownership.folder.path(NOTE)
            raise StateError(
                f"nobody can tell whether batch {former.batch} was written before the query ended: "
                f"the table's snapshots since {former.facts['head']} were expired. If its rows are "
                f"not in the table, remove {note} and start again: they are then written. Keep "
                "snapshots for longer than a query may stand still."
            )
        return found


def _refuse_staging(session: SparkSession) -> None:
    """Rows that are put aside are in no branch in which one could look for them."""
    for key in STAGED_ELSEWHERE:
        value = session.conf.get(key, None)
        if value is not None:
            accepted = "not set in this session. To write to a branch, name it: table.branch_audit"
            raise ArgumentError(key, value, accepted)
