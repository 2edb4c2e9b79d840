"""A Spark Connect server in a process of its own, which may be killed and started again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_connection, socket

import psutil
import pyspark

from tests.spark.processes import kill_tree, wait_until

ROOT = Path(__file__).resolve().parents[2]
MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "localhost",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def free_port() -> int:
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """That of server and clients: both have the package, as on a cluster both must."""
    places = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(places),
        **more,
    }


@contextmanager
def connect_server(folder: Path, port: int, **more: str) -> Iterator[psutil.Popen]:
    """A server that listens on loopback. Whatever is left of it at the end is killed."""
    settings: Mapping[str, str] = SETTINGS | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    told = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    log = folder / "server.log"
    with log.open("ab") as out:
        process = psutil.Popen(
            [str(submit), "--master", "local[2]", *told, "--class", MAIN, "spark-internal"],
            env=environment(**more),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        wait_until(lambda: _listens(port), process, log)
        yield process
    finally:
        kill_tree(process)


def _listens(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
