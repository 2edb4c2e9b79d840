"""A running join on the screen: a live view on a terminal, else plain lines, one per batch."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from skewless.cli.totals import speed, total
from skewless.cli.units import count, duration, short
from skewless.cli.view import (
    INSTANCES_SHOWN,
    KEYS_SHOWN,
    Labels,
    batches_table,
    side_by_side,
    sparkline,
)
from skewless.engine.report import BatchReport

FRAMES_PER_SECOND = 8
WINDOW = 40  # batches in the sparkline
RECENT = 3  # batches in the bars of instances and keys: a change of balance shows at once
LINES_AROUND_BARS = 16  # of the live view: heading, headline, head of the table, borders, verdict
PLAIN_COLUMNS = 160  # where nobody looks at a terminal's edge, nothing is cut off


class Display(Protocol):
    """Shows what goes on. `status` may be told a detail that changes often."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def status(self, what: str, detail: str = "") -> None: ...

    def batch(self, report: BatchReport, *, earlier: bool = False) -> None: ...


def make_console(*, stderr: bool = False) -> Console:
    """A console that is wide where it is not a terminal."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(stderr=stderr, highlight=False, width=PLAIN_COLUMNS)
    return console


def make_display(console: Console, title: str, labels: Labels) -> Display:
    if console.is_interactive:
        return LiveDisplay(console, title, labels)
    return PlainDisplay(console, title, labels)


class PlainDisplay:
    """One line per batch: for logs, pipes and terminals that cannot move the cursor. `prefix` tells
    the lines of several queries apart."""

    def __init__(self, console: Console, title: str, labels: Labels, prefix: str = "") -> None:
        self._console, self._title, self._labels = console, title, labels
        self._prefix, self._said = prefix, ""

    def __enter__(self) -> PlainDisplay:
        self._say(self._title)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def status(self, what: str, detail: str = "") -> None:
        if what != self._said:
            self._said = what
            self._say(what)

    def batch(self, report: BatchReport, *, earlier: bool = False) -> None:
        if not earlier:
            self._say(batch_line(report, self._labels))

    def _say(self, line: str) -> None:
        self._console.print(f"{self._prefix}{line}", markup=False, soft_wrap=True)
        self._console.file.flush()


def batch_line(report: BatchReport, labels: Labels) -> str:
    """A batch in one line of text."""
    rows = " + ".join(f"{count(n)} {labels.of(name)}" for name, n in report.rows.items())
    dropped = "".join(f", {count(n)} {cause}" for cause, n in report.dropped.items() if n)
    return (
        f"batch {report.batch_id}: {rows} -> {count(report.matches)} matches{dropped} in "
        f"{duration(report.duration_ms)} ({short(speed(report))} rows/s); state "
        f"{short(report.state_rows)} rows; {report.verdict}{_changes(report)}"
    )


def _changes(report: BatchReport) -> str:
    """What was decided after a batch, in a few words."""
    accepted = [d for d in report.decisions if d.accepted]
    split = [f"{d.subject} to {d.target}" for d in accepted if d.kind == "split"]
    if not accepted:
        return ""
    parts = [f"split {' and '.join(split)}"] if split else []
    if len(accepted) > len(split):
        parts.append(f"{len(accepted)} changes in all")
    return f"; {', '.join(parts)}"


class LiveDisplay:
    """A view that is redrawn in place and stays on the screen at the end."""

    def __init__(self, console: Console, title: str, labels: Labels) -> None:
        self._console, self._title, self._labels = console, title, labels
        self._reports: list[BatchReport] = []
        self._earlier = 0
        self._status, self._detail = "", ""
        self._status_since = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")
        self._ended = False
        self._live = Live(
            get_renderable=self._render,
            console=console,
            refresh_per_second=FRAMES_PER_SECOND,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveDisplay:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended = True
        self._live.__exit__(kind, error, traceback)

    def status(self, what: str, detail: str = "") -> None:
        if what != self._status:
            self._status_since = time.monotonic()
        self._status, self._detail = what, detail

    def batch(self, report: BatchReport, *, earlier: bool = False) -> None:
        self._reports.append(report)
        self._earlier += earlier
        self._status_since = time.monotonic()

    def _render(self) -> RenderableType:
        reports = list(self._reports)
        parts: list[RenderableType] = [Text(self._title, style="bold cyan"), self._progress()]
        if reports:
            latest = total(reports[-RECENT:])
            bars = max(min(len(latest.instances), INSTANCES_SHOWN + 1), KEYS_SHOWN)
            shown = max(3, self._console.height - LINES_AROUND_BARS - bars)
            parts += [
                self._headline(reports),
                batches_table(reports[-shown:], self._labels),
                side_by_side(latest.instances, latest.heavy_keys, self._labels),
                Text(f"{reports[-1].verdict}{_changes(reports[-1])}", style="bold"),
            ]
        return Group(*parts)

    def _progress(self) -> RenderableType:
        line = Table.grid(padding=(0, 1))
        done = len(self._reports)
        cells: list[RenderableType] = []
        if done:
            cells.append(Text(f"{count(done)} batches", style="bold"))
        if not self._ended:
            waited = f"{time.monotonic() - self._status_since:.0f} s"
            doing = " ".join(filter(None, (self._status, self._detail)))
            cells += [self._spinner, Text(doing), Text(waited, style="dim")]
        line.add_row(*cells)
        return line

    def _headline(self, reports: list[BatchReport]) -> RenderableType:
        everything = total(reports)
        speeds = [speed(report) for report in reports[-WINDOW:]]
        return Text.assemble(
            "\n",
            (short(everything.rows), "bold"), " rows   ",
            (short(everything.matches), "bold"), " matches   ",
            (short(speeds[-1]), "bold"), " rows/s  ",
            (sparkline(speeds), "cyan"),
        )  # fmt: skip
