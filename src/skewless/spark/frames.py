"""Reports as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from skewless.model import BatchReport

HISTORY_SCHEMA = """
    batch_id long, rows_left long, rows_right long, late long, null_keys long, null_times long,
    nan_bands long, matches long, duration_ms double, phases_ms map<string, double>,
    state_rows long, state_bytes long, segments long, watermark_us long,
    instances array<struct<instance: long, rows: long, pairs: long, matches: long,
                           late_left: long, late_right: long, time_ms: double>>,
    heavy_keys array<struct<value: string, share: double>>,
    decisions array<struct<kind: string, subject: string, source: string, target: string,
                           reason: string, accepted: boolean>>,
    busiest_over_mean double
"""


def history_frame(session: SparkSession, reports: Sequence[BatchReport]) -> DataFrame:
    """One row per batch report."""
    rows = [report.to_json() for report in reports]
    for row in rows:
        row["duration_ms"] = float(row["duration_ms"])
        row["busiest_over_mean"] = float(row["busiest_over_mean"])
    return session.createDataFrame(rows, HISTORY_SCHEMA)
