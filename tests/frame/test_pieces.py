"""What is put together, taken and written comes in pieces of so many bytes, and results are the
same however small they are. Streams have texts here, nulls among them, and nested values."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays import columns, runs
from skewless.arrays.columns import Columns
from skewless.engine.pipeline import Pipeline
from skewless.operators.aggregate.accumulators.named import NAMED
from skewless.operators.aggregate.operator import AggregateOperator
from skewless.operators.aggregate.spec import Aggregate, AggregateSpec
from skewless.operators.aggregate.windows import Window
from skewless.operators.deduplicate.operator import DeduplicateOperator, DeduplicateSpec
from skewless.placement.grouping import BatchAware
from skewless.state import compaction
from tests.frame import kits, streams
from tests.frame.kit import Kit
from tests.frame.kits import KITS
from tests.frame.specs import join_spec, side_spec
from tests.frame.streams import SECOND_US, Rows, Stream, rows_of
from tests.frame.test_frame import BATCHES, RESTARTS, Frame, stories
from tests.strategies import examples

PLAIN = streams.schema_of
NESTED = pa.list_(pa.struct([("s", pa.string()), ("m", pa.map_(pa.string(), pa.large_string()))]))
QUICK = ("join", "full join", "asof_join forward, left", "join3 by TriJoin", "deduplicate")


def text_of(number: int) -> str | None:
    return None if number % 4 == 3 else f"{number % 3}" * (7 * (number % 5))


def nested_of(number: int) -> list[Any] | None:
    if number % 5 == 4:
        return None
    inner = {"s": text_of(number + 1), "m": [("key", text_of(number)), (f"{number}", None)]}
    return [inner, None][: number % 3]


def wide_schema(name: str) -> pa.Schema:
    return PLAIN(name).append(pa.field(f"{name}_s", pa.string())).append(
        pa.field(f"{name}_n", NESTED)
    )  # fmt: skip


class WideStream(Stream):
    """A stream with a text and a nested value in each row, by its number."""

    @property
    def schema(self) -> pa.Schema:
        return wide_schema(self.name)

    def table(self) -> pa.Table:
        numbers = range(len(self.rows) - 1)  # the row that ends a stream matches nothing
        more = [[*map(of, numbers), None] for of in (text_of, nested_of)]
        arrays = [pa.array(c, f.type) for c, f in zip(more, list(self.schema)[4:], strict=True)]
        plain = Stream(self.name, self.rows).table()
        return pa.Table.from_arrays([*plain.columns, *arrays], schema=self.schema)


@contextmanager
def pieces(most: int) -> Iterator[None]:
    """At most so many bytes at once; runs are merged as early as can be, and so are segments."""
    with (
        mock.patch.object(kits, "schema_of", wide_schema),
        mock.patch.object(columns, "PIECE_BYTES", most),
        mock.patch.object(columns, "BATCH_BYTES", most),
        mock.patch.object(runs, "SEGMENTS_MERGED_FROM", 2),
        mock.patch.object(compaction, "FAN_IN", 2),
    ):
        yield


def checked_payload(found: pa.Table) -> pa.Table:
    """Texts and nested values are those of the rows they came with; the rest is returned."""
    for name in found.schema.names:
        stream, _, what = name.rpartition("_")
        if what in ("s", "n") and f"{stream}_id" in found.schema.names:
            made = text_of if what == "s" else nested_of
            numbers = found[f"{stream}_id"].to_pylist()
            assert found[name].to_pylist() == [None if n is None else made(n) for n in numbers]
            found = found.drop_columns([name])
    return found


def assert_small(file: Path, most: int) -> None:
    """Batches of a file have so many bytes, or one row; an operator may have added two numbers."""
    with pa.ipc.open_file(str(file)) as reader:
        for batch in map(reader.get_batch, range(reader.num_record_batches)):
            size = int(Columns(batch.columns[1:]).row_bytes(np.arange(len(batch))).sum())
            assert len(batch) == 1 or size <= most + 16 * len(batch), (size, len(batch))


def check(data: st.DataObject, kit: Kit, most: int) -> None:
    _, arriving, cut = data.draw(stories(kit))
    restarts = data.draw(RESTARTS)
    wide = tuple(WideStream(stream.name, stream.rows) for stream in arriving)
    with tempfile.TemporaryDirectory() as folder, pieces(most):
        frame = Frame(kit, Path(folder), wide, cut)
        for number in range(BATCHES):
            if (setup := restarts[number]) is not None:
                frame.restart(setup)
            frame.batch(number)
            for file in (Path(folder) / "state" / "segments").glob("*.arrow"):
                assert_small(file, most)
        for file in (Path(folder) / "out").glob("*.arrow"):
            assert_small(file, most)
        found = rows_of(checked_payload(frame.run.published_table()))
    expected = kit.expected(arriving)
    assert found == expected, f"missing {expected - found}, too many {found - expected}"


SIZES = st.sampled_from([1, 64, 200, 600, 3000])


@pytest.mark.parametrize("kit", [KITS[name] for name in QUICK], ids=QUICK)
@examples(3)
@given(data=st.data(), most=SIZES)
def test_pieces_of_any_size(data: st.DataObject, most: int, kit: Kit) -> None:
    check(data, kit, most)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kit", KITS.values(), ids=list(KITS))
@examples(300)
@given(data=st.data(), most=SIZES)
def test_pieces_of_any_size_at_length(data: st.DataObject, most: int, kit: Kit) -> None:
    check(data, kit, most)


# Texts as keys, and as what is aggregated -------------------------------------------------------


def text_aggregation(setup: tuple[BatchAware, int]) -> Pipeline:
    """The largest text of every text, in windows that a row is in two of."""
    schema = wide_schema("a")
    largest = NAMED["max"]([pa.string()])
    spec = AggregateSpec(
        side_spec(schema, ["a_s"], "a_t"),
        (Aggregate("n", NAMED["count"]([]), ()), Aggregate("most", largest, (4,))),
        Window(4 * SECOND_US, 2 * SECOND_US),
    )
    return Pipeline.of(AggregateOperator(spec, *setup, "append"))


def windows_of_texts(arriving: tuple[Stream, ...]) -> Rows:
    (stream,) = arriving
    counts = Counter(
        (start, text_of(number))
        for number, (_, second, _) in enumerate(stream.rows[:-1])
        for start in (second // 2 * 2 - 2, second // 2 * 2)
    )
    return Counter((start * SECOND_US, text, n, text) for (start, text), n in counts.items())


def text_join(setup: kits.Placed) -> Pipeline:
    sides = [side_spec(wide_schema(name), [f"{name}_s"], f"{name}_t") for name in ("a", "b")]
    return Pipeline.of(kits.join(join_spec(*sides), setup))


def joined_texts(arriving: tuple[Stream, ...]) -> Rows:
    a, b = ([(k, t, x, n) for n, (k, t, x) in enumerate(s.rows[:-1])] for s in arriving)
    return Counter(
        (k, t * SECOND_US, x, n, other[0], other[1] * SECOND_US, *other[2:])
        for k, t, x, n in a
        for other in b
        if text_of(n) is not None and text_of(n) == text_of(other[3]) and abs(t - other[1]) <= 6
    )


def text_deduplication(instances: int) -> Pipeline:
    side = side_spec(wide_schema("a"), ["a_s"], "a_t")
    spec = DeduplicateSpec(side, kits.REPEATED_S * SECOND_US)
    return Pipeline.of(DeduplicateOperator(spec, instances))


def first_texts(arriving: tuple[Stream, ...]) -> Rows:
    (stream,) = arriving
    last: dict[str | None, int] = {}
    found = []
    for second, number, key, value in sorted(
        (t, n, k, x) for n, (k, t, x) in enumerate(stream.rows[:-1])
    ):
        text = text_of(number)
        if text not in last or second > last[text] + kits.REPEATED_S:
            last[text] = second
            found.append((key, second * SECOND_US, value, number))
    return Counter(found)


GROUPED = ((BatchAware(), 2), (BatchAware(), 3))
BY_TEXT = {
    kit.name: kit
    for kit in (
        Kit("max", ("a",), GROUPED, text_aggregation, windows_of_texts),
        Kit("join", ("a", "b"), kits.PLACED, text_join, joined_texts),
        Kit("deduplicate", ("a",), (2, 3, 1), text_deduplication, first_texts),
    )
}


@pytest.mark.parametrize("kit", BY_TEXT.values(), ids=list(BY_TEXT))
@examples(3)
@given(data=st.data(), most=SIZES)
def test_texts_in_pieces(data: st.DataObject, most: int, kit: Kit) -> None:
    check(data, kit, most)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kit", BY_TEXT.values(), ids=list(BY_TEXT))
@examples(500)
@given(data=st.data(), most=SIZES)
def test_texts_in_pieces_at_length(data: st.DataObject, most: int, kit: Kit) -> None:
    check(data, kit, most)
