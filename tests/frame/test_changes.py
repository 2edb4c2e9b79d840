"""What may change on a checkpoint: a query is stopped between two batches and goes on as another
one. The result is that of an oracle which knows when it changed; crashes make no difference."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skewless.engine.changes import columns_in, not_stored, refusal_of_columns
from skewless.engine.pipeline import Pipeline
from skewless.errors import CheckpointMismatchError
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from skewless.operators.join_type import JOIN_TYPES, JoinType
from skewless.operators.pair import JoinSpec
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.balancing import Auto
from skewless.placement.routing import ContRand, Hash
from skewless.state import compaction
from skewless.state.commits import QUERY_FILE, read_checked
from tests.crashes import CrashError, assert_nothing_is_left_over, crash_at
from tests.frame.kit import chained
from tests.frame.kits import PLACED, Placed, aggregate, aggregation
from tests.frame.specs import join_spec, side_spec
from tests.frame.streams import LATE_S, SECOND_US, Rows, Stream, asked, busy, rows_of, streams
from tests.queries import PipelineRun, Streams

BATCHES = 6
SQL = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN",
    "left_semi": "SEMI JOIN", "left_anti": "ANTI JOIN",
}  # fmt: skip
HOWS = pytest.mark.parametrize("how", list(SQL))


@pytest.fixture(autouse=True)
def _early_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)


@dataclass(frozen=True)
class Query:
    """A join of the streams a and b, as it is from some batch on."""

    how: str = "inner"
    within_s: tuple[int, int] = (-6, 6)
    late_s: int = LATE_S
    placed: Placed = PLACED[0]
    columns: tuple[str, ...] = ("a_k", "a_t", "a_x", "a_id")
    slots: int = 8

    @property
    def kind(self) -> JoinType:
        return JOIN_TYPES[self.how]

    def spec(self) -> JoinSpec:
        a, b = (pa.schema([schema.field(n) for n in names]) for schema, names in (
            (Stream("a", ()).schema, self.columns), (Stream("b", ()).schema, B_COLUMNS)))  # fmt: skip
        sides = side_spec(a, ["a_k"], "a_t", self.late_s), side_spec(b, ["b_k"], "b_t", self.late_s)
        spec = join_spec(*sides, *self.within_s)
        shown = tuple(c for c in spec.output if c.side in self.kind.shown)
        return replace(spec, how=self.kind, output=shown)

    def operator(self) -> JoinOperator:
        return JoinOperator(self.spec(), *self.placed, slots=self.slots)

    def pipeline(self) -> Pipeline:
        return Pipeline.of(self.operator())


B_COLUMNS = ("b_k", "b_t", "b_x", "b_id")


class Story:
    """Streams in batches, and the queries that work on them one after the other, over one state."""

    def __init__(self, folder: Path, arriving: Sequence[Stream], first: Query) -> None:
        self._arriving, self.query = arriving, first
        self.run = PipelineRun(folder / "state", first.pipeline(), folder / "out", keep_commits=3)

    def take_over(self, query: Query) -> None:
        self.run.start(query.pipeline())
        self.query = query

    def batches(self, begin: int, end: int) -> None:
        for number in range(begin, end):
            self.run.run_streams(number, self._rows(number))

    def _rows(self, number: int) -> Streams:
        a, b = (s.batch(*ends(s, number)) for s in self._arriving)
        return [[[a.select(list(self.query.columns))]], [[b]]]

    def published(self) -> Rows:
        """Where columns were added, files have others: they are read as the last query has them."""
        assert_nothing_is_left_over(self.run)
        return rows_of(self.run.published_table())


def ends(stream: Stream, number: int) -> tuple[int, int]:
    """The rows of a batch. The last has the row that ends a stream, and nothing else."""
    rows = len(stream.rows) - 1
    at = [*(rows * n // (BATCHES - 1) for n in range(BATCHES)), rows + 1]
    return at[number], at[number + 1]


# The oracle of changed bounds ---------------------------------------------------------------------


def changed_at(arriving: Sequence[Stream], before: int, queries: tuple[Query, Query]) -> int:
    """The left time from which on a new bound holds, in microseconds, if the query changes before
    a batch: no left row was seen, and all that a longer bound reaches to is there."""
    latest = [
        max((t for _, t, _ in s.rows[: ends(s, before)[0]]), default=None) for s in arriving
    ]  # fmt: skip
    if latest[0] is None:
        return 0
    moments = [latest[0] * SECOND_US + 1]
    if latest[1] is not None:
        old, new = (q.within_s for q in queries)
        watermark_s = min(t for t in latest if t is not None) - queries[0].late_s
        moments.append((watermark_s + max(0, old[0] - new[0], -old[1])) * SECOND_US)
    return max(moments)


def joined(
    how: str, bounds: Sequence[tuple[int, tuple[int, int]]], arriving: Sequence[Stream]
) -> Rows:
    """Rows joined by the bound that holds since the last moment before the left one's time."""
    cases = " ".join(
        f"WHEN a_t >= {since} THEN b_t - a_t BETWEEN {lower * SECOND_US} AND {upper * SECOND_US}"
        for since, (lower, upper) in reversed(bounds)
    )
    return asked(f"SELECT * FROM a {SQL[how]} b ON a_k = b_k AND CASE {cases} END", arriving)


WITHINS = st.sampled_from([(-6, 6), (-2, 2), (-9, 9), (0, 12), (-12, -1), (2, 8), (-3, 0), (0, 0)])
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def check_other_bounds(data: st.DataObject, how: str) -> None:
    arriving = data.draw(streams("a", "b"))
    at = sorted(data.draw(st.lists(st.integers(0, BATCHES), min_size=1, max_size=2, unique=True)))
    query = Query(how, data.draw(WITHINS))
    bounds = [(-1 << 62, query.within_s)]
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), arriving, query)
        for begin, end in pairwise([0, *at, BATCHES]):
            if begin in at:
                placed = data.draw(st.sampled_from(PLACED))
                other = replace(story.query, within_s=data.draw(WITHINS), placed=placed)
                story.take_over(replace(other, within_s=data.draw(WITHINS)))  # before any commit
                if other.within_s != query.within_s:
                    moment = changed_at(arriving, begin, (query, other))
                    bounds.append((max(moment, bounds[-1][0]), other.within_s))
                story.take_over(other)
                query = other
            story.batches(begin, end)
        found, expected = story.published(), joined(how, bounds, arriving)
    assert found == expected, f"missing {expected - found}, too many {found - expected}"


@HOWS
@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_another_bound(data: st.DataObject, how: str) -> None:
    check_other_bounds(data, how)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@HOWS
@settings(max_examples=500, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_another_bound_at_length(data: st.DataObject, how: str) -> None:
    check_other_bounds(data, how)
