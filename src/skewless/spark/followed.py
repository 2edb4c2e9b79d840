"""The files of a batch, as Spark's own plan of it has them: without a job that asks for them.

A stream of files whose rows skewless reads is followed by Spark, and the plan of a batch says what
files it has. All that is asked here is internal to Spark, and may be called otherwise in another
version: whoever asks gets None then, and runs the job.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from skewless.engine.reading import Stream
from skewless.files.splits import FileRef
from skewless.spark.plans import class_of, items

FILES_AT_MOST = 16  # each is asked for by itself; of more a job tells as quickly
SCAN, SCANNING = "FileScanRDD", "FileSourceScanExec"  # of an RDD, of a plan

log = logging.getLogger("skewless")


def files_of(arrived: DataFrame, streams: Sequence[Stream]) -> dict[Stream, list[FileRef]] | None:
    """The files of each stream, where `arrived` is nothing but what tells of them, one stream after
    the other. None if that cannot be known, or not quickly: a stream without new files is not in
    the plan, so that it does not say which of them it was."""
    try:
        scans = _scans(arrived._jdf.queryExecution().logical().rdd())
        if len(scans) != len(streams):
            return None
        read = [[f for p in items(scan.filePartitions()) for f in p.files()] for scan in scans]
        if sum(map(len, read)) > FILES_AT_MOST:
            return None
        return {stream: [_ref(f) for f in of] for stream, of in zip(streams, read, strict=True)}
    except (Py4JError, AttributeError) as error:
        log.debug("a job tells the files of a batch, as its plan does not: %s", error)
        return None


def _scans(rdd: Any) -> list[Any]:
    """What reads files for an RDD, in the order in which their rows come."""
    if class_of(rdd) == SCAN:
        return [rdd]
    return [scan for one in items(rdd.dependencies()) for scan in _scans(one.rdd())]


def _ref(file: Any) -> FileRef:
    return FileRef(str(file.toPath().toString()), int(file.fileSize()))


def tell_progress(query: StreamingQuery, rows: Mapping[Stream, int]) -> bool:
    """Have Spark's progress of the batch at work count rows, where it would count files, or nothing
    if no job was run. `rows` are of the streams that have files. Whether that could be said."""
    try:
        plan = query._jsq.streamingQuery().lastExecution().executedPlan()
        scans = [leaf for leaf in items(plan.collectLeaves()) if class_of(leaf) == SCANNING]
        if len(scans) != len(rows):
            return False
        for scan, count in zip(scans, rows.values(), strict=True):
            scan.metrics().apply("numOutputRows").set(count)
    except (Py4JError, AttributeError) as error:
        log.debug("Spark's progress counts no rows: %s", error)
        return False
    return True
