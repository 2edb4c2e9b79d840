"""The demo's folder: the city's two streams as files, and what the join makes of them."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from skewless.errors import SkewlessError
from skewless.history import History, history
from skewless.state.commits import CommitLog
from skewless.state.files import STATE_FOLDER, Folder
from skewless.state.owner import CheckpointLock
from skewless.workloads import City, write_batches
from skewless.workloads.zipf import EPOCH

GRID_ORDER = 7  # 128 cells to a side: hashing them is as uneven as published for the real city
ORDERS_SHARE = 10  # one row in ten is an order
EVENT_BATCH = 8  # so many batches are ordinary ones
ROWS_PER_HOUR = 400_000  # of event time, so that a row's matches do not depend on the batch size


@dataclass(frozen=True)
class Plan:
    """What the demo is to join: the same plan gives the same rows."""

    batches: int
    rows: int
    drift: float
    seed: int
    event: float = 0.0

    @property
    def city(self) -> City:
        begin = EPOCH + timedelta(seconds=EVENT_BATCH * self.seconds)
        return City(GRID_ORDER, self.seed, self.drift, self.event, begin)

    @property
    def orders(self) -> int:
        return max(1, self.rows // ORDERS_SHARE)

    @property
    def tracks(self) -> int:
        return self.rows - self.orders

    @property
    def seconds(self) -> float:
        """How much event time a batch covers."""
        return self.rows / ROWS_PER_HOUR * 3600

    def continues(self, earlier: Plan) -> bool:
        """Whether this plan only adds batches to an earlier one."""
        return self.batches >= earlier.batches and replace(self, batches=earlier.batches) == earlier


class DemoFolder:
    """Everything the demo writes, under one folder that is its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.input, self.output = root / "input", root / "joined"
        self.checkpoint, self.log = root / "checkpoint", root / "spark.log"
        self._marker = root / "demo.json"

    def prepare(self, plan: Plan, *, fresh: bool) -> None:
        """Make the folder ready for a plan, or say why it cannot be."""
        self._check_free()
        if fresh:
            self._remove()
        earlier = self._noted()
        if earlier is None:
            for path in (self._marker, self.input, self.output, self.checkpoint):
                if path.exists():
                    raise SkewlessError(
                        f"{path} holds what the demo did not make. Give another --output, or "
                        "move it away."
                    )
            self.root.mkdir(parents=True, exist_ok=True)
        elif not plan.continues(earlier):
            raise SkewlessError(
                f"{self.root} holds a demo of {_described(earlier)}; this one is of "
                f"{_described(plan)}. Give the same values (or more batches) to continue it, "
                "--fresh to replace it, or another --output."
            )
        if earlier != plan:
            self._note(plan, written=False)

    def _check_free(self) -> None:
        """Refuse to touch the files of a demo that is running."""
        state = self.checkpoint / STATE_FOLDER
        if state.is_dir():
            lock = CheckpointLock(Folder(str(state.absolute())))
            lock.acquire()
            lock.release()

    def _noted(self) -> Plan | None:
        data = self._read_marker()
        return None if data is None else Plan(**data["plan"])

    def _read_marker(self) -> dict[str, Any] | None:
        try:
            data = json.loads(self._marker.read_text(encoding="utf-8"))
            return data if set(data["plan"]) == set(Plan.__dataclass_fields__) else None
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def _note(self, plan: Plan, *, written: bool) -> None:
        content = json.dumps({"plan": asdict(plan), "written": written})
        self._marker.write_text(content + "\n", encoding="utf-8")

    def _remove(self) -> None:
        """Delete what the demo made, nothing that others put beside it."""
        if self._read_marker() is None:
            return
        for stream in (self.input / "orders", self.input / "tracks"):
            for file in stream.glob("*.parquet"):
                if file.stem.lstrip(".").isdecimal():
                    file.unlink()
            _remove_if_empty(stream)
        for file in self.output.glob("batch-*"):
            file.unlink()
        for folder in (self.input, self.output):
            _remove_if_empty(folder)
        if self.checkpoint.is_dir():
            shutil.rmtree(self.checkpoint)
        self.log.unlink(missing_ok=True)
        self._marker.unlink()

    def write(self, plan: Plan) -> Writing:
        """Write the city's batches in the background; at once done if they are there already."""
        marker = self._read_marker()
        if marker is not None and marker["written"]:
            return Writing(None, self.input)

        def work() -> None:
            write_batches(
                plan.city, self.input, plan.batches, plan.orders, plan.tracks, plan.seconds
            )
            self._note(plan, written=True)

        return Writing(work, self.input)

    def joined(self, plan: Plan) -> History | None:
        """The reports of a demo that has nothing left to do; None if it has."""
        state = self.checkpoint / STATE_FOLDER
        if not (state / "query.json").exists():
            return None
        reports = history(str(self.checkpoint))
        last = CommitLog(Folder(str(state.absolute()))).latest()
        rows = sum(r.rows_left + r.rows_right for r in reports)
        if last is None or rows < plan.batches * plan.rows:
            return None
        # Output that a crash kept from being shown is shown by starting the query again.
        unshown = any((state / staged).exists() for staged, *_ in last.publish)
        return None if unshown else reports


class Writing(threading.Thread):
    """Writes files in the background and knows how many there are."""

    def __init__(self, work: Callable[[], None] | None, folder: Path) -> None:
        super().__init__(daemon=True)
        self._work, self._folder = work, folder
        self.error: BaseException | None = None
        if work is not None:
            self.start()

    def run(self) -> None:
        assert self._work is not None
        try:
            self._work()
        except Exception as error:
            self.error = error

    @property
    def is_done(self) -> bool:
        return not self.is_alive()

    @property
    def files(self) -> int:
        return sum(1 for _ in self._folder.glob("*/[0-9]*.parquet"))


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _described(plan: Plan) -> str:
    return (
        f"{plan.batches} x {plan.rows:,} rows, seed {plan.seed}, drift {plan.drift:g}, "
        f"event {plan.event:g}"
    )
