"""The demo on the screen: joins side by side and the story below; or plain lines for logs and
pipes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.bar import Bar
from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from skewless.cli.demo.folder import Plan
from skewless.cli.demo.story import chapters, tale
from skewless.cli.demo.turns import (
    BY_RESULTS,
    SPARK,
    TITLES,
    Turn,
    Turns,
    median_seconds,
    ratio_text,
)
from skewless.cli.display import FRAMES_PER_SECOND
from skewless.cli.units import count, duration, short
from skewless.cli.view import balance_style, sparkline

RECENT = 3  # batches whose median is shown: one may be odd
TASKS_SHOWN = 16
LINES_ABOVE = 6  # of the live view: heading, progress, head of the table, borders
LABEL = 10  # columns of "batch 123" before a line of the story
TITLE = "The taxis near every order: one city, the same batches, joined side by side"
TIMES = f"Times are medians of the last {RECENT} batches"
MEANING = f"{TIMES}. Each small bar is the work of one task; a batch is ready when the busiest is."


@dataclass
class State:
    """What is to be seen: the turns so far, and what goes on."""

    plan: Plan
    joins: Sequence[str]
    turns: Turns
    doing: str = ""
    at_work: str = ""

    @property
    def done(self) -> int:
        """Batches that all joins have done."""
        return min(self.turns.done(who) for who in self.joins)


class Screen(Protocol):
    """Shows what goes on. `status` may be told a detail that changes often."""

    def __enter__(self) -> Screen: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def status(self, what: str, detail: str = "") -> None: ...

    def working(self, who: str, batch: int) -> None: ...

    def turn(self, turn: Turn) -> None: ...


def make_screen(console: Console, plan: Plan, joins: Sequence[str], turns: Turns) -> Screen:
    state = State(plan, joins, turns)
    return LiveScreen(console, state) if console.is_interactive else PlainScreen(console, state)


class PlainScreen:
    """A line for each batch and for everything that is worth one."""

    def __init__(self, console: Console, state: State) -> None:
        self._console, self._state = console, state
        self._doing = ""
        self._said = set(tale(state.plan, state.turns)) if state.done else set()
        self._told = state.done

    def __enter__(self) -> PlainScreen:
        self._say(TITLE)
        self._say(f"{TIMES}.")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def status(self, what: str, detail: str = "") -> None:
        if what != self._doing:
            self._doing = what
            self._say(what)

    def working(self, who: str, batch: int) -> None:
        pass

    def turn(self, turn: Turn) -> None:
        for batch in range(self._told, self._state.done):
            self._say(batch_line(self._state, batch))
            self._told = batch + 1
        for line in tale(self._state.plan, self._state.turns):
            # What is told of a batch comes behind it, but for how it begins.
            if line not in self._said and line[0] < max(self._told, 1):
                self._said.add(line)
                self._say(f"  {line[1]}")

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()


def batch_line(state: State, batch: int) -> str:
    """A batch of all joins in one line."""
    told = []
    for who in state.joins:
        for turn in state.turns.of(who, [batch]):
            recent = state.turns.of(who, range(batch - RECENT + 1, batch + 1))
            took = duration(median_seconds(recent) * 1000)
            took += " with its start" if turn.cold else ""
            ratio = ratio_text(who, turn.busiest_over_mean)
            told.append(f"{TITLES[who]} {took} (busiest/mean {ratio})")
    return f"batch {batch} of {state.plan.batches}, {_chapter(state, batch)}: {', '.join(told)}"


def _chapter(state: State, batch: int) -> str:
    found = chapters(state.plan, state.turns)
    return next((c.title for c in found if batch in c.batches), found[-1].title)


class LiveScreen:
    """A view that is redrawn in place and stays on the screen at the end."""

    def __init__(self, console: Console, state: State) -> None:
        self._console, self._state = console, state
        self._since = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")
        self._ended = False
        self._live = Live(
            get_renderable=self._render,
            console=console,
            refresh_per_second=FRAMES_PER_SECOND,
            vertical_overflow="crop",
        )

    def __enter__(self) -> LiveScreen:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended = True
        self._state.at_work = ""
        self._live.__exit__(kind, error, traceback)

    def status(self, what: str, detail: str = "") -> None:
        doing = " ".join(filter(None, (what, detail)))
        if not self._state.doing.startswith(what):
            self._since = time.monotonic()
        self._state.doing = doing

    def working(self, who: str, batch: int) -> None:
        self._state.at_work = who
        self._state.doing = f"batch {batch}: {TITLES[who]}"
        self._since = time.monotonic()

    def turn(self, turn: Turn) -> None:
        self._state.at_work = ""

    def _render(self) -> RenderableType:
        waited = "" if self._ended else f"{time.monotonic() - self._since:.0f} s"
        spinner = None if self._ended else self._spinner
        return frame(self._state, self._console.size, spinner, waited)


def frame(
    state: State, size: ConsoleDimensions, spinner: Spinner | None = None, waited: str = ""
) -> RenderableType:
    """The whole view at one moment."""
    parts: list[RenderableType] = [
        Text(TITLE, style="bold cyan"),
        _progress(state, spinner, waited),
    ]
    if any(state.turns.done(who) for who in state.joins):
        meaning = _meaning(state)
        room = size.height - LINES_ABOVE - len(state.joins) - _height(meaning, size.width)
        parts += [
            Text(),
            joins_table(state),
            Padding(Text(meaning, style="dim"), (0, 0, 1, 0)),
            story_table(newest(tale(state.plan, state.turns), size.width, room)),
        ]
    return Group(*parts)


def newest(told: Sequence[tuple[int, str]], width: int, room: int) -> list[tuple[int, str]]:
    """As much of the end of the story as there is room for."""
    shown: list[tuple[int, str]] = []
    for line in reversed(told):
        room -= _height(line[1], width - LABEL)
        if room < 0 and shown:
            break
        shown.insert(0, line)
    return shown


def _height(text: str, width: int) -> int:
    return len(Text(text).wrap(Console(width=width), width))


def _meaning(state: State) -> str:
    return f"{MEANING} {BY_RESULTS}." if SPARK in state.joins else MEANING


def _progress(state: State, spinner: Spinner | None, waited: str) -> RenderableType:
    line = Table.grid(padding=(0, 1))
    cells: list[RenderableType] = []
    if state.done:
        cells.append(ProgressBar(state.plan.batches, state.done, width=24))
        chapter = _chapter(state, min(state.done, state.plan.batches - 1))
        cells.append(Text(f"{state.done} of {state.plan.batches} batches: {chapter}", style="bold"))
    if spinner is not None:
        cells += [spinner, Text(waited, style="dim"), Text(state.doing, overflow="ellipsis")]
    for _ in cells:
        line.add_column(no_wrap=True)
    line.add_row(*cells)
    return line


def joins_table(state: State) -> Table:
    """A line for each join: how long, how fast, how even."""
    made = Table(box=None, header_style="dim", pad_edge=False, expand=True)
    made.add_column("", no_wrap=True)
    made.add_column("time of a batch", justify="right", no_wrap=True)
    made.add_column("", ratio=1, min_width=8)
    made.add_column("rows/s", justify="right", no_wrap=True)
    made.add_column("tasks", no_wrap=True)
    made.add_column("busiest/mean", justify="right", no_wrap=True)
    made.add_column("results", justify="right", no_wrap=True)
    recent = {who: state.turns.of(who)[-RECENT:] for who in state.joins}
    longest = max((median_seconds(some) for some in recent.values()), default=0.0)
    for who, some in recent.items():
        name = Text(TITLES[who], style="bold cyan" if who == state.at_work else "bold")
        if not some:
            made.add_row(name, *([""] * 6))
            continue
        seconds, ratio = median_seconds(some), some[-1].busiest_over_mean
        made.add_row(
            name,
            duration(seconds * 1000),
            Bar(longest or 1, 0, seconds, color="cyan"),
            short(state.plan.rows / seconds) if seconds else "",
            _tasks(some[-1].loads, ratio),
            Text(ratio_text(who, ratio), style=balance_style(ratio)),
            count(sum(turn.results for turn in state.turns.of(who))),
        )
    return made


def _tasks(loads: Sequence[float], ratio: float) -> Text:
    """A small bar for each task; of very many, the busiest."""
    shown = loads if len(loads) <= TASKS_SHOWN else sorted(loads, reverse=True)[:TASKS_SHOWN]
    return Text(sparkline(shown), style=balance_style(ratio))


def story_table(told: Sequence[tuple[int, str]]) -> Table:
    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True, justify="right")
    made.add_column()
    last = -1
    for batch, text in told:
        made.add_row("" if batch == last else f"batch {batch}", Text(text))
        last = batch
    return made
