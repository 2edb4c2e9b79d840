"""A key looked up: on a real run, against what the engine itself says of its placement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import skewless as sk
from skewless.arrays.telling import bounded
from skewless.engine.report import BatchReport
from skewless.monitor.lookup import look_up
from skewless.monitor.model import QueryModel
from skewless.monitor.reading import CheckpointReader
from skewless.placement.balancing import Auto
from skewless.placement.routing import Broadcast
from skewless.placement.strategy import PlacementStrategy
from skewless.placement.units import WorkUnit
from tests.driver import Driver, Setup
from tests.monitor.histories import Story, checkpoint, composed_checkpoint
from tests.monitor.test_model import followed
from tests.operators.two_way.test_balanced import batch_of, spec_of, zipf
from tests.strategies import EAGER

HOT = 3


Ran = tuple[Driver, QueryModel]


def ran(root: Path, strategy: PlacementStrategy, batches: int) -> Ran:
    driver = Driver(str(root / "skewless"), spec_of(), Setup(strategy, 4, 16))
    for number in range(batches):
        driver.run(number, batch_of(number, zipf(HOT), 400))
    return driver, followed(root)


@pytest.fixture(scope="module")
def balanced(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run in which the hot key was split."""
    strategy = Auto(tolerance=0.05, floor_ms=0, noise=0, **EAGER)
    return ran(tmp_path_factory.mktemp("balanced"), strategy, 5)


def workers(driver: Driver, hashed: int) -> list[int]:
    """Who works on a hash, by the routing table that instances go by."""

    def has(unit: WorkUnit) -> bool:
        return unit.hash_min <= hashed <= unit.hash_max

    units = driver.coordinator.placing.table.units
    return [i for i, mine in enumerate(units) if any(has(unit) for unit in mine)]


def test_keys_of_a_real_run(balanced: Ran) -> None:
    driver, model = balanced
    reports = sk.history(model.location)
    told = look_up(model, "", str(HOT))
    assert told["known"] and told["apart"]
    assert told["instances"] == workers(driver, int(told["hash"], 16))
    last = _last_about(reports, f"key {HOT}")
    assert (told["since"], told["why"]) == last
    for key in range(100, 130):  # keys that nobody told of
        told = look_up(model, "", str(key))
        assert told["instances"] == workers(driver, int(told["hash"], 16)), key


def _last_about(reports: list[BatchReport], subject: str) -> tuple[int, str]:
    found = [
        (r.batch_id, d.reason)
        for r in reports
        for d in r.decisions
        if d.accepted and d.subject == subject
    ]
    return found[-1]


def test_the_hash_is_the_engines(balanced: Ran) -> None:
    model = followed(Path(balanced[1].location))
    watched = dict(model.whole.watched)
    assert len(watched) > 1
    model.whole.watched.clear()
    model._divisions = {}  # the placement names keys, too
    for value, key in watched.items():
        told = look_up(model, "", value)
        assert (int(told["hash"], 16), told["known"]) == (key.hash, False)


def test_what_is_no_key_is_said(balanced: Ran) -> None:
    _, model = balanced
    for value in ("<script>alert(1)</script>", "1.5", "null", "99999999999999999999"):
        told = look_up(model, "", value)
        assert (told["hash"], told["slot"]) == (None, None)
        assert "Only keys" in told["why"]


def test_where_nothing_is_placed_by_slots(tmp_path: Path) -> None:
    _, model = ran(tmp_path, Broadcast(), 2)
    told = look_up(model, "", str(HOT))
    assert told["slot"] is None
    assert "slots" in told["why"]
    assert told["most"] > 0.4


def test_the_history_of_a_key(tmp_path: Path) -> None:
    story = Story(hot_from=4, split_after=8)
    checkpoint(tmp_path, story, 20)
    told = look_up(followed(tmp_path), "", story.hot)
    assert [d["batch"] for d in told["decisions"]] == [8, 7]
    assert [d["accepted"] for d in told["decisions"]] == [True, False]
    assert (told["since"], told["instances"]) == (8, list(story.sharing))
    assert (told["now"], told["most"], told["first"]) == (0.22, 0.22, 0)


def test_a_key_that_was_set_apart_long_ago(tmp_path: Path) -> None:
    story = Story(hot_from=0, split_after=5)
    written = checkpoint(tmp_path, story, 20)
    for batch in range(10):
        written.folder.delete(f"history/{batch:012d}.json")
    told = look_up(followed(tmp_path), "", story.hot)
    assert told["apart"] and told["since"] is None
    assert "before the batches that are known" in told["why"]


def test_a_key_that_only_the_placement_names(tmp_path: Path) -> None:
    story = Story(hot="of several, columns", hot_from=0, split_after=5)
    checkpoint(tmp_path, story, 20)
    model = followed(tmp_path)
    model.whole.watched.clear()
    told = look_up(model, "", story.hot)
    assert (told["known"], told["instances"]) == (True, list(story.sharing))


@pytest.mark.parametrize("as_told", [False, True])
def test_a_long_key_is_found_by_what_it_is_and_by_what_reports_say(
    tmp_path: Path, *, as_told: bool
) -> None:
    long = ", ".join(["of several columns"] * 1000)
    story = Story(hot=bounded(long), hot_from=4, split_after=8)
    checkpoint(tmp_path, story, 20)
    told = look_up(followed(tmp_path), "", bounded(long) if as_told else long)
    assert (told["key"], told["known"], told["since"]) == (bounded(long), True, 8)
    assert told["instances"] == list(story.sharing)


def test_a_key_of_one_operator(tmp_path: Path) -> None:
    composed_checkpoint(tmp_path, 60)
    model = followed(tmp_path)
    assert look_up(model, "join-1", "42")["since"] == 55
    assert look_up(model, "aggregate-2", "42")["slot"] is None


@pytest.mark.parametrize("value", ["a, b", "x as int64", "é" * 50])
def test_any_text_may_be_asked_for(tmp_path: Path, value: str) -> None:
    checkpoint(tmp_path, Story(), 2)
    model = QueryModel(CheckpointReader(str(tmp_path)))
    model.refresh()
    assert look_up(model, "", value)["key"] == value
    assert look_up(model, "no such operator", value)["key"] == value
    assert np.array_equal(model.whole.ids, [0, 1])
