"""Streams that fall silent: after a while without rows they no longer hold the watermark back.

A commit has, for every stream, the moment of the last batch with rows of it. Whether it is idle in
a batch follows from that and from the moment of the batch, which is written down before (`clock`).
A result is idle as an input of another operator if all inputs of its own are. Whoever is idle has
no say in how far time has got; if all are, nobody has, and time stands still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skewless.engine.operator import Arrival, Batch
from skewless.engine.pipeline import Node


def last_heard_us(
    node: Node, before: Mapping[str, int], arrivals: Sequence[Arrival], moment_us: int | None
) -> dict[str, int]:
    """The moment of the last batch with rows, of every stream; of one that had none yet, the moment
    of its first batch. Rows count that have a time. A clock that was put back begins anew."""
    if moment_us is None:
        return {}
    heard = {arrival.input for arrival in arrivals if arrival.time_max_us is not None}
    return {
        i.name: moment_us if i.name in heard else min(before.get(i.name, moment_us), moment_us)
        for i, feed in node.fed()
        if feed.source is None
    }


def idle_inputs(
    node: Node, heard_us: Mapping[str, int], moment_us: int | None, below: Mapping[str, Batch]
) -> tuple[str, ...]:
    """The inputs that do not hold the watermark back. A batch with rows of a stream is no time
    without them."""
    found = []
    for i, feed in node.fed():
        after_us = feed.rules.idle_after_us
        if feed.source is not None:
            is_idle = below[feed.source].is_idle
        else:
            is_idle = (
                after_us is not None
                and moment_us is not None
                and moment_us - heard_us[i.name] >= after_us
            )
        if is_idle:
            found.append(i.name)
    return tuple(found)
