"""What happened, batch by batch: `sk.history(checkpoint)`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skewless.engine.report import SUMMARY, BatchReport
from skewless.errors import StateError
from skewless.sql_types import sql_type, sql_value
from skewless.state.commits import QUERY_FILE, read_checked
from skewless.state.files import STATE_FOLDER, Folder, qualify
from skewless.state.history import read_reports
from skewless.state.recovery import newest_whole
from skewless.state.stores.locations import check_location
from skewless.state.stores.settings import Settings

# What a report says besides its fields, for who asks by SQL.
MORE = dict.fromkeys(SUMMARY, "long") | {"busiest_over_mean": "double"}


class History(list[BatchReport]):
    """The reports of the committed batches, oldest first."""

    def to_json(self) -> str:
        """All reports as a JSON array."""
        return json.dumps([report.to_json() for report in self])

    def toDF(self, session: Any) -> Any:
        """All reports as a DataFrame of a SparkSession, one row per batch, instances and heavy keys
        nested."""
        rows = [sql_value(BatchReport, report.to_json(), MORE) for report in self]
        return session.createDataFrame(rows, sql_type(BatchReport, MORE)[len("struct<") : -1])


def history(checkpoint: str | Folder, settings: Mapping[str, str] | None = None) -> History:
    """The reports of a query's batches, by its checkpoint location. `settings` are Hadoop's, as
    Spark has them, for a store that takes more to be reached than what the environment says:
    ``{"fs.s3a.endpoint": …}``.

    >>> for report in sk.history("ckpt"):                                  # doctest: +SKIP
    ...     print(report.batch_id, report.matches, report.busiest_over_mean)
    """
    folder = state_folder(checkpoint, settings)
    last = newest_whole(folder)
    if last is None:
        return History()
    return History(BatchReport.from_json(r) for r in read_reports(folder, last.batch_id))


def state_folder(checkpoint: str | Folder, settings: Mapping[str, str] | None = None) -> Folder:
    """The state folder of a checkpoint; an error if there is none."""
    if isinstance(checkpoint, Folder):
        folder = checkpoint
    else:
        check_location("checkpoint", str(checkpoint))
        root = f"{qualify(str(checkpoint))}/{STATE_FOLDER}"
        folder = Folder(root, settings=Settings.of(settings or {}))
    if folder.size("query.json") is None:
        where = folder.root.removesuffix(f"/{STATE_FOLDER}")
        raise StateError(
            f"{where} is not the checkpoint of a skewless query: "
            f"there is no {folder.path('query.json')}"
        )
    return folder


def describe_query(checkpoint: str) -> dict[str, Any]:
    """What the query of a checkpoint joins, as recorded when it first started."""
    return read_checked(state_folder(checkpoint), QUERY_FILE)
