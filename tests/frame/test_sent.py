"""A query that is sent to another process, as under Spark Connect, is the same query there."""

from __future__ import annotations

import pickle

import pytest

from tests.frame.kit import Kit
from tests.frame.kits import KITS


@pytest.mark.parametrize("kit", KITS.values(), ids=list(KITS))
def test_a_query_does_the_same_wherever_it_is(kit: Kit) -> None:
    for setup in kit.setups:
        here = kit.pipeline(setup)
        there = pickle.loads(pickle.dumps(here))
        assert there.fingerprint() == here.fingerprint()
