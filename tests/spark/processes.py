"""Children that run a query and are killed while they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).parent / "kill_child.py"
PATIENCE_S = 300


@contextmanager
def child(
    config: dict[str, Any], script: Path = CHILD, **environment: str
) -> Iterator[psutil.Popen]:
    """A child in a process group of its own. Whatever is left of it at the end is killed."""
    folder = Path(config["folder"])
    for place in (folder, *(Path(query["folder"]) for query in config["queries"])):
        for sign in ("started", "paused", "done"):
            (place / sign).unlink(missing_ok=True)
    places = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SKEWLESS_SMALL": "apart"}
    settings["PYTHONPATH"] = os.pathsep.join(places)
    with (folder / "child.log").open("ab") as log:
        process = psutil.Popen(
            [sys.executable, str(script), json.dumps(config)],
            env=settings | environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_tree(process)


def kill_tree(process: psutil.Process) -> None:
    """SIGKILL for a process and all its descendants, by their ids."""
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    deadline = time.monotonic() + 30
    while any(is_alive(member) for member in family) and time.monotonic() < deadline:
        time.sleep(0.01)
    if isinstance(process, psutil.Popen):
        process.wait(30)


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_for(sign: Path, process: psutil.Popen, patience_s: float = PATIENCE_S) -> None:
    """Wait until a file appears. A child that ends before has failed."""
    log = next(up / "child.log" for up in sign.parents if (up / "child.log").exists())
    wait_until(sign.exists, process, log, f"no sign of {sign.name}", patience_s)


def wait_until(
    came: Callable[[], bool],
    process: psutil.Popen,
    log: Path,
    what: str = "it did not come up",
    patience_s: float = PATIENCE_S,
) -> None:
    """Wait for something that a child does. One that ends before has failed."""
    deadline = time.monotonic() + patience_s
    while not came():
        has_ended = process.poll() is not None and not came()
        if has_ended or time.monotonic() > deadline:
            raise AssertionError(f"{what}; the child said:\n{log.read_text()[-4000:]}")
        time.sleep(0.02)
