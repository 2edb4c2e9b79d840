"""Files read here and by Spark: the same rows, as multisets, in the same types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skewless.files.reading import FileFormat, check, is_splittable
from skewless.files.splits import FileRef, splits
from skewless.state.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDDEN = ("_", ".")


def arrow_schema(ddl: str) -> pa.Schema:
    from pyspark.sql.types import StructType

    from skewless.spark import plans

    return plans.arrow_schema(StructType.fromDDL(ddl))


def files_below(path: Path) -> list[FileRef]:
    """All that Spark would list, as it would tell of it."""
    found = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return [FileRef(f"file:{p}", p.stat().st_size) for p in found if not p.name.startswith(HIDDEN)]


def read_here(
    form: FileFormat, path: Path, tasks: int = 3, columns: Sequence[int] | None = None
) -> pa.Table:
    """A folder, read by so many tasks in parts that are as small as can be."""
    wanted = list(range(len(form.schema))) if columns is None else list(columns)
    files = files_below(path)
    cut = all(is_splittable(form, file.path) for file in files)
    folder = Folder("/")
    batches = [
        batch
        for task in splits(files, tasks, splittable=cut, least=1)
        for split in task
        for batch in form.read(split, folder, wanted)
    ]
    schema = pa.schema([form.schema.field(i) for i in wanted])
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema)


def rows_of(table: pa.Table) -> Counter[str]:
    """Times as numbers: Python's own end with the year 9999."""
    numbers = [pa.types.is_timestamp(type) or pa.types.is_date(type) for type in table.schema.types]
    plain = [
        pa.chunked_array([chunk.view(f"int{chunk.type.bit_width}") for chunk in column.chunks])
        if is_number and column.num_chunks
        else column
        for column, is_number in zip(table.columns, numbers, strict=True)
    ]
    return Counter(map(repr, pa.table(plain, names=table.column_names).to_pylist()))


def of_format(name: str, path: Path, ddl: str, **settings: Any) -> FileFormat:
    options = tuple(settings.pop("options", {}).items())
    form = FileFormat(name, arrow_schema(ddl), options, str(path), **settings)
    check(name, options, form.schema)
    return form


def assert_same(
    spark: SparkSession,
    name: str,
    path: Path,
    ddl: str,
    *,
    options: dict[str, str] | None = None,
    tasks: int = 3,
    **settings: Any,
) -> pa.Table:
    """What was read, after it was compared with what Spark reads."""
    found = read_here(of_format(name, path, ddl, options=options or {}, **settings), path, tasks)
    expected = spark.read.schema(ddl).format(name).options(**(options or {})).load(str(path))
    table = expected.toArrow().select(found.column_names)
    assert found.schema.types == table.schema.types
    ours, theirs = rows_of(found), rows_of(table)
    assert ours == theirs, (
        f"only here {list(ours - theirs)[:3]}, only Spark {list(theirs - ours)[:3]}"
    )
    return found
