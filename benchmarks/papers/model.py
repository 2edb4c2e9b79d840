"""What an experiment tells: items (one per figure or table of a paper), sheets and plots.

A verdict compares our figures, at the paper's parameters, with the paper's:

- *reproduced*: every number within a tolerance of the paper's (15 %, if nothing else is said);
- *trend only*: other numbers, but the same order of contestants, or the same direction of change;
- *opposite*: the order or the direction is another one, and an experiment says why;
- *not comparable*: it cannot exist on one machine, or the paper does not say enough to repeat it;
- *not attempted*: nobody has measured it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

from benchmarks.measure import Json

Verdict = Literal["reproduced", "trend only", "opposite", "not comparable", "not attempted"]
Source = Literal["text", "table", "plot"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
WITHIN = 0.15

T = TypeVar("T")


@dataclass(frozen=True)
class Scale:
    """How much is measured: all of it, or what a few minutes allow."""

    quick: bool = False

    def pick(self, full: T, quick: T) -> T:
        return quick if self.quick else full


@dataclass(frozen=True)
class Item:
    """A figure or table of a paper beside ours: `ours` is measured with the paper's parameters,
    `defaults` with what a user gets who says nothing, where that is something else."""

    item: str
    what: str
    paper_value: str
    source: Source
    ours: str
    verdict: Verdict
    why: str
    defaults: str = ""

    def __post_init__(self) -> None:
        for name in ("item", "what", "paper_value", "ours", "why"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} of {self.item or 'an item'} is empty")
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.verdict!r} is none of {', '.join(VERDICTS)}")

    def to_json(self, paper: str) -> Json:
        return {"paper": paper} | {name: getattr(self, name) for name in _SHOWN}


_SHOWN = ("item", "verdict", "paper_value", "ours", "why")


@dataclass(frozen=True)
class Sheet:
    """A table of measured figures, as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Plot:
    """Lines to look at: for each label its (x, y), in order."""

    name: str
    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Experiment:
    """Some items that one run shows. `setting` says all that is needed to judge them: data and how
    it differs from the paper's, keys, rows, instances, cost model and prices, seeds."""

    name: str
    setting: str
    items: tuple[Item, ...]
    sheets: tuple[Sheet, ...] = ()
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True)
class Reading:
    """An element of a paper that is vacuous here, replaced by something else, or read otherwise."""

    element: str
    status: Literal["vacuous", "replaced", "read otherwise"]
    how: str


@dataclass(frozen=True)
class Paper:
    """A paper: `run` measures its experiments, one after the other; `expected` are the figures and
    tables that an evaluation must have an item for."""

    name: str
    citation: str
    expected: tuple[str, ...]
    run: Callable[[Scale], Iterator[Experiment]]
    readings: tuple[Reading, ...] = field(default=())

    @property
    def option(self) -> str:
        """How it is called on the command line."""
        return self.name.replace("-", "").upper()


def closeness(ours: Iterable[float], paper: Iterable[float], within: float = WITHIN) -> Verdict:
    """The verdict on figures beside the paper's, both in the same order: reproduced if all are
    close, trend only if they rise and fall alike.

    >>> closeness([1.0, 2.1], [1.0, 2.0]), closeness([1, 5], [1, 2]), closeness([5, 1], [1, 2])
    ('reproduced', 'trend only', 'opposite')
    """
    mine, theirs = list(map(float, ours)), list(map(float, paper))
    if len(mine) != len(theirs):
        raise ValueError(f"{len(mine)} figures beside {len(theirs)}")
    if all(abs(o - p) <= within * abs(p) for o, p in zip(mine, theirs, strict=True)):
        return "reproduced"
    return "trend only" if _concordant(mine, theirs) else "opposite"


def _concordant(mine: list[float], theirs: list[float]) -> bool:
    """Whether more pairs of figures are in the same order than are not."""
    balance = 0
    for i in range(len(mine)):
        for j in range(i):
            balance += _sign(mine[i] - mine[j]) * _sign(theirs[i] - theirs[j])
    return balance > 0


def change(ours: float, paper: float, points: float = 5.0) -> Verdict:
    """The verdict on a change in percent: reproduced within so many points or a seventh of it,
    trend only with the same sign.

    >>> change(30, 31.7), change(90, 31.7), change(-3, 31.7)
    ('reproduced', 'trend only', 'opposite')
    """
    if abs(ours - paper) <= max(points, WITHIN * abs(paper)):
        return "reproduced"
    return "trend only" if _sign(ours) == _sign(paper) else "opposite"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a figure of several parts: that of the worst one."""
    return max(verdicts, key=VERDICTS.index)


def percent(ours: float, theirs: float) -> float:
    """How much more ours is, in percent."""
    return 100 * (ours / theirs - 1)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
