"""Reports as things to look at: tables and bars, shared by all commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.bar import Bar
from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from skewless.cli.totals import Totals, speed
from skewless.cli.units import count, duration, percent, short
from skewless.engine.report import BatchReport, InstanceLoad, KeyShare, loads_ms
from skewless.placement.balancing.imbalance import max_over_mean

TICKS = "▁▂▃▄▅▆▇█"
KEYS_SHOWN = 8
INSTANCES_SHOWN = 16
VALUE_CHARS_MAX = 24
EVEN, UNEVEN = 1.15, 1.5  # busiest/mean: up to the first is even, above the second a straggler


@dataclass(frozen=True)
class Labels:
    """What the two inputs of a join and the key are called."""

    left: str = "left"
    right: str = "right"
    key: str = "key"

    def of(self, name: str) -> str:
        """What an input is called."""
        return {"left": self.left, "right": self.right}.get(name, name)


def balance_style(ratio: float) -> str:
    if ratio <= EVEN:
        return "green"
    return "yellow" if ratio <= UNEVEN else "red"


def sparkline(values: Sequence[float]) -> str:
    """Values as a row of small bars, the highest one full.

    >>> sparkline([1, 4, 8])
    '▁▄█'
    """
    most = max(values, default=0)
    if most <= 0:
        return ""
    return "".join(TICKS[max(0, round(v / most * len(TICKS)) - 1)] for v in values)


def batches_table(reports: Sequence[BatchReport], labels: Labels) -> Table:
    """One line per batch, as much as fits an ordinary terminal."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=True)
    inputs = dict.fromkeys(name for report in reports for name in report.rows)
    headings = ("batch", *map(labels.of, inputs), "matches", "time", "rows/s", "state")
    for heading in (*headings, "busiest/mean"):
        table.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        ratio = report.busiest_over_mean
        table.add_row(
            str(report.batch_id),
            *(count(report.rows.get(name, 0)) for name in inputs),
            count(report.matches),
            duration(report.duration_ms),
            short(speed(report)),
            f"{short(report.state_rows)} rows",
            Text(f"{ratio:.2f}", style=balance_style(ratio)),
        )
    return table


def load_table(loads: Sequence[InstanceLoad]) -> Table:
    """A bar per instance, by its counted work; the colour tells how far it is above the mean."""
    table = _bars("", "time", "rows", "pairs")
    work = dict(zip((x.instance for x in loads), loads_ms(loads).tolist(), strict=True))
    mean = sum(work.values()) / len(work) if work else 0
    most = max(work.values(), default=0)
    # When there are too many to show, the busiest ones are what one wants to see.
    chosen = sorted(loads, key=lambda x: -work[x.instance])[:INSTANCES_SHOWN]
    for load in sorted(chosen, key=lambda x: x.instance):
        style = balance_style(work[load.instance] / mean if mean else 1)
        table.add_row(
            str(load.instance),
            Bar(most or 1, 0, work[load.instance], color=style),
            duration(load.time_ms),
            short(load.rows),
            short(load.pairs),
        )
    if len(loads) > len(chosen):
        table.add_row("…", f"{len(loads) - len(chosen)} less busy ones", "", "", "")
    return table


def keys_table(keys: Sequence[KeyShare], labels: Labels) -> Table:
    """A bar per heavy key."""
    table = _bars(labels.key, "share")
    shown = keys[:KEYS_SHOWN]
    most = max((k.share for k in shown), default=0)
    for key in shown:
        bar = Bar(most or 1, 0, key.share, color="magenta")
        table.add_row(Text(shortened(key.value)), bar, percent(key.share))
    return table


def _bars(first: str, *figures: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, expand=True)
    table.add_column(first, no_wrap=True)
    table.add_column("", ratio=1, min_width=6)
    for figure in figures:
        table.add_column(figure, justify="right", no_wrap=True)
    return table


def shortened(value: str) -> str:
    return value if len(value) <= VALUE_CHARS_MAX else f"{value[: VALUE_CHARS_MAX - 1]}…"


def counts_line(counts: Mapping[str, int]) -> str:
    """Counts by name in one line.

    >>> counts_line({"left": 12, "right": 1_000})
    '12 left, 1,000 right'
    """
    return ", ".join(f"{count(number)} {name}" for name, number in counts.items())


def side_by_side(
    loads: Sequence[InstanceLoad], keys: Sequence[KeyShare], labels: Labels, title: str = ""
) -> Table:
    """Load per instance next to the heaviest keys. `title` says of what."""
    ratio = max_over_mean(loads_ms(loads))
    verdict = Text.assemble("busiest/mean ", (f"{ratio:.2f}", f"bold {balance_style(ratio)}"))
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(
        panel(load_table(loads), f"{title}load per instance", verdict),
        panel(keys_table(keys, labels), f"heaviest by {labels.key}", Text("share of all rows")),
    )
    return grid


def panel(content: RenderableType, title: str, subtitle: Text) -> Panel:
    return Panel(
        content,
        title=Text(title),
        title_align="left",
        subtitle=subtitle,
        subtitle_align="right",
        border_style="dim",
        box=box.ROUNDED,
    )


def facts(pairs: Sequence[tuple[str, str]]) -> Table:
    """Names and values, one pair to a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, Text(value))
    return grid


def summary_facts(
    totals: Totals, labels: Labels, *, filtered: bool = False
) -> list[tuple[str, str]]:
    """What a run comes to, for people. Matches are counted before Spark `filtered` them."""
    heavy = ", ".join(f"{shortened(k.value)} ({percent(k.share)})" for k in totals.heavy_keys[:3])
    inputs = counts_line({labels.of(name): rows for name, rows in totals.inputs.items()})
    before = "  (before a `where` that Spark runs)" if filtered else ""
    return [
        ("rows", f"{count(totals.rows)}  ({inputs})"),
        ("matches", f"{count(totals.matches)}{before}"),
        *((f"{cause}, dropped", count(rows)) for cause, rows in totals.dropped.items() if rows),
        *([("loses rows", totals.loss)] if totals.loss else []),
        ("throughput", f"{short(totals.median_rows_per_second)} rows/s in the median batch "
                       f"({duration(totals.median_ms)}), {short(totals.rows_per_second)} overall"),
        ("busiest/mean", f"{totals.busiest_over_mean:.2f} over {len(totals.instances)} instances"),
        (f"heaviest {labels.key}", heavy or "none stands out"),
    ]  # fmt: skip


def decisions_table(reports: Sequence[BatchReport]) -> Table:
    """Every change that was proposed, and what became of it."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for heading in ("after batch", "", "what", "from", "to", "rows", "why"):
        table.add_column(heading, justify="right" if heading in ("after batch", "rows") else "left")
    for report in reports:
        for decision in report.decisions:
            table.add_row(
                str(report.batch_id),
                Text(decision.kind, style="green" if decision.accepted else "dim"),
                Text(shortened(decision.subject)),
                decision.source.removeprefix("instance "),
                decision.target.removeprefix("instances ").removeprefix("instance "),
                short(decision.rows),
                Text(("" if decision.accepted else "refused: ") + decision.reason),
            )
    return table


def print_summary(console: Console, title: str, pairs: Sequence[tuple[str, str]]) -> None:
    """The end of a run: framed on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        lines = [title, *(f"{name}: {value}" for name, value in pairs)]
        console.print("\n".join(lines), markup=False, soft_wrap=True)
        return
    framed = Panel.fit(
        facts(pairs),
        title=Text(title, style="bold"),
        title_align="left",
        border_style="cyan",
        box=box.ROUNDED,
    )
    console.print(framed)
