"""A Spark session for the tool. Spark's own messages go to a file, never between the tool's."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from skewless.cli.failures import first_line, root_cause
from skewless.cli.interrupt import StopRequest
from skewless.cli.version import java_version
from skewless.errors import SkewlessError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    # Rows reach Python sooner this way than over loopback TCP.
    "spark.python.unix.domain.socket.enabled": "true",
}


@contextmanager
def spark_session(
    name: str,
    master: str,
    settings: Mapping[str, str],
    log: Path | None,
    stopping: Callable[[], None],
) -> Iterator[SparkSession]:
    """A session that is stopped afterwards. `log` takes all that the JVM writes; None: stderr.
    `stopping` is called if Ctrl-C comes while Spark starts."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # It would print each refused query, stack and all, on top of the error that is raised.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    if master.startswith("local"):
        # Spark would start its Python workers with whatever python3 the PATH has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName(name).setMaster(master)
    for key, value in {**DEFAULTS, **settings}.items():
        conf.set(key, value)
    target = os.dup(2) if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    # Ctrl-C has to wait: a JVM that loses its parent while it starts would never end.
    with StopRequest(stopping) as request:
        try:
            # The JVM's standard output goes the same way: the tool's is for the tool alone.
            streams = {"stdout": target, "stderr": target}
            gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]
            context = SparkContext(gateway=gateway, conf=conf)
        except (PySparkException, Py4JError) as error:
            raise SkewlessError(_why_not(error, log)) from error
        finally:
            os.close(target)
    if request.signal is not None:
        context.stop()
        raise KeyboardInterrupt
    session = SparkSession(context)
    try:
        yield session
    finally:
        session.stop()


def _why_not(error: Exception, log: Path | None) -> str:
    said = "" if log is None else log.read_text(encoding="utf-8", errors="replace")
    if java_version() is None or "UnsupportedClassVersionError" in said:
        return (
            "Spark could not start: it needs Java 17 or newer, found by JAVA_HOME or on the PATH "
            "(`skewless version` shows which is found)"
        )
    reason = root_cause(said) if "JAVA_GATEWAY_EXITED" in str(error) else first_line(error)
    return f"Spark could not start: {reason}" + ("" if log is None else f" (more in {log})")
