"""ORC: whole stripes, only the columns that are asked for.

Spark's reader turns almost any type into any other. Here only what loses nothing is read, and the
rest is refused. So are times before 1970: the Java and C++ libraries do not agree on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po

from skewless.files.converting import (
    HINT,
    INSTANT,
    LOCAL,
    OLD_DAYS,
    UTC_NAMES,
    Convert,
    Leaf,
    Rules,
    UnfaithfulError,
    assembled,
    cast_to,
    is_wider_decimal,
    same,
)
from skewless.files.splits import Split

DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


def read(
    split: Split,
    source: pa.NativeFile,
    fields: Sequence[pa.Field],
    *,
    case_sensitive: bool,
    zone: str,
) -> Iterator[pa.RecordBatch]:
    """The columns of a split that are in its file under these names; nulls for what is not."""
    file = po.ORCFile(source)
    names = file.schema.names
    if names and all(name.startswith("_col") for name in names):
        raise UnfaithfulError(f"{split.path}: columns have no names, Spark goes by order. {HINT}")
    stripes = _stripes(split, file.nstripes)
    if not stripes:
        return
    plain = Rules(_leaf(split.path, zone), case_sensitive)
    places = [plain.position(field.name, names, split.path) for field in fields]
    converts = {}
    for at, field in zip(places, fields, strict=True):
        if at is not None:
            where = f"{split.path}: column `{field.name}`"
            rules = Rules(_leaf(where, zone), case_sensitive)
            converts[at] = rules.converter(file.schema.field(at).type, field.type, where)
    wanted = sorted(converts)
    for stripe in stripes:
        batch = _stripe(split, file, stripe, [names[at] for at in wanted])
        if batch.schema.names != [names[at] for at in wanted]:
            raise UnfaithfulError(f"{split.path}: the names of columns have dots. {HINT}")
        found = {at: convert(batch.column(wanted.index(at))) for at, convert in converts.items()}
        yield assembled(len(batch), fields, [None if at is None else found[at] for at in places])


def _stripe(split: Split, file: po.ORCFile, stripe: int, names: list[str]) -> pa.RecordBatch:
    try:
        return file.read_stripe(stripe, columns=names)
    except pa.ArrowInvalid as error:
        if "out of range" in str(error):  # of nanoseconds in 64 bits, as which Arrow reads times
            raise UnfaithfulError(f"{split.path}: {error}. {HINT}") from error
        raise


def _stripes(split: Split, count: int) -> list[int]:
    """Arrow does not tell where stripes lie: they are taken to be of the same size. So each is in
    one split all the same."""
    if split.is_whole:
        return list(range(count))
    middles = [(2 * i + 1) * split.size // (2 * count) for i in range(count)]
    return [i for i, middle in enumerate(middles) if split.begin <= middle < split.end]


def _leaf(where: str, zone: str) -> Leaf:
    def leaf(found: pa.DataType, declared: pa.DataType) -> Convert | None:
        if pa.types.is_date32(found) and declared == found:
            return lambda array: _none_before(array, array.view(pa.int32()), OLD_DAYS, where)
        if pa.types.is_timestamp(found):
            return _moment(found, where, zone) if declared == INSTANT else None
        if found == declared:
            return same
        if found in DIGITS:
            return _number(found, declared)
        if pa.types.is_decimal128(found) and pa.types.is_decimal128(declared):
            return cast_to(declared) if is_wider_decimal(found, declared) else None
        return _BY_PAIR.get((found, declared))

    return leaf


def _number(found: pa.DataType, declared: pa.DataType) -> Convert | None:
    if declared == pa.float64() or (declared in DIGITS and declared.bit_width > found.bit_width):
        return cast_to(declared, safe=False)
    if found == pa.int64() and declared == LOCAL:  # as Spark writes them
        return lambda array: array.view(LOCAL)
    if pa.types.is_decimal128(declared) and declared.precision - declared.scale >= DIGITS[found]:
        return cast_to(declared)
    return None


def _moment(found: pa.DataType, where: str, zone: str) -> Convert:
    if found.tz is None and zone not in UTC_NAMES:
        raise UnfaithfulError(
            f"{where} has times without a zone, which Spark reads by that of its machines, "
            f"{zone or 'unknown'}; here only UTC is. {HINT}"
        )

    def convert(array: pa.Array) -> pa.Array:
        numbers = array.view(pa.int64())
        _none_before(array, numbers, 0, where)
        return pc.divide(numbers, 1000).view(INSTANT)

    return convert


def _none_before(array: pa.Array, numbers: pa.Array, limit: int, where: str) -> pa.Array:
    least = pc.min(numbers).as_py()
    if least is not None and least < limit:
        year = 1970 if limit == 0 else 1582
        raise UnfaithfulError(f"{where} has values before {year}. {HINT}")
    return array


_BY_PAIR: dict[tuple[pa.DataType, pa.DataType], Convert] = {
    (pa.float32(), pa.float64()): cast_to(pa.float64()),
    (pa.string(), pa.binary()): lambda array: array.view(pa.binary()),
}
