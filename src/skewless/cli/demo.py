"""`skewless demo`: the orders and taxis of a city, joined where you can watch."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from skewless.cli.city_data import DemoFolder, Plan, Writing
from skewless.cli.display import Display, make_display
from skewless.cli.follow import STOPPING, Outcome, run_query
from skewless.cli.session import LOCAL, spark_session
from skewless.cli.totals import total
from skewless.cli.units import duration
from skewless.cli.view import Labels, balance_facts, print_summary, summary_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LABELS = Labels("orders", "tracks", "cell")
WITHIN = "2 minutes"
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
WAIT_SECONDS = 0.2


def run_demo(
    plan: Plan, root: Path, instances: int, *, fresh: bool, console: Console
) -> tuple[Outcome, dict[str, Any]]:
    """Run the demo, or what is left of it; returns how it went, and that as JSON."""
    folder = DemoFolder(root)
    folder.prepare(plan, fresh=fresh)
    reports = folder.joined(plan)
    with ExitStack() as session:
        if reports is not None:
            outcome = Outcome(reports, len(reports), 0.0, 0)
        else:
            title = f"orders ⋈ tracks on cell, within {WITHIN}: a city of {plan.city.cells:,} cells"
            with make_display(console, title, LABELS, plan.batches) as display:
                outcome = _join(plan, folder, instances, display, session)
        _summarize(plan, folder, outcome, console)
        # Spark stops here, behind the summary: nobody needs to wait for it to read on.
    return outcome, outcome.to_json() | {
        "finished": total(outcome.reports).rows >= plan.batches * plan.rows,
        "input": str(folder.input),
        "output": str(folder.output),
        "checkpoint": str(folder.checkpoint),
    }


def _join(
    plan: Plan, folder: DemoFolder, instances: int, display: Display, session: ExitStack
) -> Outcome:
    display.status("Starting Spark while the city's data is written")
    writing = folder.write(plan)
    spark = session.enter_context(
        spark_session(
            "skewless demo", LOCAL, SETTINGS, folder.log, lambda: display.status(STOPPING)
        )
    )
    _wait(writing, 2 * plan.batches, display)
    display.status("Preparing the join")
    return run_query(
        lambda: _start(spark, plan, folder, instances), str(folder.checkpoint), display
    )


def _wait(writing: Writing, files: int, display: Display) -> None:
    while not writing.is_done:
        display.status("Writing the city's data:", f"{writing.files} of {files} files")
        writing.join(WAIT_SECONDS)
    if writing.error is not None:
        raise writing.error


def _start(spark: SparkSession, plan: Plan, folder: DemoFolder, instances: int) -> StreamingQuery:
    import skewless as sk

    joined = sk.join(
        _stream(spark, plan, folder, "orders"),
        _stream(spark, plan, folder, "tracks"),
        on="cell",
        left_time="ordered_at",
        right_time="seen_at",
        within=WITHIN,
        instances=instances,
    )
    writer = joined.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder.checkpoint))
    # All of the demo stays in the history, however many batches it has.
    writer = writer.option("skewless.keepHistory", plan.batches + 2)
    return writer.start(str(folder.output))


def _stream(spark: SparkSession, plan: Plan, folder: DemoFolder, name: str) -> DataFrame:
    """A stream of the city that takes one file, a batch of the plan, at a time."""
    from pyspark.sql.pandas.types import from_arrow_schema

    import skewless as sk

    empty = getattr(plan.city, name)(0, datetime(2026, 1, 1, tzinfo=UTC), 1.0)
    reader = sk.readStream(spark).schema(from_arrow_schema(empty.schema))
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder.input / name))


def _summarize(plan: Plan, folder: DemoFolder, outcome: Outcome, console: Console) -> None:
    totals = total(outcome.reports)
    if not outcome.seconds:
        heading = f"all {plan.batches} batches were joined before"
    elif outcome.exit_code:
        heading = f"stopped after {totals.batches} of {plan.batches} batches"
    else:
        left = plan.batches - outcome.earlier
        batches = f"the other {left} of {plan.batches}" if outcome.earlier else f"{left}"
        heading = f"joined {batches} batches in {duration(outcome.seconds * 1000)}"
    places = [
        ("output", f"{folder.output}  (parquet)"),
        ("checkpoint", str(folder.checkpoint)),
        ("look closer", f"skewless inspect {folder.checkpoint}"),
    ]
    if not outcome.seconds:
        places.append(("start anew", "the same command with --fresh"))
    facts = summary_facts(totals, LABELS) if totals.batches else []
    facts += balance_facts(outcome.reports)
    print_summary(console, heading, [*facts, *places])
