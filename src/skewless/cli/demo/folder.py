"""The demo's folder: the city's two streams as files, and what the joins make of them."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from skewless.cli.demo.turns import AUTO, HASH, SPARK
from skewless.errors import SkewlessError
from skewless.state.files import STATE_FOLDER, Folder
from skewless.state.owner import CheckpointLock
from skewless.workloads import City, write_batches
from skewless.workloads.zipf import EPOCH

GRID_ORDER = 7  # 128 cells to a side: hashing them is as uneven as published for the real city
ORDERS_SHARE = 10  # one row in ten is an order
EVENT_BATCH = 5  # so many batches are ordinary ones
ROWS_PER_HOUR = 400_000  # of event time, so that a row's matches do not depend on the batch size
VERSION = 2  # of what lies in the folder; 1 had one join


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


@dataclass(frozen=True)
class Place:
    """Where a join writes to."""

    output: Path
    checkpoint: Path


class DemoFolder:
    """Everything the demo writes, under one folder that is its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.input, self.log = root / "input", root / "spark.log"
        self.turns, self.plot, self.page = (
            root / name for name in ("turns.jsonl", "story.svg", "report.html")
        )
        self._marker = root / "demo.json"

    def place(self, who: str) -> Place:
        return Place(self.root / who / "joined", self.root / who / "checkpoint")

    def _places(self) -> list[Place]:
        """Of all joins; and that of the one join which earlier versions had."""
        return [self.place(who) for who in (SPARK, HASH, AUTO, "")]

    def prepare(self, plan: Plan, *, fresh: bool) -> None:
        """Make the folder ready for a plan, or say why it cannot be."""
        self._check_free()
        if fresh:
            self._remove()
        marker = self._read_marker()
        if marker is None:
            self._check_empty()
            self.root.mkdir(parents=True, exist_ok=True)
            self._note(plan, written=False)
            return
        if marker.get("version") != VERSION:
            raise SkewlessError(
                f"{self.root} holds a demo of another version of skewless. Give --fresh to replace "
                "it, or another --output."
            )
        earlier = self.plan()
        assert earlier is not None
        if not plan.continues(earlier):
            raise SkewlessError(
                f"{self.root} holds a demo of {_described(earlier)}; this one is of "
                f"{_described(plan)}. Give the same values (or more batches) to continue it, "
                "--fresh to replace it, or another --output."
            )
        if earlier != plan:
            self._note(plan, written=False)

    def plan(self) -> Plan | None:
        """The plan of the demo that is there, if there is one."""
        marker = self._read_marker()
        return None if marker is None else Plan(**marker["plan"])

    def _check_empty(self) -> None:
        own = [path for place in self._places() for path in (place.output, place.checkpoint)]
        for path in (self._marker, self.input, *own):
            if path.exists():
                raise SkewlessError(
                    f"{path} holds what the demo did not make. Give another --output, or "
                    "move it away."
                )

    def _check_free(self) -> None:
        """Refuse to touch the files of a demo that is running."""
        for place in self._places():
            state = place.checkpoint / STATE_FOLDER
            if state.is_dir():
                lock = CheckpointLock(Folder(str(state.absolute())))
                lock.acquire()
                lock.release()

    def _read_marker(self) -> dict[str, Any] | None:
        try:
            data: dict[str, Any] = json.loads(self._marker.read_text(encoding="utf-8"))
            return data if set(data["plan"]) == set(Plan.__dataclass_fields__) else None
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None

    def _note(self, plan: Plan, *, written: bool) -> None:
        content = {"version": VERSION, "plan": asdict(plan), "written": written}
        self._marker.write_text(json.dumps(content) + "\n", encoding="utf-8")

    def _remove(self) -> None:
        """Delete what the demo made, nothing that others put beside it."""
        if self._read_marker() is None:
            return
        for stream in (self.input / "orders", self.input / "tracks"):
            for file in stream.glob("*.parquet"):
                if file.stem.lstrip(".").isdecimal():
                    file.unlink()
            _remove_if_empty(stream)
        _remove_if_empty(self.input)
        for place in self._places():
            for made in (*place.output.glob("batch-*"), place.checkpoint):
                _remove_whole(made)
            _remove_if_empty(place.output)
            if place.output.parent != self.root:
                _remove_if_empty(place.output.parent)
        for file in (self.log, self.turns, self.plot, self.page, self._marker):
            file.unlink(missing_ok=True)

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


def _remove_whole(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _described(plan: Plan) -> str:
    return (
        f"{plan.batches} x {plan.rows:,} rows, seed {plan.seed}, drift {plan.drift:g}, "
        f"event {plan.event:g}"
    )
