"""Turns of a demo that never ran: a concert in batch 5, which Auto splits after batch 9."""

from __future__ import annotations

from pathlib import Path

from skewless.cli.demo.folder import EVENT_BATCH, Plan
from skewless.cli.demo.turns import AUTO, HASH, SPARK, Turn, Turns
from skewless.placement.figures import Decision

PLAN = Plan(batches=24, rows=1_000, drift=0.0, seed=7, event=0.05)
CELL = PLAN.city.event_cell
JOINS = (SPARK, HASH, AUTO)
SPLIT_AFTER = 9
SPLIT = Decision(
    "split", f"key {CELL}", "instance 2", "instances 0, 2, 5", "61% of the work", True, 4_200
)
MOVE = Decision("move", "slot 5", "instance 1", "instance 0", "relief", True, 7)
EVEN, UNEVEN = (10.0, 10.0, 10.0, 10.0), (10.0, 5.0, 70.0, 5.0)
SECONDS = {SPARK: 2.0, HASH: 0.5, AUTO: 0.4}


def a_turn(who: str, batch: int, seconds: float | None = None) -> Turn:
    is_event = batch >= EVENT_BATCH
    is_even = not is_event or (who == AUTO and batch > SPLIT_AFTER)
    changes = {2: (MOVE, MOVE), SPLIT_AFTER: (SPLIT, MOVE)} if who == AUTO else {}
    return Turn(
        who,
        batch,
        SECONDS[who] if seconds is None else seconds,
        100,
        EVEN if is_even else UNEVEN,
        0.05 if is_event and who != SPARK else 0.0,
        0.6 if is_event and who != SPARK else 0.0,
        changes.get(batch, ()),
        cold=batch == 0,
    )


def the_story(folder: Path, up_to: int = PLAN.batches, joins: tuple[str, ...] = JOINS) -> Turns:
    folder.mkdir(exist_ok=True)
    turns = Turns(folder / "turns.jsonl")
    for batch in range(up_to):
        for who in joins:
            turns.add(a_turn(who, batch))
    return turns
