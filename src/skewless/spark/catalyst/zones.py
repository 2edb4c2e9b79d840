"""The time zones of the JVM, which may know other rules than this machine."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from skewless.expressions.zones import UTC, Zone

CHANGE = re.compile(r"\[(?:Gap|Overlap) at ([-+\dT:.]+?)(Z|[+-]\d\d:\d\d(?::\d\d)?) to ([^\]]+)\]")
EPOCH = datetime(1970, 1, 1)
SECOND = 1_000_000
LAST_YEAR = 2500  # the rules of 400 years are read before it, and repeated behind it


def zone_of(session: SparkSession, name: str) -> Zone:
    jvm: Any = session._jvm
    return _zone(jvm, name)


@cache
def _zone(jvm: Any, name: str) -> Zone:
    utils = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils
    rules = utils.getZoneId(name).getRules()
    if rules.isFixedOffset():
        offset = rules.getOffset(jvm.java.time.Instant.EPOCH)
        distance = offset.getTotalSeconds() * SECOND
        return Zone((), (distance,)) if distance else UTC
    found = CHANGE.findall(rules.getTransitions().toString())
    yearly = list(rules.getTransitionRules())
    last = int(found[-1][0][:4]) if found else 1969
    for year in range(last, LAST_YEAR):
        found += [CHANGE.findall(r.createTransition(year).toString())[0] for r in yearly]
    return _from_changes(set(found))


def _from_changes(found: set[tuple[str, str, str]]) -> Zone:
    """A zone from what is written: clock on the wall, distance before, distance after."""
    moments = sorted(
        (
            _micros(datetime.fromisoformat(clock)) - _distance(before),
            _distance(before),
            _distance(after),
        )
        for clock, before, after in found
    )
    changes = tuple(moment for moment, _, _ in moments)
    distances = (moments[0][1], *(after for _, _, after in moments))
    return Zone(changes, distances, _micros(datetime(LAST_YEAR, 1, 1)))


def _micros(clock: datetime) -> int:
    since = clock - EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND


def _distance(written: str) -> int:
    """Microseconds of "+05:30", "-00:01:15" or "Z"."""
    if written == "Z":
        return 0
    parts = [int(part) for part in written[1:].split(":")]
    seconds = sum(part * width for part, width in zip(parts, (3600, 60, 1), strict=False))
    return (-seconds if written[0] == "-" else seconds) * SECOND
