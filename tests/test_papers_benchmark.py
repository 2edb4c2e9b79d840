"""The evaluation of the papers: that every figure has its item, and what the command promises."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from benchmarks.papers.__main__ import PAPERS, chosen, report
from benchmarks.papers.document import write_document
from benchmarks.papers.model import Experiment, Item, Paper, Plot, Reading, Scale, Sheet
from benchmarks.papers.running import measured

ROOT = Path(__file__).resolve().parents[1]
QUICK_S = 180
AN_ITEM = Item("fig. 1", "what", "1", "plot", "2 | 3", "trend only", "because")


def spent_by_children_s() -> float:
    """The processor time of processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def a_paper(expected: tuple[str, ...] = ("fig. 1",)) -> Paper:
    sheet = Sheet("a sheet", ("a", "b"), (("1", "2"),))
    plot = Plot("toy", "a plot", "x", "y", {"one": [(0, 1), (1, 2)]})
    experiment = Experiment("a run", "a setting", (AN_ITEM,), (sheet,), (plot,))
    reading = Reading("an element", "vacuous", "there is none")
    return Paper("Toy", "nobody", expected, lambda scale: iter([experiment]), (reading,))


def test_a_figure_that_nothing_is_told_of_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"fig\. 2"):
        measured(a_paper(("fig. 1", "fig. 2")), Scale())


def test_the_page_has_every_item_sheet_plot_and_reading(tmp_path: Path) -> None:
    paper = a_paper()
    written = write_document(tmp_path / "papers.md", {paper: measured(paper, Scale())}, "a machine")
    page = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert [path.name for path in written] == ["papers.md", "toy.png"]
    for told in ("fig. 1", "2 \\| 3", "a setting", "| 1 | 2 |", "plots/toy.png", "an element"):
        assert told in page
    assert "Of 1 figures and tables that can exist on one machine, 1 are reproduced" in page


def test_json_has_what_is_promised() -> None:
    paper = a_paper()
    told = report({paper: measured(paper, Scale())})
    assert json.loads(json.dumps(told)) == {
        "items": [
            {
                "paper": "Toy",
                "item": "fig. 1",
                "verdict": "trend only",
                "paper_value": "1",
                "ours": "2 | 3",
                "why": "because",
            }
        ]
    }


def test_papers_are_chosen_by_name() -> None:
    assert [p.name for p in chosen("fastjoin,LS-Stream")] == ["FastJoin", "LS-Stream"]
    with pytest.raises(typer.BadParameter, match="SLOWJOIN"):
        chosen("slowjoin")


@pytest.mark.parametrize("empty", ["item", "why"])
def test_an_item_must_say_something(empty: str) -> None:
    with pytest.raises(ValueError, match=empty):
        Item(**(vars(AN_ITEM) | {empty: " "}))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_quick_run_attempts_everything_in_three_minutes() -> None:
    """Of two cores: what others do on this machine does not count."""
    command = [sys.executable, "-m", "benchmarks.papers", "--quick", "--json"]
    before_s = spent_by_children_s()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert spent_by_children_s() - before_s <= 2 * QUICK_S
    items = json.loads(done.stdout)["items"]
    assert {item["paper"] for item in items} == {paper.name for paper in PAPERS}
    assert all(item["verdict"] != "not attempted" for item in items)
