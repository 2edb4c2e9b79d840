"""What happens in the demo, in words: chapters, and what is worth a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skewless.cli.demo.folder import EVENT_BATCH, Plan
from skewless.cli.demo.turns import AUTO, HASH, Turn, Turns
from skewless.cli.units import count
from skewless.cli.view import EVEN, UNEVEN
from skewless.placement.figures import Decision

ORDINARY, BEGINS, GOES_ON = "an ordinary day", "the concert begins", "the concert goes on"


@dataclass(frozen=True)
class Chapter:
    """Some batches in a row that belong together."""

    title: str
    batches: range


def has_event(plan: Plan) -> bool:
    return plan.event > 0 and plan.batches > EVENT_BATCH


def split_after(plan: Plan, turns: Turns) -> int | None:
    """The batch after which Auto first split the cell of the event, if it has."""
    own = range(EVENT_BATCH, plan.batches)
    subject = f"key {plan.city.event_cell}"
    return next((t.batch for t in turns.of(AUTO, own) if _splits(t, subject)), None)


def _splits(turn: Turn, subject: str) -> bool:
    return any(_is_split(change) and change.subject == subject for change in turn.changes)


def _is_split(change: Decision) -> bool:
    return change.kind == "split"


def chapters(plan: Plan, turns: Turns) -> list[Chapter]:
    """The story so far: what comes before the event, until Auto has split its cell, and since."""
    if not has_event(plan):
        return [Chapter(ORDINARY, range(plan.batches))]
    found = [Chapter(ORDINARY, range(EVENT_BATCH))]
    split = split_after(plan, turns)
    end = plan.batches if split is None else split + 1
    found.append(Chapter(BEGINS, range(EVENT_BATCH, end)))
    if end < plan.batches:
        found.append(Chapter(GOES_ON, range(end, plan.batches)))
    return found


def tale(plan: Plan, turns: Turns) -> list[tuple[int, str]]:
    """Batches and what is to be said of them, in order. More turns only add to it."""
    said = [(0, _ordinary(plan))]
    for turn in turns.of(AUTO):
        said += [(turn.batch, text) for text in _of_auto(plan, turns, turn)]
    return sorted(said, key=lambda line: line[0])


def _ordinary(plan: Plan) -> str:
    return (
        f"An ordinary day: each batch has {count(plan.orders)} orders and {count(plan.tracks)} "
        "reports of taxis. A fifth of the cells has four fifths of the orders."
    )


def _of_auto(plan: Plan, turns: Turns, turn: Turn) -> Iterator[str]:
    cell, is_first = plan.city.event_cell, turn.batch == EVENT_BATCH and has_event(plan)
    if is_first:
        yield (
            f"A concert begins in cell {cell}: {share(turn.cell_rows)} of all rows are there "
            f"from now on, and {share(turn.cell_results)} of all results."
        )
        yield from _straggling(turns, turn.batch)
    split = split_after(plan, turns)
    if split is not None and turn.batch == _even_again(turns, split):
        yield (
            f"Auto is even again: its busiest task has {turn.busiest_over_mean:.2f} times the mean."
        )
    if turn.changes:
        yield changes_text(turn, cell)


def _straggling(turns: Turns, batch: int) -> Iterator[str]:
    for turn in turns.of(HASH, [batch]):
        if turn.busiest_over_mean > UNEVEN:
            others = len(turn.loads) - 1
            yield (
                f"Hash leaves the cell to one task, which now has {turn.busiest_over_mean:.1f} "
                f"times the mean; the other {others} are done long before."
            )


def _even_again(turns: Turns, split: int) -> int | None:
    later = (turn for turn in turns.of(AUTO) if turn.batch > split)
    return next((turn.batch for turn in later if turn.busiest_over_mean <= EVEN), None)


def changes_text(turn: Turn, cell: int) -> str:
    """What Auto has changed after a batch: splits by name and reason, the rest by number."""
    tasks = len(turn.loads)
    splits = [change for change in turn.changes if _is_split(change)]
    told = [
        f"splits {_cell(change.subject)} over {_tasks(change.target, tasks)} "
        f"({_reason(turn, change, cell)})"
        for change in splits
    ]
    rest = len(turn.changes) - len(splits)
    if rest:
        told.append(f"gives {rest} {'range' if rest == 1 else 'ranges'} of cells to idler tasks")
    return f"Auto {', and '.join(told)}."


def _reason(turn: Turn, change: Decision, cell: int) -> str:
    """Why a cell is split. Auto reckons with averages of some batches, which lag behind a cell
    that has just turned hot: of the event's, it is told what it has now."""
    even = 1 / len(turn.loads)
    if change.subject != f"key {cell}" or turn.cell_work <= even:
        return change.reason
    return f"it has {share(turn.cell_work)} of the work, an even share is {share(even)}"


def _cell(subject: str) -> str:
    return subject.replace("key", "cell", 1)


def _tasks(target: str, tasks: int) -> str:
    """
    >>> _tasks("instances 0, 2", 8), _tasks("instances 0, 1", 2)
    ('tasks 0, 2', 'all 2 tasks')
    """
    is_all = target.count(",") + 1 == tasks
    return f"all {tasks} tasks" if is_all else target.replace("instance", "task", 1)


def share(part: float) -> str:
    """
    >>> share(0.0499), share(0.616)
    ('5 %', '62 %')
    """
    return f"{100 * part:.0f} %"
