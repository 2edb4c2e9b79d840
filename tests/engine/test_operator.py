"""The values that operators and the engine hand to one another: they travel unchanged."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skewless.arrays.types import FAR_US, SIDES
from skewless.engine.operator import Arrival, HeavyKey, RunRef
from skewless.state.blobs import BlobInfo
from tests.state.test_segments import INFOS
from tests.strategies import examples

WHOLE = st.integers(0, 1 << 62)
NAMES = st.text(max_size=9)


def some(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=3).map(tuple)


ARRIVALS = st.builds(
    Arrival,
    input=st.sampled_from(SIDES),
    rows=WHOLE,
    runs=some(st.builds(RunRef, INFOS, st.none() | NAMES)),
    scratch=some(INFOS),
    blobs=some(st.builds(BlobInfo, name=NAMES, bytes=WHOLE, crc32=WHOLE)),
    dropped=st.dictionaries(NAMES, WHOLE, max_size=3),
    time_max_us=st.none() | st.integers(-FAR_US, FAR_US),
    heavy_keys=some(st.builds(HeavyKey, NAMES, WHOLE)),
    detail=st.dictionaries(NAMES, st.lists(st.floats(-1e9, 1e9)), max_size=3),
    operator=NAMES,
)


@examples(100)
@given(ARRIVALS)
def test_arrivals_travel_as_json(arrival: Arrival) -> None:
    assert Arrival.from_json(json.loads(json.dumps(arrival.to_json()))) == arrival


@examples(50)
@given(ARRIVALS)
def test_an_arrival_names_all_its_files(arrival: Arrival) -> None:
    runs = [run.segment.name for run in arrival.runs]
    probes = [run.probe_file for run in arrival.runs if run.probe_file is not None]
    others = [file.name for file in (*arrival.scratch, *arrival.blobs)]
    assert arrival.files == {*runs, *probes, *others}
