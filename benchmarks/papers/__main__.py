"""``python -m benchmarks.papers [--quick] [--json] [--only NAME]``: see `benchmarks.papers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.measure import ROOT, Json, say
from benchmarks.papers import fastjoin, lsstream, pdstream, s3j, trijoin
from benchmarks.papers.document import Results, all_items, closing, tally, write_document
from benchmarks.papers.model import Paper, Scale
from benchmarks.papers.running import measured_side_by_side
from benchmarks.tables import console, machine, machine_line

PAPERS: tuple[Paper, ...] = (
    fastjoin.PAPER, lsstream.PAPER, pdstream.PAPER, trijoin.PAPER, s3j.PAPER,
)  # fmt: skip
COLOURS = {"reproduced": "green", "trend only": "cyan", "opposite": "red"}


def report(results: Results) -> Json:
    """What `--json` prints; the page has more."""
    return {
        "items": [
            item.to_json(paper.name)
            for paper, experiments in results.items()
            for item in all_items(experiments)
        ]
    }


def show(out: Console, results: Results) -> None:
    same = able = 0
    for paper, experiments in results.items():
        table = Table(title=paper.name, title_justify="left")
        for heading in ("", "what", "paper", "ours", "verdict", "why"):
            table.add_column(heading, overflow="fold")
        for i in all_items(experiments):
            colour = COLOURS.get(i.verdict, "white")
            verdict = f"[{colour}]{i.verdict}[/]"
            table.add_row(i.item, i.what, i.paper_value, i.ours, verdict, i.why)
        out.print(table)
        counts = tally(all_items(experiments))
        same += counts["reproduced"] + counts["trend only"]
        able += sum(counts.values()) - counts["not comparable"]
    out.print(closing(same, able))


def chosen(only: str | None) -> tuple[Paper, ...]:
    """The papers that are named, separated by commas; hyphens and case do not matter."""
    if only is None:
        return PAPERS
    names = [name.replace("-", "").strip().upper() for name in only.split(",")]
    known = {paper.option: paper for paper in PAPERS}
    for name in names:
        if name not in known:
            choices = ", ".join(known)
            raise typer.BadParameter(f"{name!r} is none of {choices}", param_hint="--only")
    return tuple(paper for option, paper in known.items() if option in names)


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="Three minutes of it: smaller, the same figures.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    only: Annotated[
        str | None, typer.Option(help="Papers, separated by commas: FASTJOIN, LSSTREAM, …")
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option(
            help="Where the page is written, its plots beside it.",
            show_default="docs/papers.md, if all is measured in full",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many papers are measured at once.")] = 2,
) -> None:
    """Measure every figure and table of the five papers, ours beside theirs."""
    papers, told = chosen(only), machine()
    results = measured_side_by_side(papers, Scale(quick), jobs)
    if docs is None and papers == PAPERS and not quick:
        docs = ROOT / "docs" / "papers.md"
    if docs is not None:
        for path in write_document(docs, results, machine_line(told)):
            say(str(path))
    if as_json:
        print(json.dumps(report(results)))
    else:
        show(console(), results)


if __name__ == "__main__":
    typer.run(main)
