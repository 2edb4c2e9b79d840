"""What happened, batch by batch: `sk.history(checkpoint)`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skewless.errors import StateError
from skewless.model import BatchReport
from skewless.state.commits import QUERY_FILE, CommitLog, read_checked
from skewless.state.files import Folder, qualify
from skewless.state.history import read_reports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE_FOLDER = "skewless"


class History(list[BatchReport]):
    """The reports of the committed batches, oldest first."""

    def to_json(self) -> str:
        """All reports as a JSON array."""
        return json.dumps([report.to_json() for report in self])

    def toDF(self, session: SparkSession) -> DataFrame:
        """All reports as a DataFrame, one row per batch, instances and heavy keys nested."""
        from skewless.spark.frames import history_frame

        return history_frame(session, self)


def history(checkpoint: str) -> History:
    """The reports of a query's batches, by its checkpoint location.

    >>> for report in sk.history("ckpt"):                                  # doctest: +SKIP
    ...     print(report.batch_id, report.matches, report.busiest_over_mean)
    """
    folder = state_folder(checkpoint)
    last = CommitLog(folder).latest()
    return History(read_reports(folder, last.batch_id) if last is not None else [])


def state_folder(checkpoint: str) -> Folder:
    """The state folder of a checkpoint; an error if there is none."""
    folder = Folder(f"{qualify(str(checkpoint))}/{STATE_FOLDER}")
    if folder.size("query.json") is None:
        raise StateError(
            f"{checkpoint} is not the checkpoint of a skewless query: "
            f"there is no {folder.path('query.json')}"
        )
    return folder


def describe_query(checkpoint: str) -> dict[str, Any]:
    """What the query of a checkpoint joins, as recorded when it first started."""
    return read_checked(state_folder(checkpoint), QUERY_FILE)
