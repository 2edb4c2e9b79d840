"""Running a contestant in a fresh process, its memory watched from outside; and batch figures."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.child import RESULT

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_S = 0.2
# The watch shares two cores with what it watches: who uses both at once would pay the most for it.
FAMILY_S = 1.0  # between two looks at which processes there are, for which all of /proc is read
USS_COST_MAX = 0.01  # of one core, spent on walking page tables
LEAVE_S = 20.0  # for the last processes of a contestant to end before the next one starts
MARK = "measuring"
STDERR_LINES_SHOWN = 40


class ContestantError(Exception):
    """A contestant ended without a result; the message ends with what it wrote to stderr."""


def say(text: str) -> None:
    """A line of progress: on stderr, so that stdout holds nothing but the result."""
    print(text, file=sys.stderr, flush=True)


def _module_of(function: Callable[[Json], Json]) -> str:
    """By the name that others import it by, also of the module that is being run."""
    own = sys.modules[function.__module__].__spec__
    return function.__module__ if own is None else own.name


def run_fresh(function: Callable[[Json], Json], parameters: Json) -> Json:
    """What `function` returns in a process of its own, and the peak memory of that process with
    all its descendants. `parameters` go with it, and a temporary folder for it as `work`."""
    with tempfile.TemporaryDirectory(prefix="skewless-bench-", ignore_cleanup_errors=True) as work:
        command = [sys.executable, "-m", "benchmarks.child", _module_of(function)]
        command += [function.__name__, json.dumps(parameters | {"work": work})]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        errors = Path(work, "stderr")
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )
        with MemoryWatch(process.pid, Path(work, MARK)) as memory:
            process.wait()
        if process.returncode != 0:
            told = errors.read_text(errors="replace").splitlines()[-STDERR_LINES_SHOWN:]
            raise ContestantError(f"{function.__name__} failed:\n" + "\n".join(told))
        result: Json = json.loads(Path(work, RESULT).read_text(encoding="utf-8"))
    return result | {"memory": memory.peaks()}


class MemoryWatch:
    """Samples the memory of a process and its descendants until the block ends, and keeps the peaks
    of three sums:

    - `rss`: resident memory. Pages that processes share, as mapped files, are counted repeatedly.
    - `anonymous`: resident memory without files and shared pages: what cannot be given back.
    - `uss`: memory that no other process shares; includes files that only one process maps. To find
      it the kernel walks all pages, so it is sampled less often, and a JVM, which shares next to
      nothing and has the most pages, is counted with its anonymous memory.

    The peaks begin anew when the file `mark` appears. When the block ends by an error, Ctrl-C
    among them, the processes are killed.
    """

    def __init__(self, pid: int, mark: Path) -> None:
        self._top = psutil.Process(pid)
        self._mark, self._marked = mark, False
        self._seen: dict[int, Any] = {}
        self._peaks = {"rss": 0, "anonymous": 0, "uss": 0}
        self._family: list[Any] = [self._top]
        self._uss_due = self._family_due = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self._over.set()
        self._thread.join()
        processes = [self._top, *self._seen.values()]
        if kind is None:
            processes = psutil.wait_procs(processes, timeout=LEAVE_S)[1]
        for process in processes:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue

    def peaks(self) -> Json:
        return {f"{name}_peak_bytes": peak for name, peak in self._peaks.items()}

    def _run(self) -> None:
        while not self._over.is_set():
            if not self._marked and self._mark.exists():
                self._marked, self._uss_due = True, 0.0
                self._peaks = dict.fromkeys(self._peaks, 0)
            if time.monotonic() >= self._family_due:
                try:
                    self._look_for_family()
                except psutil.NoSuchProcess:
                    return
            self._sample(self._family)
            self._over.wait(SAMPLE_S)

    def _look_for_family(self) -> None:
        self._family_due = time.monotonic() + FAMILY_S
        below = self._top.children(recursive=True)
        # A process that is just being forked still appears with all the memory of its parent.
        settled = [process for process in below if process.pid in self._seen]
        self._seen.update((process.pid, process) for process in below)
        self._family = [self._top, *settled]

    def _sample(self, processes: list[Any]) -> None:
        begun_s = time.thread_time()
        with_uss = time.monotonic() >= self._uss_due
        sums = dict.fromkeys(self._peaks, 0)
        for process in processes:
            try:
                one = _memory(process, with_uss)
            except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended
                continue
            sums = {name: total + one[name] for name, total in sums.items()}
        self._peaks = {name: max(peak, sums[name]) for name, peak in self._peaks.items()}
        if with_uss:
            cost_s = time.thread_time() - begun_s
            self._uss_due = time.monotonic() + cost_s / USS_COST_MAX


def _memory(process: Any, with_uss: bool) -> dict[str, int]:
    info = process.memory_info()
    anonymous = info.rss - getattr(info, "shared", 0)
    uss = anonymous
    if not with_uss:
        uss = 0
    elif process.name() != "java":
        uss = process.memory_full_info().uss
    return {"rss": info.rss, "anonymous": anonymous, "uss": uss}


def batch_figures(progress: list[Json], warmup: int, rows_per_batch: int) -> Json:
    """Throughput and times of a query's batches, from what Spark reports of each. The first
    `warmup` are left out, and so are those without rows, by which Spark only cleans up."""
    batches = [p for p in progress if p["numInputRows"]][warmup:]
    uneven = {p["batchId"]: p["numInputRows"] for p in batches}
    uneven = {batch: rows for batch, rows in uneven.items() if rows != rows_per_batch}
    if uneven or not batches:
        raise ContestantError(f"batches of {rows_per_batch} rows expected, but there are {uneven}")
    times = [float(p["durationMs"]["triggerExecution"]) for p in batches]
    phases = {phase for p in batches for phase in p["durationMs"]} - {"triggerExecution"}
    return {
        "batches": len(batches),
        "rows_per_s": round(rows_per_batch * len(batches) / sum(times) * 1000),
        "median_ms": statistics.median(times),
        "mean_ms": round(statistics.mean(times), 1),
        "p99_ms": round(float(np.percentile(times, 99)), 1),
        "phases_median_ms": {
            phase: statistics.median(p["durationMs"].get(phase, 0) for p in batches)
            for phase in sorted(phases)
        },
        "batch_ms": times,
    }
