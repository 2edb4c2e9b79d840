"""What the demo comes to, for somebody who knows nothing of joins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skewless.cli.demo.folder import EVENT_BATCH, DemoFolder, Plan
from skewless.cli.demo.proof import Found
from skewless.cli.demo.story import GOES_ON, ORDINARY, chapters, share, split_after
from skewless.cli.demo.turns import (
    AUTO,
    BY_RESULTS,
    HASH,
    SPARK,
    TITLES,
    Turn,
    Turns,
    median_ratio,
    median_seconds,
    ratio_text,
)
from skewless.cli.units import count, duration, short
from skewless.cli.view import balance_style

NOISE = 0.05  # two joins whose batches differ by less are as fast as each other
LEAST = 3  # batches that a median needs to be worth telling
LEAST_TIMED = 6  # batches done by both of two joins, to call one of them faster by so little
NOISE_OF_FEW = 0.5  # of fewer batches


@dataclass(frozen=True)
class Figures:
    """A join in a chapter: medians over its batches."""

    seconds: float
    ratio: float


@dataclass(frozen=True)
class Findings:
    """All that the summary tells; `figures` by chapter and join."""

    plan: Plan
    turns: Turns
    joins: Sequence[str]
    figures: Mapping[str, Mapping[str, Figures]]
    results: Mapping[str, Found]

    @property
    def are_equal(self) -> bool:
        return len(set(self.results.values())) == 1

    @property
    def last(self) -> str:
        """The last chapter that there are figures of."""
        return list(self.figures)[-1]


def findings(
    plan: Plan, turns: Turns, joins: Sequence[str], results: Mapping[str, Found]
) -> Findings:
    """Of the first chapter, and of the last that has enough batches."""
    first, *others = chapters(plan, turns)
    long = [c for c in others if min(len(turns.of(w, c.batches)) for w in joins) >= LEAST]
    figures = {
        chapter.title: {
            who: Figures(median_seconds(mine), median_ratio(mine))
            for who in joins
            for mine in [turns.of(who, chapter.batches)]
        }
        for chapter in (first, *long[-1:])
    }
    return Findings(plan, turns, joins, figures, results)


def lines(found: Findings) -> list[str]:
    """The story in a few sentences."""
    told = [_what(found)]
    if found.last != ORDINARY:
        told += [*_event(found), _evenness(found)]
    told += [_pace(found), *_against_spark(found), _equality(found)]
    return told


def _what(found: Findings) -> str:
    plan = found.plan
    rows = short(plan.batches * plan.rows)
    return (
        f"Orders of a city were joined with the taxis that came by within two minutes: {rows} rows "
        f"in {plan.batches} batches, the same for {_named(found.joins)}."
    )


def _named(joins: Sequence[str]) -> str:
    names = ["Spark's own join" if who == SPARK else TITLES[who] for who in joins]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _event(found: Findings) -> list[str]:
    plan, turns = found.plan, found.turns
    cell = plan.city.event_cell
    during = turns.of(AUTO, range(EVENT_BATCH, plan.batches))
    rows, found_there = median(t.cell_rows for t in during), median(t.cell_results for t in during)
    begun = (
        f"In batch {EVENT_BATCH} a concert began in cell {cell}: {share(rows)} of the rows, but "
        f"{share(found_there)} "
    )
    split = split_after(plan, turns)
    if split is None:
        return [f"{begun}of the results. Auto did not have to split the cell."]
    return [
        f"{begun}of the results. Auto named the cell and split it after batch {split}, while the "
        "join ran, without copying a row."
    ]


def _evenness(found: Findings) -> str:
    hashed, auto = (found.figures[found.last][who].ratio for who in (HASH, AUTO))
    tasks = len(found.turns.of(AUTO)[-1].loads)
    since = "Since then" if found.last == GOES_ON else "During the concert"
    return (
        f"A batch is ready when the busiest of its {tasks} tasks is. {since} that task has "
        f"{hashed:.1f} times the mean with Hash, which gives every key one place, and {auto:.2f} "
        "times with Auto."
    )


def _pace(found: Findings) -> str:
    """Auto against Hash in time, as far as it stands out of the noise: batch by batch, as both did
    each of them one after the other."""
    turns = [_in(found, who) for who in (HASH, AUTO)]
    hashed, auto = (duration(median_seconds(mine) * 1000) for mine in turns)
    apart = faster(*turns)
    here = f"On the {os.cpu_count()} cores of this machine"
    if apart > 0:
        return f"{here} results were there after {auto} with Auto, and after {hashed} with Hash."
    if apart < 0:
        return f"{here} Auto took longer than Hash: {auto} a batch, and {hashed}. {_why(*turns)}"
    return (
        f"{here} no difference between Auto ({auto} a batch) and Hash ({hashed}) stands out of the "
        f"noise. {_why(*turns)}"
    )


def _why(*turns: Sequence[Turn]) -> str:
    """Why evenness does not show in time."""
    hashed, auto = (
        duration(median([max(turn.loads, default=0.0) for turn in mine] or [0.0])) for mine in turns
    )
    return (
        f"The busiest task has {hashed} of work with Hash, and {auto} with Auto: evenness pays "
        "where there is more, and a core for every task."
    )


def _in(found: Findings, who: str) -> list[Turn]:
    batches = next(c.batches for c in chapters(found.plan, found.turns) if c.title == found.last)
    return found.turns.of(who, batches)


def faster(slow: Sequence[Turn], fast: Sequence[Turn]) -> int:
    """1 if the second join stands out as faster, -1 if the first does, else 0: in three quarters of
    the batches that both have done, and by the medians that are told. Of few batches all have to be
    far apart."""
    seconds = {turn.batch: turn.seconds for turn in fast if not turn.cold}
    ratios = [t.seconds / seconds[t.batch] for t in slow if not t.cold and t.batch in seconds]
    if len(ratios) < LEAST:
        return 0
    (low, _, high), noise = quantiles(ratios, n=4, method="inclusive"), NOISE
    if len(ratios) < LEAST_TIMED:
        low, high, noise = min(ratios), max(ratios), NOISE_OF_FEW
    whole = median_seconds(slow) / median_seconds(fast)
    if min(low, whole) > 1 + noise:
        return 1
    return -1 if max(high, whole) < 1 / (1 + noise) else 0


def _against_spark(found: Findings) -> list[str]:
    if SPARK not in found.joins:
        return []
    spark, auto = (found.figures[found.last][who].seconds for who in (SPARK, AUTO))
    apart = faster(_in(found, SPARK), _in(found, AUTO))
    took = duration(spark * 1000)
    if apart > 0:
        return [f"Spark's own join took {took} a batch: {spark / auto:.1f} times as long as Auto."]
    if apart < 0:
        return [f"Spark's own join took {took}, and was faster than Auto."]
    return [f"Spark's own join took {took}: no difference that stands out of the noise."]


def _equality(found: Findings) -> str:
    if found.are_equal:
        rows = next(iter(found.results.values())).rows
        both = "Both" if len(found.joins) == 2 else "All three"
        return f"{both} found the same {count(rows)} results."
    told = ", ".join(f"{TITLES[who]} {count(one.rows)}" for who, one in found.results.items())
    return f"THE RESULTS DIFFER, which is a mistake in skewless or in this demo: {told}."


def table(found: Findings) -> Table:
    """Medians of the chapters side by side. Of time only those of the last: in the first, Spark is
    still warming up."""
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    made.add_column("")
    for chapter in found.figures:
        made.add_column(f"{chapter}:\nbusiest/mean", justify="right")
    made.add_column("\ntime of a batch", justify="right")
    made.add_column("\nresults", justify="right")
    for who in found.joins:
        ratios = [figures[who].ratio for figures in found.figures.values()]
        made.add_row(
            TITLES[who],
            *(Text(ratio_text(who, ratio), style=balance_style(ratio)) for ratio in ratios),
            duration(found.figures[found.last][who].seconds * 1000),
            count(found.results[who].rows),
        )
    return made


def where_next(folder: DemoFolder, *, has_page: bool) -> list[tuple[str, str]]:
    """What to look at, and what to try."""
    checkpoints = f"{folder.place(AUTO).checkpoint} {folder.place(HASH).checkpoint}"
    page = str(folder.page) if has_page else 'pip install "skewless[dashboard]"'
    # Of an installed wheel there is no repository around.
    script, page_of_demo = Path("examples/ten_lines.py"), Path("docs/demo.md")
    in_python = f"; in Python: {script}" if script.exists() else ""
    meaning = [("what all this means", str(page_of_demo))] if page_of_demo.exists() else []
    return [
        ("plot", str(folder.plot)),
        ("page of Auto's run", page),
        ("why it did what", f"skewless inspect {folder.place(AUTO).checkpoint} --decisions"),
        ("in the browser", f"skewless dashboard {checkpoints}"),
        ("your own streams", f"skewless new{in_python}"),
        *meaning,
    ]


def print_summary(found: Findings, places: Sequence[tuple[str, str]], console: Console) -> None:
    """The end of the demo; in logs and pipes nothing is cut into lines."""
    wraps = console.is_terminal
    console.print()
    console.print(Text("What you have seen", style="bold cyan"))
    for line in lines(found):
        console.print(
            Padding(Text(line), (0, 0, 0, 2)) if wraps else f"  {line}", soft_wrap=not wraps
        )
    console.print(table(found))
    if SPARK in found.joins:
        console.print(Text(BY_RESULTS, style="dim"))
    console.print()
    console.print(Text("Where to go next", style="bold cyan"))
    for name, value in places:
        console.print(f"  {name:<22}{value}", markup=False, soft_wrap=True)


def to_json(found: Findings) -> dict[str, object]:
    return {
        "same_results": found.are_equal,
        "event_cell": found.plan.city.event_cell,
        "split_after": split_after(found.plan, found.turns),
        "joins": {
            who: {
                "results": found.results[who].rows,
                **{
                    chapter: {
                        "median_batch_s": round(figures[who].seconds, 4),
                        "busiest_over_mean": round(figures[who].ratio, 4),
                    }
                    for chapter, figures in found.figures.items()
                },
            }
            for who in found.joins
        },
    }
