"""What the session runs on: how many tasks at once, on one machine or several, and where a task
that comes again is run."""

from __future__ import annotations

import time
import uuid
import weakref
from contextlib import suppress
from functools import lru_cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.spark.interpreter import is_remote

ASK_AGAIN_S = 60.0  # under Spark Connect, where asking is a job

_asked: weakref.WeakKeyDictionary[SparkSession, tuple[float, int]] = weakref.WeakKeyDictionary()


def parallelism(session: SparkSession) -> int:
    """How many tasks the session runs at once, with the executors that it has at the moment. They
    come and go, and the first may register after the session was made: ask again every batch."""
    if not is_remote(session):
        cores = session.sparkContext.defaultParallelism
        cpus = session.conf.get("spark.task.cpus", "1") or "1"
        return cores if cpus == "1" else max(cores // int(cpus), 1)
    now = time.monotonic()
    asked_s, found = _asked.get(session, (-ASK_AGAIN_S, 0))
    if now - asked_s >= ASK_AGAIN_S:
        ids = session.range(0, 1 << 16).select(F.spark_partition_id().alias("p"))
        found = int(ids.agg(F.max("p")).collect()[0][0]) + 1
        _asked[session] = (now, found)
    return found


def is_one_host(session: SparkSession) -> bool:
    """Whether all tasks run in the driver's own process: then every place is as good."""
    master = session.conf.get("spark.master", "") or ""
    return master == "local" or master.startswith("local[")


HOME = "home"  # a column that brings a row to the task of an instance


def murmur3(value: int) -> int:
    """Spark's `hash` of an int that is not negative, which says what partition a row goes to."""
    mask = 0xFFFFFFFF

    def rotated(bits: int, by: int) -> int:
        return (bits << by | bits >> (32 - by)) & mask

    mixed = rotated(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    found = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64 & mask) ^ 4
    for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ found >> by) * factor & mask
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


@lru_cache(maxsize=8)
def keys_of(count: int) -> tuple[int, ...]:
    """For each of so many partitions, a value that Spark's hash brings there."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < count:
        found.setdefault(murmur3(value) % count, value)
        value += 1
    return tuple(found[partition] for partition in range(count))


def home_of(instance: Column, count: int) -> Column:
    """What brings a row to an instance's partition."""
    keys = F.split(F.lit(",".join(map(str, keys_of(count)))), ",")
    return keys[instance].cast("int").alias(HOME)


class Places:
    """Where instances work: each where it worked before, so that it finds there what it fetched.

    Spark runs a task where its cached input is. The input of an instance is its number, and numbers
    are cached. A lost executor is a cache miss: the instance then has another place. As executors
    come or go, all places are given out anew, or else new ones would have nothing to do.

    They are partitioned by hash: a union with rows that are partitioned alike has as many tasks,
    each where the number is. So rows that are exchanged arrive where they will be worked on.

    What is cached bears a name of its own: Spark takes equal plans for one, and who lets go of it
    would do so for all queries of an application.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, DataFrame] = {}
        self._cores = 0
        self._name = uuid.uuid4().hex

    def numbers(self, session: SparkSession, count: int, cores: int) -> DataFrame:
        """The numbers of so many instances, each in a partition of its own."""
        if is_one_host(session):
            return session.range(0, count, 1, count)
        if cores != self._cores:
            self.forget()
            self._cores = cores
        if count not in self._numbers:
            numbers = session.range(0, count, 1, count)
            home = home_of(F.col("id").cast("int"), count)
            placed = numbers.select("id", home, F.lit(self._name).alias("places"))
            cached = placed.repartition(count, HOME).persist()
            cached.count()  # adaptive plans know how they are partitioned once they have run
            self._numbers[count] = cached
        return self._numbers[count]

    def forget(self) -> None:
        """Let go of all places, as a query ends or the cluster changes."""
        for numbers in self._numbers.values():
            with suppress(Exception):  # the session may be gone already, and its cache with it
                numbers.unpersist()
        self._numbers.clear()

    def __getstate__(self) -> dict[str, object]:
        return {"_numbers": {}, "_cores": 0, "_name": self._name}  # places are not sent along
