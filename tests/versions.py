"""What Spark itself cannot do in the older of the versions that are tested."""

from __future__ import annotations

import pyspark

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
READS_ORC_INSTANTS = SPARK >= (4, 3)  # `timestamp with local time zone`
READS_SPLIT_STREAMS_IN_VECTORS = SPARK >= (4, 3)  # BYTE_STREAM_SPLIT of Parquet
