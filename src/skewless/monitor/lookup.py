"""One key: its slot, who works on it, since when, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays.telling import bounded
from skewless.arrays.types import KeyColumn, SideSpec
from skewless.monitor.model import QueryModel, Scope
from skewless.monitor.reading import Division
from skewless.monitor.thinning import plain
from skewless.placement.units import slot_of

Json = dict[str, Any]

TOLD_MAX = 20  # decisions about the key
HEX = 16  # digits of a hash

_ONE_KEY = re.compile(r"(?P<name>.+) as (?P<type>\w+)(?: or null)?")


def look_up(model: QueryModel, operator: str, value: str) -> Json:
    """Everything that is known of a key, by its value as people write it."""
    scope, division = model.scope(operator), model.division(operator)
    name = bounded(value)  # as reports have it
    told_hash = _told_hash(scope, division, name)
    hashed = _hash(_facts_of(model.facts, operator), value) if told_hash is None else told_hash
    told: Json = {"key": name, "known": told_hash is not None, "hash": None, "slot": None}
    told |= _shares(scope, name)
    if hashed is None:
        return told | {"why": "Only keys that were among the heaviest are known by this value."}
    told["hash"] = f"{hashed:0{HEX}x}"
    if division is None or division.placement is None:
        return told | {"why": "This operator does not place its work by slots."}
    slot = told["slot"] = slot_of(hashed, division.slots)
    own = division.placement.isolated_key(hashed)
    here = own.instances if own else (int(division.placement.instance_of[slot]),)
    told |= {"instances": list(here), "apart": own is not None, "split": len(here) > 1}
    return told | _history(scope, name, slot, division, is_apart=own is not None)


def _told_hash(scope: Scope, division: Division | None, value: str) -> int | None:
    """The hash of a key that a report or the placement names."""
    if value in scope.watched:
        return scope.watched[value].hash
    own = () if division is None or division.placement is None else division.placement.isolated
    return next((key.hash for key in own if key.value == value), None)


def _history(scope: Scope, value: str, slot: int, division: Division, *, is_apart: bool) -> Json:
    """What was decided about a key and its slot, the latest first; and which of it put the key
    where it is."""
    about_key, about_slot = f"key {value}", f"slot {slot}"
    told = [d for d in scope.decided if d.decision.subject in (about_key, about_slot)]
    placing = [
        d for d in told
        if d.decision.accepted and (d.decision.subject == about_key or not is_apart)
    ]  # fmt: skip
    since, why = None, "By its hash: nothing about it was decided in the batches that are known."
    if placing:
        since, why = placing[-1].batch_id, placing[-1].decision.reason
    elif is_apart:
        why = "It has a place of its own since before the batches that are known."
    decided = [
        {
            "batch": d.batch_id,
            "kind": d.decision.kind,
            "subject": d.decision.subject,
            "target": d.decision.target,
            "reason": d.decision.reason,
            "accepted": d.decision.accepted,
        }
        for d in reversed(told[-TOLD_MAX:])
    ]
    return {"since": since, "why": why, "decisions": decided, "strategy": division.strategy}


def _shares(scope: Scope, value: str) -> Json:
    """How heavy a key was in the last batch, at most, and since when."""
    if value not in scope.keys.names:
        return {"now": None, "most": None, "first": None}
    share = scope.keys.share(scope.keys.number(value))
    heavy = np.flatnonzero(share > 0)
    if not len(heavy):
        return {"now": None, "most": None, "first": None}
    now, most = plain(np.array([share[-1], share.max()]))
    return {"now": now, "most": most, "first": int(scope.ids[heavy[0]])}


def _facts_of(facts: Mapping[str, str], operator: str) -> Mapping[str, str]:
    prefix = f"{operator}: "
    own = {k.removeprefix(prefix): v for k, v in facts.items() if k.startswith(prefix)}
    return own or facts


def _hash(facts: Mapping[str, str], value: str) -> int | None:
    """The hash of a key that nobody told of, where it is one column of a plain type."""
    found = _ONE_KEY.fullmatch(facts.get("left keys", ""))
    if found is None:
        return None
    from skewless.arrays.keys import hash_of_value  # loads Numba, which takes a second

    try:
        kind = pa.type_for_alias(found["type"])
        schema = pa.schema([(found["name"], kind)])
        return hash_of_value(value, SideSpec(schema, (KeyColumn(0, kind),), (), None, 0))
    except (ValueError, TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
