"""What the frame has to know of an operator, or of a pipeline of several: everything that is its
own. The rest (cutting, repeats, restarts, crashes, what is on disk) is the frame's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from skewless.engine.operator import Operator
from skewless.engine.pipeline import Feed, Node, Pipeline
from skewless.engine.watermark import EventTimes
from tests.frame.streams import Rows, Stream


@dataclass(frozen=True)
class Kit:
    """A query: over which streams, how it is set up (setups may change at a restart), and what must
    come of it, asked of somebody who shares no code with it."""

    name: str
    streams: tuple[str, ...]
    setups: tuple[Any, ...]
    pipeline: Callable[[Any], Pipeline]
    expected: Callable[[Sequence[Stream]], Rows]


def chained(*operators: Operator) -> Pipeline:
    """Operators one above the other: the result of one is the first input of the next, all other
    inputs are streams."""
    nodes: list[Node] = []
    times, streams = EventTimes(), 0
    for number, operator in enumerate(operators, 1):
        feeds, below = [], []
        for i in operator.inputs:
            if nodes and not feeds:
                emitted = nodes[-1].operator.output_schema()
                columns = tuple(emitted.get_field_index(name) for name in i.schema.names)
                lag_us = times.lag_of(str(i.time_name))
                feeds.append(Feed(columns, source=nodes[-1].name, lag_us=lag_us))
                below.append(times)
            else:
                feeds.append(Feed(tuple(range(len(i.schema))), stream=streams))
                below.append(EventTimes.of_stream(str(i.time_name)))
                streams += 1
        nodes.append(Node(f"{operator.kind}-{number}", operator, tuple(feeds)))
        times = operator.event_times(below)
    return Pipeline(tuple(nodes))
