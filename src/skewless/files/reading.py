"""Reading files as columns: what a task needs to know, and what is checked before one starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from skewless.errors import ArgumentError, ColumnError, DataError
from skewless.files import partitions
from skewless.files.converting import UnfaithfulError
from skewless.files.opening import is_far, opened
from skewless.files.options import Options
from skewless.files.splits import Split
from skewless.state.files import Folder

FORMATS = ("parquet", "orc")
# What is about which files there are: whoever lists them knows.
_OF_LISTING = frozenset({
    "path", "basepath", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter",
    "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly",
    "cleansource", "sourcearchivedir", "maxcachedfiles", "discardcachedinputratio",
})  # fmt: skip
_OF_ALL = frozenset({"ignorecorruptfiles", "ignoremissingfiles", "mergeschema"})
_OF_FORMAT = {
    "parquet": frozenset({"datetimerebasemode", "int96rebasemode"}),
    "orc": frozenset(),
}


@dataclass(frozen=True)
class FileFormat:
    """How files are read: a value that goes to every task. `schema` has all declared columns,
    `base` is the folder below which folders `k=v` are columns, `options` are the user's.
    `time_zone` is the session's; `jvm_time_zone` that of the machines, by which Spark reads times
    in ORC."""

    name: str
    schema: pa.Schema
    options: tuple[tuple[str, str], ...] = ()
    base: str = ""
    time_zone: str = "UTC"
    case_sensitive: bool = False
    jvm_time_zone: str = ""

    def read(
        self, split: Split, folder: Folder, columns: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a split: the columns by number, in the schema's types exactly. `folder` has
        the settings of the store."""
        options = Options(self.options)
        try:
            yield from self._rows(split, folder, [self.schema.field(i) for i in columns], options)
        except FileNotFoundError as error:
            if not options.flag("ignoreMissingFiles"):
                raise DataError(f"{split.path} is gone: {error}") from error
        except UnfaithfulError:
            raise
        except (pa.ArrowException, OSError, DataError) as error:
            if options.flag("ignoreCorruptFiles"):
                return
            if isinstance(error, DataError):
                raise
            raise DataError(f"{split.path} cannot be read as {self.name}: {error}") from error

    def _rows(
        self, split: Split, folder: Folder, fields: list[pa.Field], options: Options
    ) -> Iterator[pa.RecordBatch]:
        """Folders stand over columns of the file that have the same name."""
        base = options.get("basePath", self.base)
        fixed = partitions.values(
            split.path, base, fields, self.time_zone, case_sensitive=self.case_sensitive
        )
        inside = [field for i, field in enumerate(fields) if i not in fixed]
        with opened(split.path, split.size, folder) as source:
            if not split.is_whole and source.size() != split.size:
                raise DataError(
                    f"{split.path} has {source.size()} bytes and had {split.size} when it was found"
                )
            for batch in self._stored(split, source, inside, options):
                yield _with_fixed(batch, fields, fixed) if fixed else batch

    def _stored(
        self, split: Split, source: pa.NativeFile, fields: list[pa.Field], options: Options
    ) -> Iterator[pa.RecordBatch]:
        exact = self.case_sensitive
        if self.name == "orc":
            from skewless.files import orc_reading

            return orc_reading.read(
                split, source, fields, case_sensitive=exact, zone=self.jvm_time_zone
            )
        from skewless.files import parquet_reading

        return parquet_reading.read(
            split, source, fields, options, case_sensitive=exact, far=is_far(split.path)
        )


def _with_fixed(
    batch: pa.RecordBatch, fields: Sequence[pa.Field], fixed: dict[int, pa.Scalar]
) -> pa.RecordBatch:
    """A batch with columns of one value each put between its own."""
    own = iter(batch.columns)
    arrays = [
        pa.repeat(fixed[i], len(batch)) if i in fixed else next(own) for i in range(len(fields))
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


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
    for field in schema:
        if not _is_known(field.type):
            raise ColumnError(field.name, str(field.type), "of a type that Spark stores in files")


def is_splittable(format: FileFormat, path: str) -> bool:
    """Whether a file can be read in parts."""
    return format.name in ("parquet", "orc")


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
