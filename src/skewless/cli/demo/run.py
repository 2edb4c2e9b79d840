"""The demo from beginning to end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from skewless.cli.demo.contest import Contest
from skewless.cli.demo.folder import DemoFolder, Plan, Writing
from skewless.cli.demo.gate import Gate
from skewless.cli.demo.joins import Join, listener, make_joins
from skewless.cli.demo.plot import svg
from skewless.cli.demo.proof import Found, found_in
from skewless.cli.demo.screen import Screen, make_screen
from skewless.cli.demo.summary import Findings, findings, print_summary, to_json, where_next
from skewless.cli.demo.turns import AUTO, HASH, TITLES, Turns
from skewless.cli.follow import STOPPING, Outcome
from skewless.cli.interrupt import StopRequest
from skewless.cli.session import LOCAL, spark_session
from skewless.cli.units import count
from skewless.engine.listeners import on_batch
from skewless.errors import ArgumentError, MissingPackageError
from skewless.history import History, history
from skewless.monitor.extras import SERVER, need
from skewless.monitor.starting import dashboard, report
from skewless.state.files import STATE_FOLDER

if TYPE_CHECKING:
    from skewless.monitor.server import Dashboard

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Batches without rows would come while the others have their turns.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
WAIT_SECONDS = 0.2
NOTHING_LEFT = "Nothing was left to do. To start anew: the same command with --fresh"
DIFFERENT = 1  # exit code: the joins have not found the same


@dataclass(frozen=True)
class Options:
    """How the demo is run; what is joined says the plan."""

    instances: int
    with_spark: bool = True
    with_dashboard: bool = False
    fresh: bool = False


def run_demo(
    plan: Plan, root: Path, options: Options, console: Console
) -> tuple[int, dict[str, Any]]:
    """Run the demo, or what is left of it; returns the exit code, and how it went as JSON."""
    if options.with_dashboard:
        need("dashboard", SERVER)
    folder = DemoFolder(root)
    folder.prepare(plan, fresh=options.fresh)
    with ExitStack() as stack:
        shown = _dashboard(folder, console, stack) if options.with_dashboard else None
        code, told = _demo(plan, folder, options, console)
        if shown is not None:
            told["dashboard"] = shown.url
            if not code and console.is_interactive:
                console.print(f"The dashboard is still there: {shown.url}   (Ctrl-C ends it)")
                with suppress(KeyboardInterrupt):  # there is nothing to continue
                    shown.wait()
    return code, told


def _dashboard(folder: DemoFolder, console: Console, stack: ExitStack) -> Dashboard:
    checkpoints = [str(folder.place(who).checkpoint) for who in (AUTO, HASH)]
    try:
        shown = dashboard(*checkpoints)
    except ArgumentError:  # somebody else is at the port
        shown = dashboard(*checkpoints, port=0)
    console.print(f"Dashboard: {shown.url}", markup=False, soft_wrap=True)
    return stack.enter_context(shown)


def _demo(
    plan: Plan, folder: DemoFolder, options: Options, console: Console
) -> tuple[int, dict[str, Any]]:
    gate, turns = Gate(), Turns(folder.turns)
    joins = make_joins(gate, plan, options.instances, with_spark=options.with_spark)
    names = [join.name for join in joins]
    earlier, begun, code = turns.done(AUTO), time.monotonic(), 0
    is_done = min(map(turns.done, names)) >= plan.batches
    results: dict[str, Found] = {}
    with ExitStack() as session:
        with make_screen(console, plan, names, turns) as screen:
            if not is_done:
                code = _contest(plan, folder, joins, gate, turns, screen, session)
            seconds = time.monotonic() - begun
            if not code:
                results = _results(folder, names, screen)
        if is_done:
            console.print(NOTHING_LEFT, markup=False)
        outcome = Outcome(_reports(folder), earlier, seconds, code)
        told = _told(plan, folder, outcome)
        if code:
            _say_stopped(plan, turns, names, console)
        else:
            found = findings(plan, turns, names, results)
            told |= to_json(found)
            code = 0 if found.are_equal else DIFFERENT
            _summarize(found, folder, console)
        # Spark stops here, behind the summary: nobody needs to wait for it to read on.
    return code, told


def _contest(
    plan: Plan,
    folder: DemoFolder,
    joins: Sequence[Join],
    gate: Gate,
    turns: Turns,
    screen: Screen,
    session: ExitStack,
) -> int:
    """Let the joins do what is left; returns the exit code."""
    screen.status("Starting Spark while the city's data is written")
    writing = folder.write(plan)
    tasks = {"spark.sql.shuffle.partitions": str(joins[0].tasks)}
    spark = session.enter_context(
        spark_session(
            "skewless demo", LOCAL, SETTINGS | tasks, folder.log, lambda: screen.status(STOPPING)
        )
    )
    _wait(writing, 2 * plan.batches, screen)
    screen.status("Preparing the joins")
    places = {name: folder.place(name) for name in (HASH, AUTO)}
    with StopRequest(lambda: screen.status(STOPPING)) as request, on_batch(listener(gate, places)):
        Contest(spark, plan, folder, joins, gate, turns, screen, request).run()
    return request.exit_code


def _wait(writing: Writing, files: int, screen: Screen) -> None:
    while not writing.is_done:
        screen.status("Writing the city's data:", f"{writing.files} of {files} files")
        writing.join(WAIT_SECONDS)
    if writing.error is not None:
        raise writing.error


def _results(folder: DemoFolder, names: Sequence[str], screen: Screen) -> dict[str, Found]:
    def look(who: str) -> Found:
        def told(rows: int) -> None:
            screen.status("Comparing the results", f"of {TITLES[who]}: {count(rows)} rows")

        return found_in(folder.place(who).output, told)

    return {who: look(who) for who in names}


def _reports(folder: DemoFolder) -> History:
    checkpoint = folder.place(AUTO).checkpoint
    is_there = (checkpoint / STATE_FOLDER / "query.json").exists()
    return history(str(checkpoint)) if is_there else History()


def _told(plan: Plan, folder: DemoFolder, outcome: Outcome) -> dict[str, Any]:
    """How it went, for programs: of Auto, all that it tells."""
    place = folder.place(AUTO)
    told = outcome.to_json()
    return told | {
        "finished": told["rows"] >= plan.batches * plan.rows,
        "input": str(folder.input),
        "output": str(place.output),
        "checkpoint": str(place.checkpoint),
    }


def _say_stopped(plan: Plan, turns: Turns, names: Sequence[str], console: Console) -> None:
    done = min(map(turns.done, names))
    console.print(f"stopped after {done} of {plan.batches} batches", markup=False)


def _summarize(found: Findings, folder: DemoFolder, console: Console) -> None:
    """Write what can be looked at later, and say what it was all about."""
    folder.plot.write_text(svg(found.plan, found.turns, found.joins), encoding="utf-8")
    try:
        report(str(folder.place(AUTO).checkpoint), folder.page)
        has_page = True
    except MissingPackageError:
        has_page = False
    print_summary(found, where_next(folder, has_page=has_page), console)
