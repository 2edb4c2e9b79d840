"""`skewless inspect`: what a query is, and what became of its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from skewless.cli.totals import total, total_of_operator
from skewless.cli.units import count, duration, percent, short, size
from skewless.cli.view import (
    Labels,
    balance_style,
    counts_line,
    decisions_table,
    facts,
    side_by_side,
)
from skewless.engine.hosts import added
from skewless.engine.report import BatchReport, OperatorReport

Query = Mapping[str, str]  # what a checkpoint says of its query, or of one operator in it

LATE, MATCHES = "late", "matches"
OUTCOMES = {"aggregation": "results", "three-way join": "triples"}  # by kind; else matches


def show(
    query: Query,
    reports: Sequence[BatchReport],
    shown: int,
    console: Console,
    *,
    decisions: bool = False,
) -> None:
    """Everything about a query, the most important line last."""
    console.print(facts([(name, _readable(name, value)) for name, value in _in_order(query)]))
    if not reports:
        console.print("\nNo batch has been committed yet.")
        return
    latest = reports[-shown:]
    operators = operators_of(latest)
    # The last operator's results are those of the query.
    outcome = _outcome(facts_of(query, operators[-1][0].name) if operators else query)
    console.print(*batches_tables(latest, console, outcome))
    if len(reports) > len(latest):
        console.print(
            f"the last {len(latest)} of {count(len(reports))} batches; --last shows more",
            style="dim",
        )
    if operators:
        console.print(operators_table(operators, query))
    for one in operators or [latest]:
        _show_load(one, query, console)
    for note in (f"batch {r.batch_id}: {note}" for r in latest for note in r.notes):
        console.print(Text(note, style="dim"))
    if any(r.hosts for r in latest):
        console.print(hosts_table(latest))
    if decisions:
        any_decided = any(r.decisions for r in latest)
        nothing = "No change of balance was proposed.\n"
        console.print(decisions_table(latest) if any_decided else nothing)
    console.print(Text(verdict(latest), style="bold"))


def operators_of(reports: Sequence[BatchReport]) -> list[Sequence[OperatorReport]]:
    """What each operator of a composed query did, batch by batch; none for a query of one."""
    return list(zip(*(r.operators for r in reports), strict=True))


def _in_order(query: Query) -> list[tuple[str, str]]:
    """What is said of the query, then of its operators, the lowest first."""
    operators = query.get("kind", "").split(" → ")

    def place(fact: tuple[str, str]) -> int:
        operator, is_of_one, _ = fact[0].partition(": ")
        return operators.index(operator) if is_of_one and operator in operators else -1

    return sorted(query.items(), key=place)


def facts_of(query: Query, operator: str) -> dict[str, str]:
    """What is said of one operator of a composed query."""
    prefix = f"{operator}: "
    return {k.removeprefix(prefix): v for k, v in query.items() if k.startswith(prefix)}


def _readable(name: str, value: str) -> str:
    """Bounds that are the same either way are said once."""
    lower, to, upper = value.partition(" to ")
    is_bound = name.endswith("within") and to
    return f"{upper}, earlier or later" if is_bound and lower == f"-{upper}" else value


def _outcome(query: Query) -> str:
    """What the rows are called that an operator emits."""
    return OUTCOMES.get(query.get("kind", ""), MATCHES)


def _key(query: Query) -> str:
    """The names of the key columns, without their types."""
    columns = query.get("by", query.get("left keys", "key"))
    return ", ".join(part.partition(" as ")[0] for part in columns.split(", "))


def _show_load(reports: Sequence[OperatorReport], query: Query, console: Console) -> None:
    """The load of an operator's instances next to its heaviest keys."""
    own = facts_of(query, reports[0].name)
    totals = total_of_operator(reports)
    title = f"{reports[0].name}: " if own else ""
    labels = Labels(key=_key(own or query))
    console.print(side_by_side(totals.instances, totals.heavy_keys, labels, title))


Column = tuple[str, Callable[[BatchReport], str | Text]]


def batches_tables(
    reports: Sequence[BatchReport], console: Console, outcome: str = MATCHES
) -> list[Table]:
    """One line per batch with everything that is counted; in two tables where one is too wide."""
    counted = _counts(reports, outcome)
    timed = _times_and_state(reports)
    together = _table(reports, counted + timed)
    unlimited = console.options.update_width(10_000)
    if Measurement.get(console, unlimited, together).maximum <= console.width:
        return [together]
    return [_table(reports, counted), _table(reports, timed)]


def _bare_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, collapse_padding=True)


def _table(reports: Sequence[BatchReport], columns: Sequence[Column]) -> Table:
    table = _bare_table()
    table.add_column("batch", justify="right", vertical="bottom")
    for heading, _ in columns:
        table.add_column(Text(heading), justify="right", vertical="bottom")
    for report in reports:
        table.add_row(str(report.batch_id), *(cell(report) for _, cell in columns))
    return table


def names_in(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """All names, in the order in which they come up."""
    return list(dict.fromkeys(name for some in counts for name in some))


def _number(number: int) -> Text:
    return Text(short(number), style="" if number else "dim")


def _balance(report: OperatorReport) -> Text:
    ratio = report.busiest_over_mean
    return Text(f"{ratio:.2f}", style=balance_style(ratio))


def _counts(reports: Sequence[BatchReport], outcome: str) -> list[Column]:
    """Every input, every cause of dropping that came up, and every counter."""

    def column(heading: str, of: Callable[[BatchReport], Mapping[str, int]], name: str) -> Column:
        return heading, lambda r: _number(of(r).get(name, 0))

    inputs = names_in(r.rows for r in reports)
    dropped = dict.fromkeys([LATE, *names_in(r.dropped for r in reports)])
    counters = [name for name in names_in(r.counters for r in reports) if name != MATCHES]
    return [
        *(column(_input(name, inputs), lambda r: r.rows, name) for name in inputs),
        *(column(name.replace(" ", "\n", 1), lambda r: r.dropped, name) for name in dropped),
        column(outcome, lambda r: r.counters, MATCHES),
        ("busiest/\nmean", _balance),
        *(column(name, lambda r: r.counters, name) for name in counters),
    ]


def _input(name: str, inputs: Sequence[str]) -> str:
    """What an input is called: in a composed query, after the operator that takes it."""
    return "rows" if len(inputs) == 1 else name.replace(".", "\n")


def _times_and_state(reports: Sequence[BatchReport]) -> list[Column]:
    def phase(name: str) -> Column:
        heading = name.replace(": ", "\n").replace(" and ", "\nand ")
        return heading, lambda r: Text(duration(r.phases_ms.get(name, 0.0)), style="dim")

    phases = dict.fromkeys(name for r in reports for name in r.phases_ms)
    return [
        ("time", lambda r: duration(r.duration_ms)),
        *(phase(name) for name in phases),
        ("state\nrows", lambda r: short(r.state_rows)),
        ("state\nsize", lambda r: size(r.state_bytes)),
    ]


def operators_table(operators: Sequence[Sequence[OperatorReport]], query: Query) -> Table:
    """One line per operator of a composed query: sums over the batches, and its state now."""
    table = _bare_table()
    for heading in ("operator", "took in", "dropped", "gave"):
        table.add_column(heading, vertical="bottom")
    for heading in ("busiest/\nmean", "state\nrows", "state\nsize"):
        table.add_column(heading, justify="right", vertical="bottom")
    for reports in operators:
        name, last, totals = reports[0].name, reports[-1], total_of_operator(reports)
        others = {n: c for n, c in totals.counters.items() if n != MATCHES}
        ratio = totals.busiest_over_mean
        table.add_row(
            name,
            counts_line(totals.inputs),
            counts_line(totals.dropped),
            counts_line({_outcome(facts_of(query, name)): totals.matches} | others),
            Text(f"{ratio:.2f}", style=balance_style(ratio)),
            short(last.state_rows),
            size(last.state_bytes),
        )
    return table


def hosts_table(reports: Sequence[BatchReport]) -> Table:
    """One line per host: what it fetched from the store and wrote there, in the mean batch."""
    table = _bare_table()
    table.add_column("host, in the mean batch")
    for heading in ("fetched", "written", "requests", "cache hits"):
        table.add_column(heading, justify="right")
    sums = added(item for report in reports for item in report.hosts.items())
    for host, counts in sorted(sums.items()):
        mean = {name: count // len(reports) for name, count in counts.items()}
        asked = counts.get("hits", 0) + counts.get("misses", 0)
        table.add_row(
            host,
            size(mean.get("fetched_bytes", 0)),
            size(mean.get("written_bytes", 0)),
            count(mean.get("requests", 0)),
            percent(counts.get("hits", 0) / asked) if asked else "",
        )
    return table


def verdict(reports: Sequence[BatchReport]) -> str:
    """What one would say when asked how the join is doing: the last batch's verdict, how the work
    was shared over all that are shown, and what was lost."""
    accepted = sum(d.accepted for r in reports for d in r.decisions)
    changes = f" ({count(accepted)} change{'s' * (accepted > 1)})" if accepted else ""
    totals = total(reports)
    over_all = f"{totals.busiest_over_mean:.2f} over all shown{changes}"
    idle = [f"{name} is idle" for name in reports[-1].idle]
    said = "; ".join(filter(None, [reports[-1].verdict, over_all, *idle]))
    return f"{said}. Rows are lost: {totals.loss}" if totals.loss else said
