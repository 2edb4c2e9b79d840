"""What the demo tells: chapters, lines, summary and plot, of turns that are made up."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from skewless.cli.demo.folder import DemoFolder
from skewless.cli.demo.plot import svg
from skewless.cli.demo.proof import Found
from skewless.cli.demo.screen import PlainScreen, State, batch_line, frame, make_screen
from skewless.cli.demo.story import BEGINS, GOES_ON, ORDINARY, chapters, split_after, tale
from skewless.cli.demo.summary import faster, findings, lines, table, to_json, where_next
from skewless.cli.demo.turns import AUTO, HASH, SPARK, Turn, Turns, median_seconds, turn_of
from skewless.engine.report import BatchReport, InstanceLoad, KeyShare
from skewless.placement.figures import Figures, WatchedKey
from tests.demo.made_up import CELL, JOINS, MOVE, PLAN, SPLIT, SPLIT_AFTER, a_turn, the_story

SAME = dict.fromkeys(JOINS, Found(2_400, 7))


# Turns and their file


def test_turns_are_kept(tmp_path: Path) -> None:
    turns = the_story(tmp_path)
    again = Turns(tmp_path / "turns.jsonl")
    assert [again.of(who) for who in JOINS] == [turns.of(who) for who in JOINS]
    assert again.of(AUTO, [3, 99, 9]) == [a_turn(AUTO, 3), a_turn(AUTO, 9)]
    assert [again.done(who) for who in (*JOINS, "other")] == [24, 24, 24, 0]


def test_a_turn_that_is_repeated_counts_once(tmp_path: Path) -> None:
    turns = the_story(tmp_path, 2)
    turns.add(a_turn(HASH, 1, seconds=9.0))
    for some in (turns, Turns(tmp_path / "turns.jsonl")):
        assert [turn.seconds for turn in some.of(HASH)] == [0.5, 9.0]


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    the_story(tmp_path, 2)
    with (tmp_path / "turns.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"who": "auto", "batch": 2})[:-5])
    assert Turns(tmp_path / "turns.jsonl").done(AUTO) == 2


def test_a_turn_from_a_report() -> None:
    keys = (WatchedKey(1, str(CELL), 0, isolated=True), WatchedKey(2, "5", 1))
    own, slots = Figures.zeros(2), Figures.zeros(2)
    own.matches[:], slots.matches[:] = [9, 1], [2, 1]
    own.time_left_ms[:], own.time_right_ms[:] = [18.0, 1.0], [6.0, 1.0]
    told = BatchReport(
        name="join",
        batch_id=3,
        counters={"matches": 12},
        instances=(InstanceLoad(0, work_ms=30.0), InstanceLoad(1, work_ms=10.0)),
        heavy_keys=(KeyShare(str(CELL), 0.05), KeyShare("5", 0.01)),
        decisions=(SPLIT, replace(MOVE, accepted=False)),
        slots=slots,
        keys=keys,
        key_figures=own,
    )
    turn = turn_of(AUTO, told, 1.5, CELL)
    assert turn == Turn(AUTO, 3, 1.5, 12, (30.0, 10.0), 0.05, 0.75, (SPLIT,), False, 0.6)
    assert turn.busiest_over_mean == 1.5
    other = turn_of(AUTO, told, 1.5, CELL + 1)
    assert (other.cell_results, other.cell_work) == (0, 0)


def test_first_batches_do_not_count() -> None:
    some = [replace(a_turn(AUTO, 0, 9.0), cold=True), a_turn(AUTO, 1, 1.0), a_turn(AUTO, 2, 3.0)]
    assert median_seconds(some) == 2.0
    assert median_seconds(some[:1]) == 9.0, "there is no other"


# The story


def test_chapters(tmp_path: Path) -> None:
    assert [(c.title, c.batches) for c in chapters(PLAN, the_story(tmp_path))] == [
        (ORDINARY, range(5)),
        (BEGINS, range(5, SPLIT_AFTER + 1)),
        (GOES_ON, range(SPLIT_AFTER + 1, 24)),
    ]


def test_chapters_without_a_split_or_an_event(tmp_path: Path) -> None:
    turns = the_story(tmp_path, SPLIT_AFTER)
    assert split_after(PLAN, turns) is None
    assert [c.title for c in chapters(PLAN, turns)] == [ORDINARY, BEGINS]
    for plan in (replace(PLAN, event=0.0), replace(PLAN, batches=5)):
        assert [c.title for c in chapters(plan, turns)] == [ORDINARY]


def test_the_split_of_another_cell_is_none_of_this(tmp_path: Path) -> None:
    turns = the_story(tmp_path, 9)
    turns.add(replace(a_turn(AUTO, 9), changes=(replace(SPLIT, subject=f"key {CELL}1"),)))
    assert split_after(PLAN, turns) is None


def test_the_tale(tmp_path: Path) -> None:
    told = tale(PLAN, the_story(tmp_path))
    assert [batch for batch, _ in told] == [0, 2, 5, 5, 9, 10]
    texts = [text for _, text in told]
    assert texts[1] == "Auto gives 2 ranges of cells to idler tasks."
    assert texts[2] == (
        f"A concert begins in cell {CELL}: 5 % of all rows are there from now on, and 60 % of all "
        "results."
    )
    assert texts[3].startswith("Hash leaves the cell to one task, which now has 3.1 times the mean")
    assert texts[4] == (
        f"Auto splits cell {CELL} over tasks 0, 2, 5 (61% of the work), and gives 1 range of cells "
        "to idler tasks."
    )
    assert texts[5] == "Auto is even again: its busiest task has 1.00 times the mean."


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (0.58, "(it has 58 % of the work, an even share is 25 %)"),
        (0.1, "(61% of the work)"),
        (0.0, "(61% of the work)"),
    ],
)
def test_a_split_is_told_by_the_work_at_that_time(tmp_path: Path, work: float, said: str) -> None:
    turns = the_story(tmp_path)
    turns.add(replace(a_turn(AUTO, SPLIT_AFTER), cell_work=work))
    (told,) = (text for _, text in tale(PLAN, turns) if "splits cell" in text)
    assert told.startswith(f"Auto splits cell {CELL} over tasks 0, 2, 5 {said}, and gives")


def test_what_was_told_stays(tmp_path: Path) -> None:
    turns, before = Turns(tmp_path / "turns.jsonl"), [(-1, "")][:0]
    for batch in range(PLAN.batches):
        for who in JOINS:
            turns.add(a_turn(who, batch))
            now = tale(PLAN, turns)
            assert now[: len(before)] == before
            before = now


# The screen


def a_state(turns: Turns) -> State:
    return State(PLAN, JOINS, turns, "batch 3: Hash", HASH)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 20), (120, 30)])
def test_the_view_fits(tmp_path: Path, width: int, height: int) -> None:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(frame(a_state(the_story(tmp_path)), console.size))
    drawn = console.export_text().splitlines()
    assert max(map(len, drawn)) <= width and len(drawn) <= console.height
    (auto,) = (line for line in drawn if line.startswith("Auto "))
    assert "400 ms" in auto and "2,500" in auto and "1.00" in auto and "████" in auto
    assert any("24 of 24 batches: the concert goes on" in line for line in drawn)
    assert any("splits cell" in line for line in drawn)
    assert any("Auto is even again" in line for line in drawn), "the end of the story is seen"


def test_the_view_before_anything_has_happened(tmp_path: Path) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(frame(State(PLAN, JOINS, Turns(tmp_path / "none"), "Starting"), console.size))
    assert "busiest" not in console.export_text()


def test_plain_lines(tmp_path: Path) -> None:
    file = io.StringIO()
    console = Console(file=file, width=200)
    turns = Turns(tmp_path / "turns.jsonl")
    with make_screen(console, PLAN, JOINS, turns) as screen:
        assert isinstance(screen, PlainScreen)
        screen.status("Writing", "1 of 2")
        screen.status("Writing", "2 of 2")
        for batch in range(PLAN.batches):
            for who in (*JOINS[batch % 3 :], *JOINS[: batch % 3]):
                screen.working(who, batch)
                turns.add(a_turn(who, batch))
                screen.turn(a_turn(who, batch))
    told = file.getvalue().splitlines()
    assert "\x1b" not in file.getvalue()
    assert told.count("Writing") == 1
    assert told[1] == "Times are medians of the last 3 batches."
    batches = [line for line in told if line.startswith("batch ")]
    assert len(batches) == PLAN.batches
    assert batches[12] == (
        "batch 12 of 24, the concert goes on: Spark's own 2.00 s (busiest/mean 3.11*), Hash 500 ms "
        "(busiest/mean 3.11), Auto 400 ms (busiest/mean 1.00)"
    )
    said = [line.strip() for line in told if line.startswith("  ")]
    assert said == [text for _, text in tale(PLAN, turns)], "each once, in order"
    concert = next(i for i, line in enumerate(told) if "A concert begins" in line)
    assert told[concert - 1].startswith("batch 5 of 24")


def test_one_slow_batch_is_no_news_in_plain_lines(tmp_path: Path) -> None:
    turns = the_story(tmp_path)
    turns.add(a_turn(AUTO, 12, 0.838))
    turns.add(a_turn(AUTO, 13, 0.5))
    told = [batch_line(a_state(turns), batch).rpartition("Auto ")[2] for batch in (0, 12, 13)]
    assert [line.partition(" (")[0] for line in told] == [
        "400 ms with its start",
        "400 ms",
        "500 ms",
    ]


def test_plain_lines_of_a_demo_that_goes_on(tmp_path: Path) -> None:
    file, turns = io.StringIO(), the_story(tmp_path, 10)
    with make_screen(Console(file=file, width=200), PLAN, JOINS, turns) as screen:
        for who in JOINS:
            turns.add(a_turn(who, 10))
            screen.turn(a_turn(who, 10))
    told = file.getvalue().splitlines()[2:]
    assert [line[:8] for line in told] == ["batch 10", "  Auto i"]


# The summary


def the_lines(turns: Turns, joins: tuple[str, ...] = JOINS) -> str:
    results = {who: SAME[who] for who in joins}
    return "\n".join(lines(findings(PLAN, turns, joins, results)))


def test_the_summary(tmp_path: Path) -> None:
    told = the_lines(the_story(tmp_path))
    assert f"In batch 5 a concert began in cell {CELL}: 5 % of the rows, but 60 % of the" in told
    assert "split it after batch 9" in told
    assert "3.1 times the mean with Hash" in told and "1.00 times with Auto" in told
    assert "results were there after 400 ms with Auto, and after 500 ms with Hash" in told
    assert "evenness pays" not in told
    assert "Spark's own join took 2.00 s a batch: 5.0 times as long as Auto." in told
    assert "All three found the same 2,400 results." in told
    assert len(told.splitlines()) <= 8


@pytest.mark.parametrize(
    ("hashed", "said"),
    [
        ([0.41, 0.39], "no difference between Auto (400 ms a batch) and Hash (400 ms)"),
        ([0.2, 0.9], "stands out of the noise"),
        ([0.41, 0.39], "The busiest task has 70 ms of work with Hash, and 10 ms with Auto"),
        ([0.3, 0.3], "Auto took longer than Hash: 400 ms a batch, and 300 ms."),
    ],
)
def test_noise_is_no_result(tmp_path: Path, hashed: list[float], said: str) -> None:
    turns = the_story(tmp_path)
    for batch in range(5, 24):
        turns.add(a_turn(HASH, batch, hashed[batch % 2]))
    assert said in the_lines(turns)


def test_spark_may_be_faster(tmp_path: Path) -> None:
    turns = the_story(tmp_path)
    for batch in range(5, 24):
        turns.add(a_turn(SPARK, batch, 0.2))
    assert "Spark's own join took 200 ms, and was faster than Auto." in the_lines(turns)


def test_without_spark(tmp_path: Path) -> None:
    told = the_lines(the_story(tmp_path, joins=(HASH, AUTO)), (HASH, AUTO))
    assert "Spark" not in told and "Both found the same" in told


def test_different_results_are_told(tmp_path: Path) -> None:
    results = SAME | {AUTO: Found(2_400, 8)}
    found = findings(PLAN, the_story(tmp_path), JOINS, results)
    assert not found.are_equal and "THE RESULTS DIFFER" in lines(found)[-1]
    assert to_json(found)["same_results"] is False


def test_a_short_demo_says_nothing_of_a_concert(tmp_path: Path) -> None:
    plan = replace(PLAN, batches=3)
    found = findings(plan, the_story(tmp_path, 3), JOINS, SAME)
    assert "concert" not in "\n".join(lines(found)) and list(found.figures) == [ORDINARY]


def test_turns_that_were_lost(tmp_path: Path) -> None:
    found = findings(PLAN, Turns(tmp_path / "none"), JOINS, SAME)
    assert "All three found the same 2,400 results." in lines(found)
    table(found)


def test_few_batches_make_no_median(tmp_path: Path) -> None:
    found = findings(PLAN, the_story(tmp_path), JOINS, SAME)
    assert list(found.figures) == [ORDINARY, GOES_ON]
    short = replace(PLAN, batches=SPLIT_AFTER + 3)
    found = findings(short, the_story(tmp_path / "short", short.batches), JOINS, SAME)
    assert list(found.figures) == [ORDINARY, BEGINS], "two batches since the split"
    assert found.figures[BEGINS][HASH].ratio == pytest.approx(70 / 22.5)
    assert "During the concert that task has 3.1 times" in "\n".join(lines(found))


def test_the_table(tmp_path: Path) -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table(findings(PLAN, the_story(tmp_path), JOINS, SAME)))
    (auto,) = (line for line in console.export_text().splitlines() if "Auto" in line)
    assert auto.split() == ["Auto", "1.00", "1.00", "400", "ms", "2,400"]


def test_who_is_faster() -> None:
    even = [a_turn(AUTO, batch, 1.0) for batch in range(1, 9)]
    slow = [a_turn(HASH, batch, 1.0 + batch / 10) for batch in range(1, 9)]
    assert (faster(slow, even), faster(even, slow)) == (1, -1)
    assert faster(slow[:5], even) == 0, "too few to tell"
    far = [replace(turn, seconds=1.6) for turn in slow[:3]]
    assert (faster(far, even), faster(even, far)) == (1, -1)
    assert faster(far[:2], even) == 0
    assert faster([*far, replace(slow[4], seconds=1.4)], even) == 0
    assert faster([replace(turn, cold=True) for turn in slow], even) == 0
    near = [replace(turn, seconds=1.04) for turn in slow]
    assert (faster(near, even), faster(even, near)) == (0, 0)
    mixed = [replace(turn, seconds=(2.0, 0.9)[turn.batch % 2]) for turn in slow]
    assert (faster(mixed, even), faster(even, mixed)) == (0, 0)


def test_batch_by_batch_and_on_the_whole_agree() -> None:
    """Hash is slower by the medians of both, and faster in seven of nine batches."""
    pairs = [(1.1, 1.0)] * 2 + [(0.9, 1.0)] * 4 + [(3.0, 5.0)] * 3
    hashed = [a_turn(HASH, batch, seconds) for batch, (seconds, _) in enumerate(pairs, 1)]
    auto = [a_turn(AUTO, batch, seconds) for batch, (_, seconds) in enumerate(pairs, 1)]
    assert median_seconds(hashed) > median_seconds(auto)
    assert faster(hashed, auto) == 0


def test_where_to_go_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DemoFolder(tmp_path)
    monkeypatch.chdir(Path(__file__).parents[2])
    told = dict(where_next(folder, has_page=True))
    assert told["plot"] == f"{tmp_path}/story.svg"
    assert told["page of Auto's run"] == f"{tmp_path}/report.html"
    assert "pip install" in dict(where_next(folder, has_page=False))["page of Auto's run"]
    for name in (told["your own streams"].rpartition(" ")[2], told["what all this means"]):
        assert Path(name).exists()
    monkeypatch.chdir(tmp_path)
    told = dict(where_next(folder, has_page=True))
    assert told["your own streams"] == "skewless new" and "what all this means" not in told


# The plot


def test_the_plot(tmp_path: Path) -> None:
    drawn = ElementTree.fromstring(svg(PLAN, the_story(tmp_path), JOINS))
    name = "{http://www.w3.org/2000/svg}"
    drawn_lines = drawn.findall(f"{name}polyline")
    assert len(drawn_lines) == 2 * len(JOINS)
    points = [line.attrib["points"].split() for line in drawn_lines]
    assert {len(some) for some in points} == {PLAN.batches - 1}, "all but the first"
    heights = [[float(point.split(",")[1]) for point in some] for some in points[3:]]
    assert np.median(heights[1][10:]) < np.median(heights[2][10:]), "Hash is above Auto"
    texts = [text.text for text in drawn.iter(f"{name}text")]
    assert texts.count("the concert begins") == texts.count("Auto has split its cell") == 2


def test_the_plot_of_almost_nothing(tmp_path: Path) -> None:
    plan = replace(PLAN, batches=1)
    ElementTree.fromstring(svg(plan, the_story(tmp_path, 1), JOINS))
