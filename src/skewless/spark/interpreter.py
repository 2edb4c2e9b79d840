"""Whether Spark's Python workers can load this package, asked before any job starts."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from pyspark.sql import SparkSession

from skewless.errors import ArgumentError

CHOICE = "PYSPARK_PYTHON"
UNTOLD = "python3"  # what Spark takes where that is not set


def is_remote(session: SparkSession) -> bool:
    """Whether all work is done by a server (Spark Connect), and this process only asks for it."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_workers(session: SparkSession) -> None:
    """See to it that the workers of a local session have this package. Unless told otherwise, Spark
    starts them with the `python3` of the PATH, which is another one where an environment is used
    without activating it, perhaps with this package in another version: so they get the driver's.
    One that was chosen, and lacks the package, is refused: workers would fail one by one. On a
    cluster, or if packages are sent along with the job, only the workers can tell."""
    if is_remote(session):
        return
    context = session.sparkContext
    if not (context.master or "").startswith("local") or context._python_includes:
        return
    if context.pythonExec == UNTOLD and CHOICE not in os.environ and sys.executable:
        context.pythonExec = sys.executable
        return
    python = shutil.which(context.pythonExec) or context.pythonExec
    if python != sys.executable and not _loads(python):
        accepted = (
            f"set to a Python that has skewless, such as {sys.executable}, "
            "before the Spark session is made"
        )
        raise ArgumentError(CHOICE, python, accepted)


@functools.cache
def _loads(python: str) -> bool:
    try:
        subprocess.run([python, "-c", "import pyarrow, skewless"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
