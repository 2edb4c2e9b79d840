"""What happened, batch by batch: `sk.history(checkpoint)`."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from skewless.engine.report import BatchReport
from skewless.errors import StateError
from skewless.state.commits import QUERY_FILE, CommitLog, read_checked
from skewless.state.files import STATE_FOLDER, Folder, qualify
from skewless.state.history import read_reports

SCHEMA = """
    batch_id long, rows_left long, rows_right long, late long, null_keys long, null_times long,
    nan_bands long, matches long, duration_ms double, phases_ms map<string, double>,
    state_rows long, state_bytes long, segments long, watermark_us long,
    instances array<struct<instance: long, rows: long, pairs: long, matches: long,
                           late_left: long, late_right: long, time_ms: double,
                           isolated_rows: long, isolated_pairs: long, isolated_ms: double>>,
    heavy_keys array<struct<value: string, share: double>>,
    decisions array<struct<kind: string, subject: string, source: string, target: string,
                           reason: string, accepted: boolean, rows: long>>,
    verdict string, slots map<string, array<double>>,
    keys array<struct<hash: decimal(20, 0), value: string, slot: long, own: boolean>>,
    key_figures map<string, array<double>>, rows_third long, intermediates long,
    comparisons map<string, long>,    busiest_over_mean double
"""


class History(list[BatchReport]):
    """The reports of the committed batches, oldest first."""

    def to_json(self) -> str:
        """All reports as a JSON array."""
        return json.dumps([report.to_json() for report in self])

    def toDF(self, session: Any) -> Any:
        """All reports as a DataFrame of a SparkSession, one row per batch, instances and heavy keys
        nested."""
        rows = [report.to_json() for report in self]
        for row in rows:  # Spark takes no integer for a double
            row["duration_ms"] = float(row["duration_ms"])
            row["busiest_over_mean"] = float(row["busiest_over_mean"])
            for key in row["keys"]:  # nor has it one that holds 64 bits without a sign
                key["hash"] = Decimal(key["hash"])
        return session.createDataFrame(rows, SCHEMA)


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
