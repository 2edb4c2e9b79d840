"""Which sink writes to a data source, or to a table of the catalog: the one place that knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skewless.spark.plans import empty_frame
from skewless.spark.sinks import Sink, TableSink
from skewless.spark.tables.database import EMPTY_COPY, kind_of
from skewless.spark.tables.delta import DeltaSink, check_options
from skewless.spark.tables.iceberg import IcebergSink, of_catalog, of_location, parted
from skewless.spark.tables.jdbc import JdbcSink
from skewless.spark.tables.target import Target
from skewless.state.epochs import Ownership
from skewless.state.publish import Moves

log = logging.getLogger("skewless")


@dataclass(frozen=True)
class Asked:
    """What a user has asked for: a place to append to, by path or name, and how."""

    target: Target
    place: str
    options: Mapping[str, Any]
    ownership: Ownership
    is_remote: bool = False

    def option(self, name: str) -> Any:
        return next((v for k, v in self.options.items() if k.lower() == name), None)


# Data sources, by format ---------------------------------------------------------------------


def _delta(asked: Asked) -> Sink | None:
    return DeltaSink(asked.target, asked.ownership, asked.options)


def _iceberg(asked: Asked) -> Sink | None:
    table, branch = parted(asked.place)
    branch = str(asked.option("branch") or branch)
    return IcebergSink(asked.target, asked.ownership, of_location(table), branch)


def _jdbc(asked: Asked) -> Sink | None:
    kind = kind_of(str(asked.option("url") or ""))
    if asked.option("url") and kind not in EMPTY_COPY:
        _warn(f"{kind} databases", f"exactly once are: {', '.join(sorted(EMPTY_COPY))}")
        return None
    if asked.is_remote:
        _warn("databases", "Spark Connect has no transaction that this process could take part in")
        return None
    return JdbcSink(asked.ownership, asked.options)


SOURCES: Mapping[str, Callable[[Asked], Sink | None]] = {
    "delta": _delta,
    "iceberg": _iceberg,
    "jdbc": _jdbc,
}


def for_source(source: str, asked: Asked) -> Sink | None:
    """The sink that writes to a data source exactly once; None if there is none."""
    make = SOURCES.get(source.lower())
    return None if make is None else make(asked)


# Tables of the catalog, by their provider ----------------------------------------------------


def _iceberg_table(asked: Asked) -> Sink | None:
    table, branch = parted(asked.place)
    return IcebergSink(asked.target, asked.ownership, of_catalog(table), branch)


PROVIDERS: Mapping[str, Callable[[Asked], Sink | None]] = {
    "delta": _delta,
    "iceberg": _iceberg_table,
}


class CatalogSink(Sink):
    """A table of the catalog. Its provider says how it is written to; so it is made first, without
    rows, if there is none."""

    may_skip = True

    def __init__(self, asked: Asked, table: TableSink) -> None:
        check_options(asked.options)
        self._asked, self._table = asked, table
        self._chosen: Sink | None = None

    def write(self, result: DataFrame, batch_id: int) -> Moves:
        if self._chosen is None:
            self._chosen = self._choose(result)
        return self._chosen.write(result, batch_id)

    def _choose(self, result: DataFrame) -> Sink:
        session, table = result.sparkSession, parted(self._asked.place)[0]
        if not session.catalog.tableExists(table):
            self._make(empty_frame(session, result.schema), table)
        provider = provider_of(session, table)
        make = PROVIDERS.get(provider)
        sink = None if make is None else make(replace(self._asked, target=self._table.of(provider)))
        if sink is None:
            _warn(f"the table {table}", f"its provider is {provider or 'unknown'}")
        return sink or self._table

    def _make(self, nothing: DataFrame, table: str) -> None:
        try:
            self._asked.target.append(nothing, {})
        except Exception:  # of the JVM or a Connect server; another query may have been quicker
            if not nothing.sparkSession.catalog.tableExists(table):
                raise


def provider_of(session: SparkSession, table: str) -> str:
    """Whose format a table of the catalog has; empty if nobody says."""
    told = session.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    return next((str(row[1]).lower() for row in told if row[0] == "Provider"), "")


def _warn(what: str, why: str) -> None:
    log.warning(
        "rows go to %s at least once (%s): if a driver ends after it has written a batch and before"
        " it has committed it, the next writes the batch again",
        what,
        why,
    )
