"""Streams with a column of JSON that is parsed in Python: told apart in Spark's own plans.

`sk.from_json` gives an ordinary DataFrame: columns and Spark's own `from_json`, then perhaps a
filter, then a projection to its fields. A mark among the options tells it from others. When a query
starts, its plan is cut there. What is below stays Spark's, with the text as it is; the text is
parsed by the tasks that take the rows in; and what is above is done on Arrow. Where one of these
cannot be, Spark does it all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from skewless.engine.decoding import ORIGIN, Decoding
from skewless.engine.letters import REASON, LetterBox
from skewless.engine.pipeline import IngestTask
from skewless.errors import ArgumentError
from skewless.expressions import Shape
from skewless.expressions.shape import lean
from skewless.files.json_values import JsonColumns, is_known
from skewless.files.parquet_writing import TIMESTAMPS
from skewless.files.writing import FileWriting, unsupported
from skewless.spark.catalyst import Untranslatable
from skewless.spark.catalyst.zones import zone_of
from skewless.spark.interpreter import is_remote
from skewless.spark.plans import (
    arrow_schema,
    class_of,
    depends_on_now,
    id_of,
    items,
    scala_map,
    time_zone_of,
)
from skewless.spark.shapes import shapes_of_nodes

MARK = "skewless.on_bad"  # the option by which a `from_json` of ours is known
LETTERS_OPTION = "skewless.dead_letters"  # where bad rows are put aside
CORRUPT_OPTION = "columnNameOfCorruptRecord"
CORRUPT_SETTING = "spark.sql.columnNameOfCorruptRecord"
TIME_ZONE_OPTION = "timeZone"
KNOWN_OPTIONS = (MARK, LETTERS_OPTION, CORRUPT_OPTION, TIME_ZONE_OPTION)
PARSER_POLICY = "spark.sql.legacy.timeParserPolicy"
# With other settings than these Spark reads JSON in other ways.
USUAL = {
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.legacy.json.enableDateTimeParsingFallback": None,
}
MAPS_SINCE = (4, 3)  # of Spark: from then on, one bad value spoils a map


class NotHereError(Exception):
    """Why Spark has to parse a stream's texts."""


@dataclass(frozen=True)
class JsonStream:
    """Rows with a column of texts, as number `text`; what these hold; and what is done to the
    columns `made` (see `Decoding`)."""

    rows: DataFrame
    text: int
    json: JsonColumns
    made: tuple[int, ...]
    on_bad: str
    shapes: list[Shape]
    letters: LetterBox | None = None

    def decoding(
        self, task: IngestTask, columns: tuple[int, ...]
    ) -> tuple[Decoding, tuple[int, ...]]:
        """How some columns are made and taken in, and which columns of the rows that takes."""
        every = self.shapes or [Shape.keeping(self._schema())]
        shapes, needed = lean(every, columns)
        made = [self.made[i] for i in needed]
        names = self.rows.columns
        origin = [(n, names.index(n)) for n in ORIGIN if self.on_bad == "error" and n in names]
        every_one = range(len(names)) if self.letters is not None else ()
        handed = sorted(
            {self.text, *every_one, *(i for i in made if i >= 0), *dict(origin).values()}
        )
        place = {number: at for at, number in enumerate(handed)}
        decoding = Decoding(
            task,
            self.json,
            place[self.text],
            tuple(i if i < 0 else place[i] for i in made),
            self.on_bad,
            tuple(shapes),
            tuple((name, place[i]) for name, i in origin),
            self.letters,
        )
        return decoding, tuple(handed)

    def _schema(self) -> pa.Schema:
        rows, texts = arrow_schema(self.rows.schema), self.json.schema
        return pa.schema([texts.field(-1 - i) if i < 0 else rows.field(i) for i in self.made])


def json_stream(frame: DataFrame) -> JsonStream | str | None:
    """How the texts of a DataFrame are parsed; why Spark has to do it; None if it has none."""
    session = frame.sparkSession
    if is_remote(session):
        return None  # Spark Connect does not show its plans
    plan = frame._jdf.queryExecution().analyzed()
    chain = _way_down(plan)
    try:
        if chain is None:
            if not _has_mark(plan):
                return None
            raise NotHereError("several streams come together above it")
        if depends_on_now(frame):
            raise NotHereError("the time of day is asked for")
        found = _stream(session, chain)
        if len(_letter_paths(plan)) > (found.letters is not None):
            raise NotHereError("its rows are parsed once more")
        return found
    except NotHereError as why:
        reason = str(why)
    except Untranslatable as why:
        reason = f"Arrow cannot do what is done to its columns ({str(why).partition(';')[0]})"
    for path in _letter_paths(plan):
        accepted = f'"null", "drop" or "error": Spark has to parse this stream, as {reason}'
        raise ArgumentError("on_bad", f"DeadLetters({path!r})", accepted)
    return reason


def letter_paths(frame: DataFrame) -> list[str]:
    """Where the dead letters of a stream go."""
    if is_remote(frame.sparkSession):
        return []
    return _letter_paths(frame._jdf.queryExecution().analyzed())


def _letter_paths(plan: Any) -> list[str]:
    marked = _marked(plan)
    options = {} if marked is None else scala_map(marked.child().options())
    own = [options[LETTERS_OPTION]] if LETTERS_OPTION in options else []
    return own + [path for below in items(plan.children()) for path in _letter_paths(below)]


def _way_down(plan: Any) -> list[Any] | None:
    """The nodes from the root of a plan to the uppermost marked `from_json`; None if there is none,
    or several ways lead down."""
    chain = [plan]
    while _marked(chain[-1]) is None:
        below = items(chain[-1].children())
        if len(below) != 1:
            return None
        chain += below
    return chain


def _has_mark(plan: Any) -> bool:
    return _marked(plan) is not None or any(map(_has_mark, items(plan.children())))


def _marked(node: Any) -> Any:
    """The column that a marked `from_json` makes, if a node has one."""
    if class_of(node) != "Project" or not items(node.projectList()):
        return None
    last = items(node.projectList())[-1]
    is_json = class_of(last) == "Alias" and class_of(last.child()) == "JsonToStructs"
    return last if is_json and MARK in scala_map(last.child().options()) else None


def _stream(session: SparkSession, chain: list[Any]) -> JsonStream:
    """The stream of a plan whose last node parses texts. A filter may stand above that, which is
    `on_bad`; then comes the projection to the fields."""
    parsed, above = _marked(chain[-1]), len(chain) - 2
    above -= class_of(chain[above]) == "Filter"
    options = scala_map(parsed.child().options())
    _check_usual(session, options)
    [below] = items(chain[-1].children())
    ids = [id_of(attribute) for attribute in items(below.output())]
    fields = StructType.fromJson(json.loads(parsed.dataType().json()))
    corrupt = options.get(CORRUPT_OPTION) or session.conf.get(CORRUPT_SETTING, None)
    zone = zone_of(session, options.get(TIME_ZONE_OPTION) or time_zone_of(session))
    rows = _frame(session, below)
    return JsonStream(
        rows,
        ids.index(_text_id(parsed.child())),
        JsonColumns(_checked_schema(session, fields, parsed.child()), corrupt, zone),
        tuple(_made(one, ids) for one in items(chain[above].projectList())),
        options[MARK],
        shapes_of_nodes(session, chain[:above]),
        _letters(rows, options[LETTERS_OPTION]) if LETTERS_OPTION in options else None,
    )


def _letters(rows: DataFrame, path: str) -> LetterBox:
    """How the rows of a stream are put aside: as they come, with a reason."""
    session = rows.sparkSession
    schema = StructType([*rows.schema.fields, StructField(REASON, StringType())])
    writing = FileWriting(
        "parquet",
        arrow_schema(schema),
        schema.json(),
        session.version,
        settings=((TIMESTAMPS, "TIMESTAMP_MICROS"),),
    )
    if (why := unsupported(writing)) is not None:
        raise NotHereError(f"dead letters cannot have {why}")
    return LetterBox(path, writing)


def _check_usual(session: SparkSession, options: dict[str, str]) -> None:
    others = [name for name in options if name not in KNOWN_OPTIONS]
    if others:
        raise NotHereError(f"the option {others[0]} is Spark's alone")
    odd = [name for name, value in USUAL.items() if session.conf.get(name, value) != value]
    if session.conf.get(PARSER_POLICY, None) == "LEGACY":
        odd.append(PARSER_POLICY)
    if odd:
        raise NotHereError(f"{odd[0]} is {session.conf.get(odd[0])}")


def _checked_schema(session: SparkSession, fields: StructType, parser: Any) -> pa.Schema:
    """The fields as columns. As they were declared, strings may have a length that Spark minds."""
    if "map<" in fields.simpleString() and _version(session) < MAPS_SINCE:
        raise NotHereError(f"Spark {session.version} keeps other parts of maps with a bad value")
    for field in StructType.fromJson(json.loads(parser.schema().json())).fields:
        if not _is_plain(field.dataType):
            raise NotHereError(f"`{field.name}` has strings of a length or collation")
    schema = arrow_schema(fields)
    for column in schema:
        if not is_known(column.type):
            raise NotHereError(f"`{column.name}` is of a type that only Spark reads")
    return schema


def _version(session: SparkSession) -> tuple[int, ...]:
    return tuple(int(part) for part in session.version.split(".")[:2])


def _is_plain(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_plain(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, MapType):
        return _is_plain(kind.keyType) and _is_plain(kind.valueType)
    return not isinstance(kind, CharType | VarcharType | StringType) or kind == StringType()


def _text_id(parser: Any) -> int:
    """The column that is parsed, below a cast to string."""
    column = parser.child()
    while class_of(column) != "AttributeReference":
        column = column.child()
    return id_of(column)


def _made(named: Any, ids: list[int]) -> int:
    """A column of the rows below, or a field of the texts: see `Decoding`."""
    if class_of(named) == "AttributeReference":
        return ids.index(id_of(named))
    return -1 - int(named.child().ordinal())


def _frame(session: SparkSession, plan: Any) -> DataFrame:
    jvm: Any = session._jvm
    dataset = jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)
