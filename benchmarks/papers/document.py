"""`docs/papers.md`: what was measured of each paper, as a page with plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.papers.model import VERDICTS, Experiment, Item, Paper, Plot, Sheet

Results = Mapping[Paper, Sequence[Experiment]]

HEAD = """# The papers, figure by figure

Written by `make papers` (`python -m benchmarks.papers`); do not edit. Each figure and table of the
five papers stands beside what is measured here with the paper's parameters; *our defaults* is what
a user gets who says nothing. Verdicts: **reproduced**, every number within 15 % of the paper's (or
as the row says); **trend only**, the same order or direction; **opposite**, explained by an
experiment; **not comparable**, it cannot exist on one machine.
"""


def write_document(path: Path, results: Results, machine: str) -> list[Path]:
    """The page and its plots; the paths that were written."""
    plots = path.parent / "plots"
    parts = [HEAD, f"Machine: {machine}\n", _summary(results)]
    written = [path]
    for paper, experiments in results.items():
        parts.append(_paper(paper, experiments))
        for plot in (p for e in experiments for p in e.plots):
            written.append(draw(plot, plots))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), encoding="utf-8")
    return written


def tally(items: Sequence[Item]) -> dict[str, int]:
    """How many items have each verdict."""
    found = Counter(item.verdict for item in items)
    return {verdict: found.get(verdict, 0) for verdict in VERDICTS}


def all_items(experiments: Sequence[Experiment]) -> list[Item]:
    return [item for experiment in experiments for item in experiment.items]


def _summary(results: Results) -> str:
    rows = [(paper.name, tally(all_items(experiments))) for paper, experiments in results.items()]
    total = tally([item for experiments in results.values() for item in all_items(experiments)])
    rows.append(("all", total))
    able = sum(total.values()) - total["not comparable"]
    same = total["reproduced"] + total["trend only"]
    lines = _table(("paper", *VERDICTS), [(n, *map(str, c.values())) for n, c in rows])
    return f"{lines}\n{closing(same, able)}\n"


def closing(same: int, able: int) -> str:
    share = 100 * same / able if able else 0.0
    told = f"{same} are reproduced, at least in their trend: {share:.0f} %."
    return f"Of {able} figures and tables that can exist on one machine, {told}"


def _paper(paper: Paper, experiments: Sequence[Experiment]) -> str:
    parts = [f"## {paper.name}\n\n{paper.citation}\n"]
    columns = ("", "what", "paper", "read from", "ours", "our defaults", "verdict", "why")
    rows = [
        (i.item, i.what, i.paper_value, i.source, i.ours, i.defaults, f"**{i.verdict}**", i.why)
        for i in all_items(experiments)
    ]
    parts.append(_table(columns, rows))
    for experiment in experiments:
        parts.append(f"\n### {experiment.name}\n\n{experiment.setting}\n")
        parts += [f"{sheet.title}\n\n{_sheet(sheet)}" for sheet in experiment.sheets]
        parts += [f"![{plot.title}](plots/{plot.name}.png)\n" for plot in experiment.plots]
    if paper.readings:
        told = [(r.element, r.status, r.how) for r in paper.readings]
        parts.append("\n### Vacuous, replaced, read otherwise\n")
        parts.append(_table(("element", "status", "here"), told))
    return "\n".join(parts)


def _sheet(sheet: Sheet) -> str:
    return _table(sheet.columns, sheet.rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [_line(columns), _line(["---"] * len(columns)), *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def draw(plot: Plot, folder: Path) -> Path:
    """A plot as a small picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6, 3.6))
    for label, points in plot.lines.items():
        axis.plot([x for x, _ in points], [y for _, y in points], marker=".", label=label)
    axis.set_title(plot.title)
    axis.set_xlabel(plot.x)
    axis.set_ylabel(plot.y)
    axis.set_xscale("log" if plot.log_x else "linear")
    axis.set_yscale("log" if plot.log_y else "linear")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plot.name}.png"
    figure.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(figure)
    return path
