"""Which versions of Spark, Delta, Iceberg and of PostgreSQL's driver go together: the one place.

Neither Delta nor Iceberg is there for the Spark that everything else is tested with, so this one is
put beside it, in a folder of its own, by whoever needs it first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SPARK = "4.1.4"
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
POSTGRESQL = "org.postgresql:postgresql:42.7.14"

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "skewless-tables")
HOME = CACHE / f"pyspark-{SPARK}"
JARS = HOME / f"{'+'.join(name.rpartition(':')[2] for name in (DELTA, ICEBERG, POSTGRESQL))}.jars"
ASK = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.jars.packages", "{packages}").getOrCreate()
open("{jars}", "w").write(session.sparkContext.getConf().get("spark.jars"))
"""


def environment() -> dict[str, str]:
    """What a child needs to find that Spark, and not the one that is installed."""
    return {"PYTHONPATH": os.pathsep.join([str(HOME), os.environ.get("PYTHONPATH", "")])}


def prepare() -> None:
    """Have Spark and all jars on this machine."""
    if not (HOME / "pyspark").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(HOME), f"pyspark=={SPARK}"], check=True)
    if not JARS.exists():
        packages = ",".join((DELTA, ICEBERG, POSTGRESQL))
        made = JARS.with_suffix(".tmp")
        script = ASK.format(packages=packages, jars=made)
        subprocess.run([sys.executable, "-c", script], env=os.environ | environment(), check=True)
        made.rename(JARS)


def settings(warehouse: Path) -> dict[str, str]:
    """Those of a session that knows Delta and Iceberg, the latter in the catalog `lake`."""
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    return {
        "spark.jars": JARS.read_text(encoding="utf-8"),
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.memory": "2g",
    }
