"""What may change on a checkpoint: a query is stopped between two batches and goes on as another
one. The result is that of an oracle which knows when it changed; crashes make no difference."""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine.changes import columns_in, not_stored, refusal_of_columns
from skewless.engine.pipeline import Pipeline
from skewless.errors import CheckpointMismatchError
from skewless.operators.asof.operator import AsofOperator
from skewless.operators.asof.spec import AsofSpec
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from skewless.operators.join_type import JOIN_TYPES, JoinType
from skewless.operators.pair import JoinSpec, OutputColumn
from skewless.operators.similarity.operator import SimilarityOperator
from skewless.operators.similarity.strategies import S3J, AutoSimilarity, SimilarityStrategy
from skewless.operators.two_way.operator import JoinOperator
from skewless.placement.balancing import Auto
from skewless.placement.grouping import ShuffleGrouping
from skewless.placement.routing import ContRand, Hash
from skewless.state import compaction
from skewless.state.commits import QUERY_FILE, read_checked
from tests.crashes import CrashError, assert_nothing_is_left_over, crash_at
from tests.frame.kit import chained
from tests.frame.kits import PLACED, Placed, aggregate, aggregation, similar_spec, windows_of
from tests.frame.specs import join_spec, side_spec
from tests.frame.streams import (
    LATE_S,
    SECOND_US,
    Rows,
    Stream,
    asked,
    busy,
    rows_of,
    streams,
)
from tests.queries import PipelineRun, Streams
from tests.strategies import examples

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
        whole, b = Stream("a", ()).schema, Stream("b", ()).schema
        a = pa.schema([whole.field(name) for name in self.columns])
        sides = side_spec(a, ["a_k"], "a_t", self.late_s), side_spec(b, ["b_k"], "b_t", self.late_s)
        spec = join_spec(*sides, *self.within_s)
        shown = tuple(c for c in spec.output if c.side in self.kind.shown)
        return replace(spec, how=self.kind, output=shown)

    def operator(self) -> JoinOperator:
        return JoinOperator(self.spec(), *self.placed, slots=self.slots)

    def pipeline(self) -> Pipeline:
        return Pipeline.of(self.operator())


class Story:
    """Streams in batches, and the queries that work on them one after the other, over one state."""

    def __init__(self, folder: Path, arriving: Sequence[Stream], first: Query) -> None:
        self._folder, self._arriving, self.query = folder, arriving, first
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
        """What a reader sees of the columns of now: files from before have null in new ones."""
        assert_nothing_is_left_over(self.run)
        files = sorted((self._folder / "out").glob("*.arrow"))
        tables = [self.run.schema.empty_table(), *(pa.ipc.open_file(f).read_all() for f in files)]
        every = pa.concat_tables(tables, promote_options="default")
        return rows_of(every.select(self.run.schema.names))


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


def check_other_bounds(data: st.DataObject, how: str) -> None:
    arriving = data.draw(streams("a", "b"))
    at = sorted(
        data.draw(st.lists(st.integers(1, BATCHES - 1), min_size=1, max_size=2, unique=True))
    )
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
@examples(8)
@given(data=st.data())
def test_another_bound(data: st.DataObject, how: str) -> None:
    check_other_bounds(data, how)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@HOWS
@examples(500)
@given(data=st.data())
def test_another_bound_at_length(data: st.DataObject, how: str) -> None:
    check_other_bounds(data, how)


# Everything else ----------------------------------------------------------------------------------


def told(story: Story) -> list[str]:
    """What the reports say about changes, batch by batch."""
    folder = Path(story.run.root) / "history"
    reports = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return [note for report in reports for note in report["notes"]]


def of_all(how: str, arriving: Sequence[Stream], within_s: tuple[int, int] = (-6, 6)) -> Rows:
    return joined(how, [(-1 << 62, within_s)], arriving)


FREE = {
    "late, longer": Query(late_s=LATE_S + 7),
    "strategy and instances": Query(placed=(ContRand(2), 4)),
    "balancing": Query(placed=(Auto(floor_ms=0, noise=0, patience=1), 3)),
    "slots": Query(slots=16),
}


@pytest.mark.parametrize("other", FREE.values(), ids=list(FREE))
@pytest.mark.parametrize("how", ["inner", "full"])
def test_what_may_be_anything(tmp_path: Path, how: str, other: Query) -> None:
    arriving = busy("a", "b")
    story = Story(tmp_path, arriving, Query(how))
    story.batches(0, 3)
    story.take_over(replace(other, how=how))
    story.batches(3, 5)
    story.take_over(Query(how, placed=(Hash(), 1)))
    story.batches(5, BATCHES)
    assert story.published() == of_all(how, arriving)
    assert told(story) == []


def reached(arriving: Sequence[Stream], batches: int, late_s: int) -> float:
    """The watermark that so many batches lead to."""
    seen = [[t for _, t, _ in s.rows[: ends(s, batches - 1)[1]]] for s in arriving]
    return min(max(times) for times in seen) - late_s if batches and all(seen) else -math.inf


def test_another_lateness_judges_from_then_on(tmp_path: Path) -> None:
    arriving, lates = busy("a", "b"), (LATE_S, LATE_S, 0, 0, LATE_S, LATE_S)
    story = Story(tmp_path, arriving, Query("full"))
    watermark, late = -math.inf, {"a": [-1], "b": [-1]}
    for number, late_s in enumerate(lates):
        story.take_over(Query("full", late_s=late_s))
        story.batches(number, number + 1)
        watermark = max(watermark, reached(arriving, number, late_s))
        for s in arriving:
            late[s.name] += [i for i in range(*ends(s, number)) if s.rows[i][1] < watermark]
        watermark = max(watermark, reached(arriving, number + 1, late_s))  # it never falls again
    assert sum(map(len, late.values())) > len(late)
    a, b = (f"(FROM {n} WHERE {n}_id NOT IN {tuple(late[n])}) AS {n}" for n in "ab")
    near = "a_k = b_k AND abs(a_t - b_t) <= 6000000"
    assert story.published() == asked(f"SELECT * FROM {a} FULL JOIN {b} ON {near}", arriving)


NEW = ("a_id", "a_x", "a_t", "a_k")  # one more than before, and in another order
OLD = ("a_k", "a_t", "a_id")


def check_new_columns(folder: Path, how: str, arriving: Sequence[Stream], at: int) -> Story:
    story = Story(folder, arriving, Query(how, columns=OLD))
    story.batches(0, at)
    story.take_over(Query(how, columns=NEW))
    story.batches(at, BATCHES)
    a, b = arriving
    first = ends(a, at)[0]
    rows = tuple((k, t, None if n < first else x) for n, (k, t, x) in enumerate(a.rows))
    shown = ", ".join(story.run.schema.names)
    near = "a_k = b_k AND abs(a_t - b_t) <= 6000000"
    expected = asked(f"SELECT {shown} FROM a {SQL[how]} b ON {near}", (Stream("a", rows), b))
    assert story.published() == expected
    return story


@HOWS
def test_new_columns(tmp_path: Path, how: str) -> None:
    for at in (1, 3, 5):
        story = check_new_columns(tmp_path / str(at), how, busy("a", "b"), at)
        assert told(story) == ["the left input has new columns, null in rows from before: a_x"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@HOWS
@examples(200)
@given(arriving=streams("a", "b"), at=st.integers(1, BATCHES - 1))
def test_new_columns_at_length(how: str, arriving: Sequence[Stream], at: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_new_columns(Path(folder), how, arriving, at)


Columns = tuple[str, ...]


def stream_a(columns: Columns) -> pa.Schema:
    return pa.schema([Stream("a", ()).schema.field(name) for name in columns])


def deduplicating(columns: Columns) -> Pipeline:
    side = side_spec(stream_a(columns), ["a_k"], "a_t")
    return Pipeline.of(DeduplicateOperator(DeduplicateSpec(side, SECOND_US), 2))


def nearest(columns: Columns) -> Pipeline:
    spec = Query(columns=columns).spec()
    tolerance = 5 * SECOND_US
    asof = AsofSpec.of(spec.left, spec.right, "nearest", tolerance, spec.output)
    return Pipeline.of(AsofOperator(asof, Hash(), 2, 8))


def alike(strategy: SimilarityStrategy) -> Callable[[Columns], Pipeline]:
    def pipeline(columns: Columns) -> Pipeline:
        a, spec = stream_a(columns), similar_spec()
        left = replace(
            spec.left, schema=a, vector=(a.get_field_index("a_x"),), time=a.get_field_index("a_t")
        )
        output = tuple(OutputColumn("left", i, name) for i, name in enumerate(columns))
        output += tuple(c for c in spec.output if c.side == "right")
        changed = replace(spec, left=left, output=output)
        return Pipeline.of(SimilarityOperator(changed, strategy, 2))

    return pipeline


OTHERS: dict[str, tuple[Callable[[Columns], Pipeline], Columns, str]] = {
    "deduplicate": (deduplicating, ("a_k", "a_t", "a_id"), "a_x"),
    "asof_join": (nearest, ("a_k", "a_t", "a_id"), "a_x"),
    "similarity_join": (alike(AutoSimilarity()), ("a_id", "a_t", "a_x"), "a_k"),
    "… by S3J": (alike(S3J(tolerance=0.0, migration_cost=0.0)), ("a_id", "a_t", "a_x"), "a_k"),
}


@pytest.mark.parametrize(("make", "old", "new"), OTHERS.values(), ids=list(OTHERS))
def test_new_columns_of_other_operators(
    make: Callable[[Columns], Pipeline], old: Columns, new: str, tmp_path: Path
) -> None:
    """As if they had been there from the beginning, but for what is null in rows of then."""

    def results(folder: str, changed_with: int) -> list[dict[str, Any]]:
        run, found = PipelineRun(tmp_path / folder, make(old)), []
        for number in range(BATCHES):
            columns = (new, *reversed(old)) if number >= changed_with else old
            if number == changed_with:
                run.start(make(columns))
            rows = [s.batch(*ends(s, number)) for s in arriving]
            rows[0] = rows[0].select(list(columns))
            inputs = [[[batch]] for batch in rows[: len(run.pipeline.root.operator.inputs)]]
            found += run.run_streams(number, inputs).results.to_pylist()
        return found

    arriving = busy("a", "b")
    whole, found = results("whole", 0), results("changed", 3)
    values = {row["a_id"]: row[new] for row in whole}
    first = ends(arriving[0], 3)[0]
    assert sum(row.get(new) is not None for row in found) > 3
    for row in found:
        assert row.pop(new, None) == (None if row["a_id"] < first else values[row["a_id"]])
    assert multiset(found) == multiset([{k: v for k, v in r.items() if k != new} for r in whole])


def multiset(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows)


def test_another_direction_is_refused(tmp_path: Path) -> None:
    spec = Query().spec()
    run = PipelineRun(tmp_path, nearest(OLD))
    other = AsofSpec.of(spec.left, spec.right, "backward", 5 * SECOND_US, spec.output)
    with pytest.raises(CheckpointMismatchError, match="direction"):
        run.start(Pipeline.of(AsofOperator(other, Hash(), 2, 8)))


REFUSED = {
    "how": (Query("left"), "how"),
    "a column less": (Query(columns=("a_k", "a_t", "a_x")), "'a_id' is gone"),
    "no limit": (Query(within_s=(-(1 << 43), 1 << 43)), "a bound without limit"),
    "no lower limit": (Query(within_s=(-(1 << 43), 3)), "a bound without limit"),
    "no upper limit": (Query(within_s=(-3, 1 << 43)), "a bound without limit"),
}


@pytest.mark.parametrize(("other", "why"), REFUSED.values(), ids=list(REFUSED))
def test_what_must_stay_is_refused_saying_why(tmp_path: Path, other: Query, why: str) -> None:
    story = Story(tmp_path, busy("a", "b"), Query())
    story.batches(0, 2)
    before = read_checked(story.run.query.folder, QUERY_FILE)
    with pytest.raises(CheckpointMismatchError, match=why):
        story.take_over(other)
    assert read_checked(story.run.query.folder, QUERY_FILE) == before
    story.take_over(Query())


def test_another_type_is_refused(tmp_path: Path) -> None:
    spec = Query().spec()
    at = spec.left.schema.get_field_index("a_id")
    other = spec.left.schema.set(at, pa.field("a_id", pa.string()))
    run = PipelineRun(tmp_path, Query().pipeline())
    operator = replace(
        Query().operator(), spec=replace(spec, left=replace(spec.left, schema=other))
    )
    with pytest.raises(CheckpointMismatchError, match="'a_id' was int64: cast it back"):
        run.start(Pipeline.of(operator))


@pytest.mark.parametrize("point", ["batch.begun", "instance.worked", "commit.begun"])
def test_until_its_first_commit_a_change_can_be_taken_back(tmp_path: Path, point: str) -> None:
    arriving = busy("a", "b")
    story = Story(tmp_path, arriving, Query(columns=OLD))
    story.batches(0, 3)
    before = read_checked(story.run.query.folder, QUERY_FILE)
    story.take_over(Query(within_s=(-2, 2), columns=NEW))
    with pytest.raises(CrashError), crash_at(point):
        story.batches(3, 4)
    assert read_checked(story.run.query.folder, QUERY_FILE) == before
    story.take_over(Query(columns=OLD))
    story.batches(3, BATCHES)
    assert story.published() == Counter(
        {(*row[:2], *row[3:]): n for row, n in of_all("inner", arriving).items()}
    )
    assert told(story) == []


@pytest.mark.parametrize("point", ["commit.written", "publish.done", "cleanup.done"])
def test_after_its_first_commit_a_change_is_a_fact(tmp_path: Path, point: str) -> None:
    arriving = busy("a", "b")
    story = Story(tmp_path, arriving, Query(columns=OLD))
    story.batches(0, 3)
    story.take_over(Query(columns=NEW))
    with pytest.raises(CrashError), crash_at(point):
        story.batches(3, 4)
    with pytest.raises(CheckpointMismatchError, match="'a_x' is gone"):
        story.take_over(Query(columns=OLD))
    story.take_over(Query(columns=NEW))
    story.batches(3, BATCHES)
    recorded = read_checked(story.run.query.folder, QUERY_FILE)
    assert recorded["left columns"].startswith("a_id int64, a_x double")
    assert int(recorded["changed with batch"]) in (3, 4)  # older versions do not know it


def chained_to_windows(query: Query) -> Pipeline:
    spec = query.spec()
    above = aggregation(spec.output_schema(), "a_k", "b_t", "a_x")
    return chained(query.operator(), aggregate(above, (ShuffleGrouping(), 2)))


def test_a_join_below_another_operator_takes_a_longer_bound_only(tmp_path: Path) -> None:
    arriving, longer = busy("a", "b"), (-9, 8)
    run = PipelineRun(tmp_path / "state", chained_to_windows(Query()), tmp_path / "out")
    for number in range(BATCHES):
        if number == 3:
            with pytest.raises(
                CheckpointMismatchError, match="a shorter bound would make rows late"
            ):
                run.start(chained_to_windows(Query(within_s=(-9, 5))))
            run.start(chained_to_windows(Query(within_s=longer)))
        run.run_streams(number, [[[s.batch(*ends(s, number))]] for s in arriving])
    moment = changed_at(arriving, 3, (Query(), Query(within_s=longer)))
    pairs = (
        "SELECT * FROM a JOIN b ON a_k = b_k AND CASE "
        f"WHEN a_t >= {moment} THEN b_t - a_t BETWEEN -9000000 AND 8000000 "
        "ELSE abs(b_t - a_t) <= 6000000 END"
    )
    expected = asked(windows_of(f"({pairs})", "a_k", "b_t", "a_x"), arriving)
    assert rows_of(run.published_table()) == expected


def test_new_columns_of_a_join_of_a_join(tmp_path: Path) -> None:
    """They move the columns behind them; those of before are found by name, below and above."""

    def pipeline(columns: tuple[str, ...]) -> Pipeline:
        below = Query(columns=columns).operator()
        left = side_spec(below.output_schema(), ["b_k"], "b_t")
        right = side_spec(Stream("c", ()).schema, ["c_k"], "c_t")
        return chained(below, JoinOperator(join_spec(left, right), Hash(), 2, slots=8))

    arriving = busy("a", "b", "c")
    run = PipelineRun(tmp_path / "state", pipeline(OLD))
    found: Rows = Counter()
    for number in range(BATCHES):
        columns = OLD if number < 3 else NEW
        if number == 3:
            run.start(pipeline(NEW))
        a, b, c = (s.batch(*ends(s, number)) for s in arriving)
        results = run.run_streams(number, [[[a.select(list(columns))]], [[b]], [[c]]]).results
        if "a_x" not in results.column_names:
            results = results.append_column("a_x", pa.nulls(len(results), pa.float64()))
        found += rows_of(results.select(["a_id", "a_x", "b_id", "b_x", "c_id"]))
    first = ends(arriving[0], 3)[0]
    expected = asked(
        f"SELECT a_id, CASE WHEN a_id >= {first} THEN a_x END, b_id, b_x, c_id FROM a "
        "JOIN b ON a_k = b_k AND abs(a_t - b_t) <= 6000000 "
        "JOIN c ON b_k = c_k AND abs(b_t - c_t) <= 6000000",
        arriving,
    )
    assert found == expected


CONDITIONS = {"inner": True, "left_anti": True, "left": False, "full": False, "left_semi": False}


@pytest.mark.parametrize(("how", "may"), CONDITIONS.items())
def test_who_may_have_another_condition(how: str, may: bool) -> None:
    """Where pairs and rows alone come out, both must have been judged alike."""
    operator = Query(how).operator()
    facts = operator.fingerprint()
    adopted = operator.adopt(None, {**facts, "condition": "x > 1"}, facts, feeds=False)
    assert ("condition" in adopted.accepted) == may
    assert ("condition" in adopted.refused) != may


COLUMNS = "left columns"
BEFORE = {COLUMNS: "k int64, a decimal128(10, 2)", not_stored(COLUMNS): "b, c"}
OF_COLUMNS = {
    "asked for now": ({COLUMNS: "k int64, a decimal128(10, 2), b int8"}, "'b' was there"),
    "really new": ({**BEFORE, COLUMNS: "k int64, d int8, a decimal128(10, 2)"}, None),
    "nobody asks any more": ({COLUMNS: "k int64", not_stored(COLUMNS): "a, b, c"}, None),
    "gone": ({COLUMNS: "k int64", not_stored(COLUMNS): "b, c"}, "'a' is gone"),
    "another scale": ({COLUMNS: "k int64, a decimal128(10, 3)"}, "cast it back"),
}


@pytest.mark.parametrize(("after", "why"), OF_COLUMNS.values(), ids=list(OF_COLUMNS))
def test_columns_that_were_not_stored(after: dict[str, str], why: str | None) -> None:
    """Rows of before have lost what nobody asked for: it is not null there, it is unknown."""
    found = refusal_of_columns(BEFORE, after, COLUMNS, not_stored(COLUMNS))
    assert (found is None) == (why is None)
    assert (why or "") in (found or "")


def test_columns_are_told_from_their_facts() -> None:
    schema = pa.schema(
        [
            ("k", pa.int64()),
            ("a b", pa.timestamp("us", tz="UTC")),
            ("c", pa.struct([("x", pa.decimal128(10, 2)), ("y", pa.list_(pa.string()))])),
            ("d", pa.map_(pa.string(), pa.int32())),
        ]
    )
    text = ", ".join(f"{f.name} {f.type}" for f in schema)
    assert columns_in(text) == {f.name: str(f.type) for f in schema}
    assert columns_in("a < b int64, c int64") == {}
