"""What is in a table, by readers that know nothing of Spark: delta-rs, PyIceberg, psql."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from tests.spark.support import Rows, duck, multiset
from tests.tables.places import Place
from tests.tables.postgres import Postgres


def _rows(table: pa.Table) -> Rows:
    connection = duck()
    connection.register("found", table)
    return multiset(connection.execute("FROM found").fetchall())


def delta_rows(place: Place, server: Postgres) -> Rows:
    from deltalake import DeltaTable

    return _rows(pa.table(DeltaTable(place.path).to_pyarrow_table()))


def iceberg_rows(place: Place, server: Postgres) -> Rows:
    from pyiceberg.table import StaticTable

    folder = Path(place.folder, "db", place.table, "metadata")
    version = (folder / "version-hint.text").read_text().strip()
    table = StaticTable.from_metadata(str(folder / f"v{version}.metadata.json"))
    return _rows(table.scan().to_arrow())


def database_rows(place: Place, server: Postgres) -> Rows:
    """psql prints text; DuckDB makes of it what it was, by the types that the database has."""
    names = server.ask(
        "SELECT column_name, data_type FROM information_schema.columns "
        f"WHERE table_name = '{place.table}' ORDER BY ordinal_position"
    )
    found = server.ask(f"SELECT * FROM {place.table}")
    columns = list(zip(*found, strict=True)) or [()] * len(names)
    table = pa.table({name: pa.array(c) for (name, _), c in zip(names, columns, strict=True)})
    connection = duck()
    connection.register("found", table)
    casts = ", ".join(f"CAST(nullif(\"{name}\", '') AS {kind})" for name, kind in names)
    return multiset(connection.execute(f"SELECT {casts} FROM found").fetchall())


READ: dict[str, Callable[[Place, Postgres], Rows]] = {
    "delta": delta_rows,
    "delta table": delta_rows,
    "iceberg": iceberg_rows,
    "iceberg table": iceberg_rows,
    "jdbc": database_rows,
}
