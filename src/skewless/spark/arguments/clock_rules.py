"""`idle_after` and `max_ahead`: what is asked of streams by the clock."""

from __future__ import annotations

from collections.abc import Sequence

from skewless.engine.clock import ClockRules
from skewless.errors import ArgumentError
from skewless.spark.arguments.columns import Input
from skewless.spark.arguments.times import given_durations

WHY_NONE = {
    "idle_after": "it is idle when all its streams are",
    "max_ahead": "its streams say how far ahead rows may be",
}
NO_STREAM = {
    "idle_after": "all its rows are there at once, and nothing waits for more",
    "max_ahead": "its rows come at no time to compare with. Filter it beforehand, with `where`",
}


def parse_clock_rules(
    idle_after: object, max_ahead: object, inputs: Sequence[Input], times: Sequence[int | None]
) -> tuple[ClockRules, ...]:
    """The rules of each input. A duration for all is for the streams among them; without event
    times there is nothing to ask."""
    found = []
    for argument, given in (("idle_after", idle_after), ("max_ahead", max_ahead)):
        if given is not None and None in times:
            raise ArgumentError(argument, given, "left out where there is no event time")
        durations = given_durations(argument, given, inputs, WHY_NONE[argument])
        _refuse_static(argument, given, inputs, durations)
        found.append(durations)
    if 0 in found[0]:
        raise ArgumentError("idle_after", idle_after, "a duration of more than 0")
    return tuple(ClockRules(*rules) for rules in zip(*found, strict=True))


def _refuse_static(
    argument: str, given: object, inputs: Sequence[Input], durations: Sequence[int | None]
) -> None:
    """Rows that nobody asked to lose must not go, and nobody counts those of static DataFrames."""
    for this, duration in zip(inputs, durations, strict=True):
        if duration is not None and not this.source.isStreaming:
            accepted = f"left out for `{this.argument}`, a static DataFrame: {NO_STREAM[argument]}"
            raise ArgumentError(argument, given, accepted)
