"""Reading files as columns: what a task needs to know, and what is checked before one starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from skewless.errors import ArgumentError, ColumnError, DataError
from skewless.expressions import Expression
from skewless.expressions.zones import UTC, Zone
from skewless.files import partitions
from skewless.files.converting import UTC_NAMES, UnfaithfulError, assembled
from skewless.files.lines import packing_of
from skewless.files.opening import is_far, opened
from skewless.files.options import Options
from skewless.files.pruning import Wanted
from skewless.files.splits import Split
from skewless.state.files import Folder

FORMATS = ("parquet", "orc", "csv", "json")
# What is about which files there are: whoever lists them knows.
_OF_LISTING = frozenset({
    "path", "basepath", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter",
    "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly",
    "cleansource", "sourcearchivedir", "maxcachedfiles", "discardcachedinputratio",
})  # fmt: skip
_OF_ALL = frozenset({"ignorecorruptfiles", "ignoremissingfiles", "mergeschema"})
_OF_FORMAT: dict[str, frozenset[str]] = {
    "parquet": frozenset({"datetimerebasemode", "int96rebasemode"}),
    "orc": frozenset(),
    "json": frozenset({"mode", "encoding", "charset", "multiline", "compression"}),
    "csv": frozenset({
        "header", "sep", "delimiter", "quote", "escape", "nullvalue", "nanvalue", "positiveinf",
        "negativeinf", "mode", "encoding", "charset", "comment", "multiline", "inferschema",
        "enforceschema", "ignoreleadingwhitespace", "ignoretrailingwhitespace", "compression",
    }),
}  # fmt: skip


@dataclass(frozen=True)
class FileFormat:
    """How files are read: a value that goes to every task. `schema` has all declared columns,
    `base` is the folder below which folders `k=v` are columns, `options` are the user's.
    `time_zone` is the session's, and `zone` what the JVM knows of it; `jvm_time_zone` that of the
    machines, by which Spark reads times in ORC."""

    name: str
    schema: pa.Schema
    options: tuple[tuple[str, str], ...] = ()
    base: str = ""
    time_zone: str = "UTC"
    case_sensitive: bool = False
    jvm_time_zone: str = ""
    zone: Zone | None = None

    def read(
        self,
        split: Split,
        folder: Folder,
        columns: Sequence[int],
        condition: Expression | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a split: the columns by number, in the schema's types exactly. `folder` has
        the settings of the store. Rows that do not fulfil a condition, over the columns as they are
        given here, may be left out."""
        options = Options(self.options)
        try:
            yield from self._rows(split, folder, columns, condition, options)
        except FileNotFoundError as error:
            if not options.flag("ignoreMissingFiles"):
                raise DataError(f"{split.path} is gone: {error}") from error
        except (pa.ArrowException, OSError) as error:
            if options.flag("ignoreCorruptFiles") and _is_corrupt(error):
                return
            raise DataError(f"{split.path} cannot be read as {self.name}: {error}") from error

    def _rows(
        self,
        split: Split,
        folder: Folder,
        columns: Sequence[int],
        condition: Expression | None,
        options: Options,
    ) -> Iterator[pa.RecordBatch]:
        """Folders stand over columns of the file that have the same name."""
        base = options.get("basePath", self.base)
        fixed = partitions.values(
            split.path, base, list(self.schema), self.time_zone, case_sensitive=self.case_sensitive
        )
        inside = [i for i in columns if i not in fixed]
        wanted = Wanted.of(condition, columns, fixed)
        if not wanted():
            return
        stored = [i for i in range(len(self.schema)) if i not in fixed]
        with opened(split.path, split.size, folder) as source:
            if not split.is_whole and source.size() != split.size:
                raise UnfaithfulError(
                    f"{split.path} has {source.size()} bytes and had {split.size} when it was found"
                )
            for batch in self._stored(split, source, inside, stored, wanted, options):
                if batch.num_rows:
                    is_whole = len(inside) == len(columns)
                    yield batch if is_whole else self._with(batch, columns, fixed)

    def _stored(
        self,
        split: Split,
        source: pa.NativeFile,
        columns: Sequence[int],
        stored: Sequence[int],
        wanted: Wanted,
        options: Options,
    ) -> Iterator[pa.RecordBatch]:
        """Of the columns that files hold, those that are asked for. Formats are loaded when they
        are read."""
        fields = [self.schema.field(i) for i in columns]
        exact = self.case_sensitive
        every = [self.schema.field(i) for i in stored]
        if self.name == "csv":
            from skewless.files import csv_reading

            return csv_reading.read(split, source, fields, every, options, self._zone())
        if self.name == "json":
            from skewless.files import json_reading

            return json_reading.read(split, source, fields, every, options, self._zone())
        if self.name == "orc":
            from skewless.files import orc_reading

            zone = self.jvm_time_zone
            return orc_reading.read(split, source, fields, case_sensitive=exact, zone=zone)
        from skewless.files import parquet_reading

        return parquet_reading.read(
            split, source, fields, wanted, options, case_sensitive=exact, far=is_far(split.path)
        )

    def _zone(self) -> Zone | None:
        """That of times which name none, where it is known."""
        return UTC if self.zone is None and self.time_zone in UTC_NAMES else self.zone

    def _with(
        self, batch: pa.RecordBatch, columns: Sequence[int], fixed: dict[int, pa.Scalar]
    ) -> pa.RecordBatch:
        """A batch with columns of one value each put between its own."""
        own, rows = iter(batch.columns), batch.num_rows
        arrays = [pa.repeat(fixed[i], rows) if i in fixed else next(own) for i in columns]
        return assembled(rows, [self.schema.field(i) for i in columns], arrays)


def _is_corrupt(error: Exception) -> bool:
    """Whether it is the file, and not that a store does not answer, or that Arrow does not know
    what Spark knows."""
    known = not isinstance(error, pa.ArrowNotImplementedError)
    return known and getattr(error, "errno", None) is None


def check(name: str, options: Iterable[tuple[str, str]], schema: pa.Schema) -> None:
    """Refuse what cannot be read as Spark reads it, before anything starts."""
    if name not in FORMATS:
        raise ArgumentError("format", name, f"one of: {', '.join(map(repr, FORMATS))}")
    given = Options(options)
    known = _OF_ALL | _OF_FORMAT[name]
    for option in given.names:
        if option not in known | _OF_LISTING:
            raise ArgumentError("option", option, f"one of: {', '.join(sorted(known))}")
    for flag in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        given.flag(flag)
    if name == "csv":
        from skewless.files import csv_reading

        csv_reading.check(given, schema)
    elif name == "json":
        from skewless.files import json_reading

        json_reading.check(given, schema)
    for field in schema:
        if not _is_known(field.type):
            raise ColumnError(field.name, str(field.type), "of a type that Spark stores in files")


def is_splittable(format: FileFormat, path: str) -> bool:
    """Whether a file can be read in parts."""
    return format.name in ("parquet", "orc") or packing_of(path) is None


_KNOWN = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"),
)  # fmt: skip


def _is_known(type: pa.DataType) -> bool:
    if pa.types.is_map(type):
        return _is_known(type.key_type) and _is_known(type.item_type)
    if pa.types.is_list(type):
        return _is_known(type.value_type)
    if pa.types.is_struct(type):
        return type.num_fields > 0 and all(_is_known(field.type) for field in type)
    return type in _KNOWN or pa.types.is_decimal128(type)
