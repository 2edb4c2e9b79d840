"""Event time: how far each input has got, and what that says about the rows that are emitted.

The watermark of an operator is the least of what its inputs have reached, and never goes back. An
input that is a stream has reached its latest event time of earlier batches, minus its lateness. An
input that is another operator's result has reached that operator's watermark, minus how far its
rows can lie behind it. So nothing that an operator emits is late above it. Inputs that are idle
(`idleness`) are not asked; what they have to say later may be late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from skewless.arrays.types import FAR_US

NEVER_US = -FAR_US


@dataclass(frozen=True)
class EventTimes:
    """Columns that have a watermark. In a row that is emitted, column i lies at most `lag_us[i]`
    behind the watermark its batch was judged by, and at most `behind_us[i][j]` behind column j. A
    negative number means: it is always later."""

    columns: tuple[str, ...] = ()
    lag_us: tuple[int, ...] = ()
    behind_us: tuple[tuple[int, ...], ...] = ()

    @staticmethod
    def of_stream(column: str) -> EventTimes:
        """Of rows that are judged by their own time."""
        return EventTimes((column,), (0,), ((0,),))

    def select(self, names: Mapping[str, str]) -> EventTimes:
        """Some of the columns, under new names: `names[new]` is the old one."""
        at = [self.columns.index(old) for old in names.values()]
        return EventTimes(
            tuple(names),
            tuple(self.lag_us[i] for i in at),
            tuple(tuple(self.behind_us[i][j] for j in at) for i in at),
        )

    def lag_of(self, column: str) -> int:
        return self.lag_us[self.columns.index(column)]


@dataclass(frozen=True)
class Party:
    """An input of a join: its event times, and which of them the join goes by."""

    times: EventTimes
    time: str

    def from_time(self, column: int) -> int:
        """How far a column can lie behind the one that the join goes by."""
        return self.times.behind_us[column][self.times.columns.index(self.time)]

    def to_time(self, column: int) -> int:
        """How far the time that the join goes by can lie behind a column."""
        return self.times.behind_us[self.times.columns.index(self.time)][column]


def joined_times(
    parties: Sequence[Party],
    behind_us: Callable[[int, int], int],
    names: Callable[[int, str], str | None],
    lag_us: Callable[[int], int] | None = None,
) -> EventTimes:
    """The event times of a join's rows, one row of every party in each. The time of party x lies at
    most `behind_us(x, y)` behind that of party y. `names` says what a party's column is called in
    the result, None if it is not there.

    A new row of a party is at or after the watermark, so the row of party x is, if it is not new
    itself, at most its distance from the new one behind it. `lag_us` says how far behind the
    watermark a party's time can lie, where that is not so.
    """
    everyone = range(len(parties))
    columns = [
        (x, i, name)
        for x in everyone
        for i, column in enumerate(parties[x].times.columns)
        if (name := names(x, column)) is not None
    ]

    def lag(x: int, i: int) -> int:
        furthest = max([0, *(behind_us(x, y) for y in everyone if y != x)])
        return _bounded(parties[x].from_time(i) + (furthest if lag_us is None else lag_us(x)))

    def behind(x: int, i: int, y: int, j: int) -> int:
        if x == y:
            return parties[x].times.behind_us[i][j]
        return _bounded(parties[x].from_time(i) + behind_us(x, y) + parties[y].to_time(j))

    return EventTimes(
        tuple(name for _, _, name in columns),
        tuple(lag(x, i) for x, i, _ in columns),
        tuple(tuple(behind(x, i, y, j) for y, j, _ in columns) for x, i, _ in columns),
    )


def _bounded(us: int) -> int:
    return max(min(us, FAR_US), -FAR_US)


def advance(before_us: int, reached_us: Sequence[int]) -> int:
    """The watermark after what the inputs have reached: it never goes back."""
    return max(before_us, min(reached_us, default=NEVER_US))


def reached(time_max_us: int | None, late_us: int, tick_us: int = 1) -> int:
    """How far a stream has got, in whole ticks."""
    if time_max_us is None:
        return NEVER_US
    return max(time_max_us // tick_us * tick_us - late_us, NEVER_US)


def behind(watermark_us: int, lag_us: int) -> int:
    """How far a result has got whose rows can lie so far behind its operator's watermark."""
    return max(watermark_us - lag_us, NEVER_US) if watermark_us > NEVER_US else NEVER_US


def known(watermark_us: int) -> int | None:
    """A watermark as it is reported: None as long as there is none."""
    return None if watermark_us <= NEVER_US // 2 else watermark_us
