"""`sk.readStream`: PySpark's DataStreamReader for files that are read as columns."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless.errors import ArgumentError
from skewless.files.reading import FORMATS, check
from skewless.spark.file_streams import MARK
from skewless.spark.plans import arrow_schema, reason

INFERENCE = "spark.sql.streaming.schemaInference"


def readStream(spark: SparkSession) -> FileStreamReader:
    """Files that come to a folder, as a streaming DataFrame: used as ``spark.readStream`` is.

    ``sk.readStream(spark).schema("k long, at timestamp").parquet("/data/orders")`` has the same
    rows, types and nulls. Spark follows the files, each once, but what reads them are the tasks of
    skewless, by Arrow, several times as fast: only the columns that are needed, and nothing of them
    passes the JVM. `select`, `where`, `withColumn` and their like are done on Arrow as well, where
    skewless knows the functions; behind any other method, Spark reads the files.
    """
    return FileStreamReader(spark)


class FileStreamReader:
    """Collects what to read; `load`, `parquet`, `orc`, `csv` and `json` give the DataFrame. Options
    are Spark's, of the format and of streams of files: ``maxFilesPerTrigger``, ``latestFirst``,
    ``cleanSource``, …"""

    def __init__(self, spark: SparkSession) -> None:
        if not hasattr(spark, "readStream"):
            raise ArgumentError("spark", type(spark).__name__, "a SparkSession")
        self._spark = spark
        self._format: str | None = None
        self._schema: StructType | None = None
        self._options: dict[str, str] = {}

    def format(self, source: str) -> FileStreamReader:
        if not isinstance(source, str) or source.lower() not in FORMATS:
            accepted = f"one of: {', '.join(FORMATS)}. Others are read by spark.readStream"
            raise ArgumentError("format", source, accepted)
        self._format = source.lower()
        return self

    def schema(self, schema: StructType | str) -> FileStreamReader:
        accepted = 'a StructType, or text such as "k long, at timestamp"'
        found: object = schema
        if isinstance(schema, str):
            try:
                found = StructType.fromDDL(schema)
            except PySparkException as error:
                raise ArgumentError("schema", schema, f"{accepted} ({reason(error)})") from error
        if not isinstance(found, StructType):
            raise ArgumentError("schema", schema, accepted)
        self._schema = found
        return self

    def option(self, key: str, value: Any) -> FileStreamReader:
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            others = {k: v for k, v in self._options.items() if k.lower() != key.lower()}
            self._options = others | {key: text}
        return self

    def options(self, **options: Any) -> FileStreamReader:
        for key, value in options.items():
            self.option(key, value)
        return self

    def load(
        self,
        path: str | None = None,
        format: str | None = None,
        schema: StructType | str | None = None,
        **options: Any,
    ) -> DataFrame:
        """The rows of all files that are, and come to be, in a folder."""
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        if path is not None:
            self.option("path", path)
        return self._load()

    def _load(self) -> DataFrame:
        name = self._format or "parquet"
        given = {k: v for k, v in self._options.items() if k.lower() != "path"}
        path = next((v for k, v in self._options.items() if k.lower() == "path"), "")
        if not path:
            raise ArgumentError("path", path, "the folder that the files come to")
        reader = self._spark.readStream.format(name).options(**given, **{MARK: "true"})
        if self._schema is not None:
            check(name, given.items(), arrow_schema(self._schema))
            return reader.schema(self._schema).load(path)
        if self._spark.conf.get(INFERENCE, "false") != "true":
            accepted = (
                'given, as files may come later: .schema("k long, at timestamp"); or taken from '
                f"the files there are, with the session's {INFERENCE}"
            )
            raise ArgumentError("schema", None, accepted)
        frame = reader.load(path)
        check(name, given.items(), arrow_schema(frame.schema))
        return frame

    def parquet(self, path: str, **options: Any) -> DataFrame:
        return self.load(path, "parquet", **options)

    def orc(self, path: str, **options: Any) -> DataFrame:
        return self.load(path, "orc", **options)

    def csv(self, path: str, schema: StructType | str | None = None, **options: Any) -> DataFrame:
        return self.load(path, "csv", schema, **options)

    def json(self, path: str, schema: StructType | str | None = None, **options: Any) -> DataFrame:
        return self.load(path, "json", schema, **options)
