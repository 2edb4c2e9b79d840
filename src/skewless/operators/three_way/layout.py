"""The sides of a three-way join's state: what their segments look like, how long they are kept."""

from __future__ import annotations

from skewless.operators.three_way.packs import kinds_of
from skewless.operators.three_way.spec import STREAMS, ThreeSpec, before
from skewless.state.rewriting import Layout


def layouts(spec: ThreeSpec) -> dict[str, Layout]:
    """The columns of every side's segments, and which of them has the time they are sorted by."""
    rows = {
        spec.side_name(x, edge): Layout(spec.streams[x].schema, spec.streams[x].time)
        for x in STREAMS
        for edge in spec.edges_of(x)
    }
    packs = {k.side: Layout(k.schema(spec), spec.streams[k.hub].time) for k in kinds_of(spec)}
    return rows | packs


def keep_after_us(spec: ThreeSpec, watermark_us: int) -> dict[str, int]:
    """From when on the segments of each side are still needed: rows as long as any triple can be
    completed, packs as long as their hub can meet a third row."""
    rows = {
        spec.side_name(x, edge): spec.keep_after_us(x, watermark_us)
        for x in STREAMS
        for edge in spec.edges_of(x)
    }
    packs = {
        kind.side: before(watermark_us, spec.max_lag_us(kind.hub, kind.third))
        for kind in kinds_of(spec)
    }
    return rows | packs
