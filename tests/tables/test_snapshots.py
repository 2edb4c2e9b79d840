"""Whether a batch is in an Iceberg table, by any history of it: against a plain reading of all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skewless.spark.tables.iceberg import parted
from skewless.spark.tables.snapshots import Snapshot, has_batch

BATCHES = [None, ("mine", 6), ("mine", 7), ("other", 7)]
MINE = ("mine", 7)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Snapshot], int | None]:
    """Snapshots of a table with branches; one of them is shown."""
    made: list[Snapshot] = []
    for number in range(draw(st.integers(0, 8))):
        parent = draw(st.sampled_from([None, *(s.id for s in made)]))
        made.append(Snapshot(100 + number, parent, draw(st.sampled_from(BATCHES))))
    head = draw(st.sampled_from([None, *(s.id for s in made)]))
    return made, head


def shown(snapshots: list[Snapshot], head: int | None) -> list[Snapshot]:
    """What a branch is made of, the latest first."""
    by_id = {s.id: s for s in snapshots}
    return [by_id[head], *shown(snapshots, by_id[head].parent)] if head is not None else []


@given(histories())
def test_with_all_snapshots(history: tuple[list[Snapshot], int | None]) -> None:
    snapshots, head = history
    line = shown(snapshots, head)
    for since in [None, *(s.id for s in line)]:
        ids = [s.id for s in line]
        after = line if since is None else line[: ids.index(since)]
        assert has_batch(snapshots, head, since, MINE) == (MINE in [s.batch for s in after])


@given(histories(), st.data())
def test_with_expired_snapshots(
    history: tuple[list[Snapshot], int | None], data: st.DataObject
) -> None:
    """What is said without them is never wrong: it is what is said with them, or nothing."""
    snapshots, head = history
    since = data.draw(st.sampled_from([None, *(s.id for s in snapshots)]))
    kept = [s for s in snapshots if data.draw(st.booleans())]
    told = has_batch(kept, head, since, MINE)
    assert told is None or told == has_batch(snapshots, head, since, MINE)


def test_a_table_that_was_rolled_back_does_not_have_the_batch() -> None:
    rolled_back = [Snapshot(1, None), Snapshot(2, 1, MINE)]
    assert has_batch(rolled_back, 2, 1, MINE) is True
    assert has_batch(rolled_back, 1, 1, MINE) is False


def test_branches_in_names() -> None:
    assert parted("lake.`my db`.t.`branch_audit`") == ("lake.`my db`.t", "audit")
    assert parted("branch_office.t") == ("branch_office.t", "main")
