"""`skewless inspect`: what a query is, and what became of its batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from skewless.cli.totals import nulls, total
from skewless.cli.units import count, duration, short, size
from skewless.cli.view import Labels, balance_style, decisions_table, facts, side_by_side
from skewless.durations import format_duration_us
from skewless.engine.report import BatchReport


def show(
    query: dict[str, str],
    reports: Sequence[BatchReport],
    shown: int,
    console: Console,
    *,
    decisions: bool = False,
) -> None:
    """Everything about a query, the most important line last."""
    console.print(facts([(name, _told(name, value)) for name, value in query.items()]))
    if not reports:
        console.print("\nNo batch has been committed yet.")
        return
    latest = reports[-shown:]
    console.print(*batches_tables(latest, console, query.get("kind", "")))
    if len(reports) > len(latest):
        console.print(
            f"the last {len(latest)} of {count(len(reports))} batches; --last shows more",
            style="dim",
        )
    totals = total(latest)
    console.print(side_by_side(totals.instances, totals.heavy_keys, Labels(key=_key(query))))
    if decisions:
        told = any(r.decisions for r in latest)
        console.print(decisions_table(latest) if told else "No change of balance was proposed.\n")
    console.print(Text(verdict(latest), style="bold"))


def _told(name: str, value: str) -> str:
    """Microseconds are for machines."""
    if name != "within" or not value.endswith(" microseconds"):
        return value
    lower, upper = (int(n) for n in value.removesuffix(" microseconds").split(" to "))
    if lower == -upper:
        return f"{format_duration_us(upper)}, earlier or later"
    return f"{format_duration_us(lower)} to {format_duration_us(upper)}"


def _key(query: dict[str, str]) -> str:
    """The names of the key columns, without their types."""
    told = query.get("by", query.get("left keys", ""))
    if query.get("kind") == THREE_WAY:
        told = "key"
    return ", ".join(part.partition(" as ")[0] for part in told.split(", "))


def batches_tables(reports: Sequence[BatchReport], console: Console, kind: str = "") -> list[Table]:
    """One line per batch with everything that is counted; in two tables where one is too wide."""
    counted = _counts(kind)
    timed = _times_and_state(reports)
    together = _table(reports, counted + timed)
    unlimited = console.options.update_width(10_000)
    if Measurement.get(console, unlimited, together).maximum <= console.width:
        return [together]
    return [_table(reports, counted), _table(reports, timed)]


THREE_WAY = "three-way join"
NAMES_OF_COUNTS = {  # what the inputs and the outcome of a kind of query are called
    "aggregation": ("rows", "", "", "results"),
    THREE_WAY: ("r", "s", "t", "triples"),
}

Column = tuple[str, Callable[[BatchReport], str | Text]]


def _table(reports: Sequence[BatchReport], columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("batch", justify="right", vertical="bottom")
    for heading, _ in columns:
        table.add_column(heading.replace(" and ", "\nand "), justify="right", vertical="bottom")
    for report in reports:
        table.add_row(str(report.batch_id), *(cell(report) for _, cell in columns))
    return table


def _counts(kind: str) -> list[Column]:
    def counted(number: int) -> Text:
        return Text(short(number), style="" if number else "dim")

    def balance(report: BatchReport) -> Text:
        ratio = report.busiest_over_mean
        return Text(f"{ratio:.2f}", style=balance_style(ratio))

    left, right, third, outcome = NAMES_OF_COUNTS.get(kind, ("left", "right", "", "matches"))
    columns: list[Column] = [(left, lambda r: counted(r.rows_left))]
    if right:
        columns.append((right, lambda r: counted(r.rows_right)))
    if third:
        columns.append((third, lambda r: counted(r.rows_third)))
    columns += [
        ("late", lambda r: counted(r.late)),
        ("nulls", lambda r: counted(nulls(r))),
        (outcome, lambda r: counted(r.matches)),
        ("busiest/\nmean", balance),
    ]
    if third:
        columns.append(("kept\npairs", lambda r: counted(r.intermediates)))
    return columns


def _times_and_state(reports: Sequence[BatchReport]) -> list[Column]:
    def phase(name: str) -> Column:
        return name, lambda r: Text(duration(r.phases_ms.get(name, 0.0)), style="dim")

    phases = dict.fromkeys(name for r in reports for name in r.phases_ms)
    return [
        ("time", lambda r: duration(r.duration_ms)),
        *(phase(name) for name in phases),
        ("state\nrows", lambda r: short(r.state_rows)),
        ("state\nsize", lambda r: size(r.state_bytes)),
    ]


def verdict(reports: Sequence[BatchReport]) -> str:
    """What one would say when asked how the join is doing: the last batch's verdict, and how the
    work was shared over all that are shown."""
    accepted = sum(d.accepted for r in reports for d in r.decisions)
    changes = f" ({count(accepted)} change{'s' * (accepted > 1)})" if accepted else ""
    over_all = f"{total(reports).busiest_over_mean:.2f} over all shown{changes}"
    return f"{reports[-1].verdict}; {over_all}" if reports[-1].verdict else over_all
