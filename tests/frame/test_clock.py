"""What is asked of streams by the clock, of every operator and pipeline: a stream that falls silent
does not hold time back, rows from the future do not move it. The oracle is asked about the rows
that a model of the watermark keeps, written for this test; crashes make no difference."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.engine.clock import ClockRules, Moment, noted_moment
from skewless.engine.pipeline import Pipeline
from skewless.state import compaction
from skewless.state.history import read_reports
from tests.crashes import POINTS, CrashError, assert_nothing_is_left_over, crash_at
from tests.frame.kit import Kit, chained
from tests.frame.kits import KITS, PLACED, Placed, join, joined
from tests.frame.specs import WITHIN_S
from tests.frame.streams import FAR_S, LATE_S, SECOND_US, Row, Stream, ended, rows_of
from tests.queries import PipelineRun
from tests.strategies import examples

BATCHES = 7
BEGAN_S = 1_700_000_000  # by the clock
IDLE_S = 60
AHEAD_S = 3600
BROKEN_S = BEGAN_S + 10_000_000  # a time that no row has by then
MUCH_LATER_S = 100_000  # what the clock shows to whoever looks twice in a batch
QUICK = ("left join", "asof_join forward, left", "join3 by AutoThree", "join → aggregate")
NEVER = float("-inf")


@dataclass(frozen=True)
class Arriving:
    """A stream, and the batch that each of its rows comes with."""

    stream: Stream
    batches: tuple[int, ...]
    may_idle: bool

    def rows_of(self, batch: int) -> list[int]:
        return [n for n, b in enumerate(self.batches) if b == batch]

    def task(self, batch: int) -> list[list[pa.RecordBatch]]:
        """Two tasks, one after the other in the stream."""
        rows = self.rows_of(batch)
        half = len(rows) // 2
        whole = self.stream.batch(0, len(self.stream.rows))
        return [[whole.take(pa.array(some, pa.int64()))] for some in (rows[:half], rows[half:])]


@dataclass(frozen=True)
class Kept(Stream):
    """Some rows of a stream, under the numbers that they have in it."""

    numbers: tuple[int, ...]

    def table(self) -> pa.Table:
        plain = super().table()
        last = [-1] * (len(self.rows) - len(self.numbers))
        numbers = pa.array([*self.numbers, *last], pa.int64())
        return plain.set_column(3, plain.schema.field(3), numbers)


@dataclass
class ModelNode:
    """An operator as far as time goes: seconds, row by row."""

    watermark: float = NEVER
    latest: dict[int, float] = field(default_factory=dict)
    heard: dict[int, float] = field(default_factory=dict)


@dataclass
class Model:
    """Which rows count, batch by batch."""

    pipeline: Pipeline
    arriving: Sequence[Arriving]
    late: int = 0
    ahead: int = 0

    def __post_init__(self) -> None:
        self.nodes = {node.name: ModelNode() for node in self.pipeline.nodes}
        self.kept: list[list[int]] = [[] for _ in self.arriving]

    def batch(self, number: int, clock: float) -> None:
        for node in self.pipeline.nodes:
            this, reached = self.nodes[node.name], []
            for i, feed in node.fed():
                if feed.source is not None:
                    below = self.nodes[feed.source]
                    reached.append(below.watermark - feed.lag_us / SECOND_US)
                    continue
                assert feed.stream is not None
                is_idle = self._take(feed.stream, this, number, clock)
                if not is_idle:
                    latest = this.latest.get(feed.stream, NEVER)
                    reached.append(latest - i.late_us / SECOND_US)
            this.watermark = max([this.watermark, *([min(reached)] if reached else [])])

    def _take(self, stream: int, node: ModelNode, number: int, clock: float) -> bool:
        """Take the rows of a stream in; whether it is idle."""
        this, silent = self.arriving[stream], True
        node.heard.setdefault(stream, clock)
        for row in this.rows_of(number):
            time = this.stream.rows[row][1]
            if time > clock + AHEAD_S:
                self.ahead += 1
                continue
            silent = False
            if time >= node.watermark:
                self.kept[stream].append(row)
            else:
                self.late += 1
        if not silent:
            node.heard[stream] = clock
        times = [this.stream.rows[n][1] for n, b in enumerate(this.batches) if b <= number]
        node.latest[stream] = max((t for t in times if t < BROKEN_S), default=NEVER)
        return this.may_idle and clock - node.heard[stream] >= IDLE_S

    def streams(self) -> list[Stream]:
        """What is left for an oracle, with the row that ends a stream, or one in its place."""
        found: list[Stream] = []
        for this, kept in zip(self.arriving, self.kept, strict=True):
            counting = [n for n in kept if this.stream.rows[n][1] < FAR_S]
            rows = ended([this.stream.rows[n] for n in counting])
            found.append(Kept(this.stream.name, rows, tuple(counting)))
        return found


@dataclass
class TestClock:
    """Shows the moment of a batch once. Whoever looks again in the same batch, be it after a crash,
    sees another: a batch must not go by two."""

    __test__ = False

    moments_s: Sequence[int]
    batch: int = 0
    looked: int = -1

    def __call__(self) -> int:
        again = self.looked == self.batch
        self.looked = self.batch
        return (self.moments_s[self.batch] + again * MUCH_LATER_S) * SECOND_US


def with_rules(pipeline: Pipeline, arriving: Sequence[Arriving]) -> Pipeline:
    def rules(stream: int | None) -> ClockRules:
        if stream is None:
            return ClockRules()
        idle_us = IDLE_S * SECOND_US if arriving[stream].may_idle else None
        return ClockRules(idle_us, AHEAD_S * SECOND_US)

    return Pipeline(tuple(
        replace(node, feeds=tuple(replace(f, rules=rules(f.stream)) for f in node.feeds))
        for node in pipeline.nodes
    ))  # fmt: skip


def some_rows(chance: Random, batches: Sequence[int]) -> tuple[list[Row], list[int]]:
    """Rows that come with some of the batches, in disorder but not late among themselves. Who
    pauses goes on where it stopped, now and then; and a stream as a whole may be behind others."""
    rows: list[Row] = []
    at: list[int] = []
    began_s, catches_up = 40 - chance.choice([0, 10, 20]), chance.random() < 0.3
    for produced, batch in enumerate(batches):
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            latest = max((t for _, t, _ in rows if t < FAR_S), default=0)
            time = began_s + 6 * (batch if catches_up else produced) + chance.randint(-6, 6)
            time = BROKEN_S if chance.random() < 0.1 else max(time, latest - LATE_S)
            rows.append((chance.choice([1, 1, 1, 2, 3]), time, float(chance.randint(0, 6))))
            at.append(batch)
    return rows, at


# Hypothesis likes small examples, in which hardly anything is ever idle, and then late.
CHANCE = st.integers(0, 2**32).map(Random)


def story(kit: Kit, chance: Random) -> tuple[list[Arriving], list[int]]:
    """Streams, some of which pause or fall silent, with rows from the future; and what the clock
    shows. Of each operator one input is never idle: the oracle knows nothing of rows that are late
    for an operator above."""
    may_idle = set[int]()
    for node in kit.pipeline(kit.setups[0]).nodes:
        own = [feed.stream for feed in node.feeds if feed.stream is not None]
        if own and len(own) == len(node.feeds):
            own.remove(chance.choice(own))
        may_idle |= {stream for stream in own if chance.random() < 0.8}
    arriving = []
    for number, name in enumerate(kit.streams):
        is_silent = number in may_idle and chance.random() < 0.3
        begin = chance.randint(1, BATCHES - 3)
        pause = range(begin, begin + chance.randint(0, 3))
        batches = [n for n in range(5 if is_silent else BATCHES) if n not in pause]
        rows, at = some_rows(chance, batches)
        if not is_silent:
            rows, at = list(ended(rows)), [*at, BATCHES - 1]
        arriving.append(Arriving(Stream(name, tuple(rows)), tuple(at), number in may_idle))
    return arriving, shown_by_clock(chance)


def shown_by_clock(chance: Random) -> list[int]:
    """What the clock shows in each batch. The last comes so late that who was silent is idle."""
    shown = [BEGAN_S]
    for _ in range(BATCHES - 2):
        shown.append(shown[-1] + chance.choice([0, 20, 40, 60, 61]))
    return [*shown, shown[-1] + IDLE_S]


Crash = tuple[int, str, int, int]
CRASHES = st.lists(
    st.tuples(
        st.integers(0, BATCHES - 1), st.sampled_from(POINTS), st.integers(1, 4), st.integers(0, 3)
    ),
    max_size=4,
)


class ClockFrame:
    """A kit at work by the clock."""

    def __init__(
        self, kit: Kit, folder: Path, arriving: Sequence[Arriving], moments_s: Sequence[int]
    ) -> None:
        self._kit, self._arriving = kit, arriving
        self.clock = TestClock(moments_s)
        self.run = PipelineRun(
            folder / "state", self._pipeline(0), folder / "out", clock=self.clock, keep_commits=3
        )

    def _pipeline(self, setup: int) -> Pipeline:
        made = self._kit.pipeline(self._kit.setups[setup % len(self._kit.setups)])
        return with_rules(made, self._arriving)

    def restart(self, setup: int) -> None:
        self.run.start(self._pipeline(setup))

    def batch(self, number: int) -> None:
        self.clock.batch = number
        self.run.run_streams(number, [this.task(number) for this in self._arriving])


def check_by_the_clock(chance: Random, crashes: Sequence[Crash], kit: Kit) -> None:
    arriving, clock = story(kit, chance)
    model = Model(with_rules(kit.pipeline(kit.setups[0]), arriving), arriving)
    with tempfile.TemporaryDirectory() as folder:
        frame = ClockFrame(kit, Path(folder), arriving, clock)
        for number in range(BATCHES):
            for _, point, visit, setup in [c for c in crashes if c[0] == number]:
                try:
                    with crash_at(point, visit):
                        frame.batch(number)
                except CrashError:
                    frame.restart(setup)
            frame.batch(number)
            model.batch(number, clock[number])
            assert noted_moment(frame.run.query.folder) == Moment(number, clock[number] * SECOND_US)
        frame.restart(0)
        found, expected = rows_of(frame.run.published_table()), kit.expected(model.streams())
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
        assert_nothing_is_left_over(frame.run)
        dropped = [report["dropped"] for report in read_reports(frame.run.query.folder, BATCHES)]
        assert sum(d.get("ahead", 0) for d in dropped) == model.ahead
        assert sum(d.get("late", 0) for d in dropped) == model.late


@pytest.fixture(autouse=True)
def _early_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)


@pytest.mark.parametrize(
    "kit",
    [
        pytest.param(kit, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, kit in KITS.items()
    ],
)
@examples(4)
@given(chance=CHANCE, crashes=CRASHES)
def test_by_the_clock(chance: Random, crashes: list[Crash], kit: Kit) -> None:
    check_by_the_clock(chance, crashes, kit)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kit", KITS.values(), ids=list(KITS))
@examples(500)
@given(chance=CHANCE, crashes=CRASHES)
def test_by_the_clock_at_length(chance: Random, crashes: list[Crash], kit: Kit) -> None:
    check_by_the_clock(chance, crashes, kit)


# A result all of whose streams are idle ----------------------------------------------------------


def joined_by_nested_loops(
    pipeline: Pipeline, arriving: Sequence[Arriving], moments_s: Sequence[int]
) -> tuple[Counter[tuple[int, int, int]], int]:
    """The ids of (a, b, c) that a join of c with the join of a and b gives, if a and b may both be
    idle; and how many rows are late, of pairs too. A pair comes with the later of its rows."""
    a, b, c = arriving
    lag = next(feed.lag_us for feed in pipeline.root.feeds if feed.source) / SECOND_US
    heard = [moments_s[0]] * 2
    latest: list[float] = [NEVER] * 3
    lower = upper = NEVER
    kept: list[list[int]] = [[], [], []]
    pairs: list[tuple[int, int]] = []
    late = 0

    def near(x: Row, y: Row) -> bool:
        return x[0] is not None and x[0] == y[0] and abs(x[1] - y[1]) <= WITHIN_S

    for number, clock in enumerate(moments_s):
        for s, this in enumerate(arriving):
            for n in this.rows_of(number):
                is_kept = this.stream.rows[n][1] >= (upper if s == 2 else lower)
                late += not is_kept
                kept[s] += [n] if is_kept else []
            rows = [this.stream.rows[n][1] for n in this.rows_of(number)]
            latest[s] = max([latest[s], *rows])
            if rows and s < 2:
                heard[s] = clock
        for i, j in product(kept[0], kept[1]):
            together = near(a.stream.rows[i], b.stream.rows[j])
            if together and max(a.batches[i], b.batches[j]) == number:
                is_kept = a.stream.rows[i][1] >= upper
                late += not is_kept
                pairs += [(i, j)] if is_kept else []
        counting = [latest[s] - LATE_S for s in (0, 1) if clock - heard[s] < IDLE_S]
        lower = max([lower, *([min(counting)] if counting else [])])
        others = [lower - lag] if counting else []
        upper = max(upper, min([latest[2] - LATE_S, *others]))
    found = Counter(
        (i, j, k) for (i, j), k in product(pairs, kept[2])
        if near(a.stream.rows[i], c.stream.rows[k])
    )  # fmt: skip
    return found, late


def two_joins(setup: Placed) -> Pipeline:
    first = joined("a", "b", "a_k", "a_t")
    return chained(join(first, setup), join(joined(first, "c", "a_k", "a_t"), setup))


def pausing(chance: Random) -> tuple[list[Arriving], list[int]]:
    """Three streams, two of which pause together."""
    begin = chance.randint(1, 3)
    arriving = []
    for name in "abc":
        pause = range(begin, begin + (0 if name == "c" else 3))
        rows, at = some_rows(chance, [n for n in range(BATCHES) if n not in pause])
        sound = [(row, n) for row, n in zip(rows, at, strict=True) if row[1] < FAR_S]
        stream = Stream(name, tuple(row for row, _ in sound))
        arriving.append(Arriving(stream, tuple(n for _, n in sound), name != "c"))
    return arriving, shown_by_clock(chance)


def check_idle_results(chance: Random) -> None:
    arriving, clock = pausing(chance)
    kit = Kit("join → join", ("a", "b", "c"), PLACED, two_joins, lambda _: Counter())
    pipeline = with_rules(two_joins(PLACED[0]), arriving)
    expected, late = joined_by_nested_loops(pipeline, arriving, clock)
    with tempfile.TemporaryDirectory() as folder:
        frame = ClockFrame(kit, Path(folder), arriving, clock)
        for number in range(BATCHES):
            frame.batch(number)
            if number % 2:
                frame.restart(number)
        table = frame.run.published_table()
        found = Counter(zip(*(table.column(f"{s}_id").to_pylist() for s in "abc"), strict=True))
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
        reports = read_reports(frame.run.query.folder, BATCHES)
        assert sum(report["dropped"].get("late", 0) for report in reports) == late


@examples(4)
@given(chance=CHANCE)
def test_idle_results(chance: Random) -> None:
    check_idle_results(chance)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(500)
@given(chance=CHANCE)
def test_idle_results_at_length(chance: Random) -> None:
    check_idle_results(chance)
