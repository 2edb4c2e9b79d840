"""The demo as a picture that any browser shows: times of batches, and how even the work was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from statistics import median

from skewless.cli.demo.folder import EVENT_BATCH, Plan
from skewless.cli.demo.story import has_event, split_after
from skewless.cli.demo.turns import SPARK, TITLES, Turn, Turns

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BELOW = 860, 240, 56, 120, 44, 40
COLOURS = {"spark": "#b45309", "hash": "#6b7280", "auto": "#0e7490"}
WINDOW = 3  # batches: the line is their median, dots are single ones
TICKS = 4
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2937}"
    ".dim{fill:#6b7280;font-size:12px}.title{font-weight:600}"
)


@dataclass(frozen=True)
class Scale:
    """Where a batch and a value lie in a panel."""

    batches: int
    most: float
    top: float

    def x(self, batch: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (batch + 0.5) / self.batches

    def y(self, value: float) -> float:
        return self.top + HEIGHT - HEIGHT * min(value, self.most) / self.most


def svg(plan: Plan, turns: Turns, joins: Sequence[str]) -> str:
    """Two panels, one below the other."""
    told = {who: turns.of(who) for who in joins}
    times = _panel(plan, turns, told, TOP, "seconds until a batch's results are there",
                   lambda turn: turn.seconds)  # fmt: skip
    lower = TOP + HEIGHT + BELOW + TOP
    of_spark = f"; {TITLES[SPARK]}: results" if SPARK in joins else ""
    title = f"work of the busiest task / mean (1 is even{of_spark})"
    ratios = _panel(plan, turns, told, lower, title, lambda turn: turn.busiest_over_mean)
    height = lower + HEIGHT + BELOW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(_label(joins))}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{times}{ratios}</svg>\n"
    )


def _label(joins: Sequence[str]) -> str:
    return f"Times of batches, and how even the work was: {', '.join(TITLES[w] for w in joins)}"


def _panel(
    plan: Plan,
    turns: Turns,
    told: Mapping[str, Sequence[Turn]],
    top: float,
    title: str,
    value: Callable[[Turn], float],
) -> str:
    # A query's first batch starts it: it would press all others flat.
    values = {who: [(t.batch, value(t)) for t in some if not t.cold] for who, some in told.items()}
    most = max((v for some in values.values() for _, v in some), default=1.0) * 1.08
    scale = Scale(plan.batches, most, top)
    parts = [f'<text class="title" x="{LEFT}" y="{top - 26}">{escape(title)}</text>']
    parts += _axes(scale) + _marks(plan, turns, scale)
    ends = _apart({who: scale.y(_smooth(some)[-1]) for who, some in values.items() if some})
    for who, some in values.items():
        parts += _line(who, some, scale, ends.get(who, 0.0))
    return "".join(parts)


def _axes(scale: Scale) -> list[str]:
    parts = []
    for value in ticks(scale.most):
        y = scale.y(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e5e7eb"/>')
        parts.append(
            f'<text class="dim" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    step = max(1, scale.batches // 12)
    for batch in range(0, scale.batches, step):
        x, y = scale.x(batch), scale.top + HEIGHT + 18
        parts.append(f'<text class="dim" x="{x:.1f}" y="{y}" text-anchor="middle">{batch}</text>')
    end = f'x="{WIDTH - RIGHT}" y="{scale.top + HEIGHT + 32}"'
    return [*parts, f'<text class="dim" {end} text-anchor="end">batch</text>']


def ticks(most: float) -> list[float]:
    """A few figures that one can read, from 0 to at most this.

    >>> ticks(17.9), ticks(0.7)
    ([0.0, 5.0, 10.0, 15.0], [0.0, 0.2, 0.4, 0.6])
    """
    power = 10.0 ** floor(log10(most / TICKS))
    step = next(power * unit for unit in (1, 2, 5, 10) if most <= TICKS * power * unit)
    return [round(step * i, 9) for i in range(int(most / step) + 1)]


def _marks(plan: Plan, turns: Turns, scale: Scale) -> list[str]:
    """When the event begins, and when its cell is split."""
    if not has_event(plan):
        return []
    marks = [(EVENT_BATCH - 0.5, "the concert begins", "end")]
    split = split_after(plan, turns)
    if split is not None:
        marks.append((split + 0.5, "Auto has split its cell", "start"))
    parts = []
    for batch, text, anchor in marks:
        x, shift = scale.x(batch), -4 if anchor == "end" else 4
        parts.append(
            f'<path d="M{x:.1f} {scale.top - 12}V{scale.top + HEIGHT}" stroke="#9ca3af" '
            'stroke-dasharray="4 3"/>'
            f'<text class="dim" x="{x + shift:.1f}" y="{scale.top - 6}" text-anchor="{anchor}">'
            f"{text}</text>"
        )
    return parts


def _line(who: str, some: Sequence[tuple[int, float]], scale: Scale, label_y: float) -> list[str]:
    if not some:
        return []
    colour = COLOURS[who]
    dots = "".join(
        f'<circle cx="{scale.x(b):.1f}" cy="{scale.y(v):.1f}" r="2.5"/>' for b, v in some
    )
    points = " ".join(
        f"{scale.x(b):.1f},{scale.y(v):.1f}" for (b, _), v in zip(some, _smooth(some), strict=True)
    )
    return [
        f'<g fill="{colour}" fill-opacity="0.35">{dots}</g>',
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<text x="{WIDTH - RIGHT + 8}" y="{label_y + 4:.1f}" style="fill:{colour}">'
        f"{escape(TITLES[who])}</text>",
    ]


def _smooth(some: Sequence[tuple[int, float]]) -> list[float]:
    """Medians of a few batches around each."""
    around = WINDOW // 2
    values = [value for _, value in some]
    return [median(values[max(0, i - around) : i + around + 1]) for i in range(len(values))]


def _apart(wanted: Mapping[str, float], least: float = 16.0) -> dict[str, float]:
    """Labels one below the other, none over another."""
    placed: dict[str, float] = {}
    lowest = float("-inf")
    for who, y in sorted(wanted.items(), key=lambda item: item[1]):
        lowest = max(y, lowest + least)
        placed[who] = lowest
    return placed
