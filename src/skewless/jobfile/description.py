"""The one description of job files: every table, every key, what it means and what it accepts.

The reader, the JSON schema, the tables of docs/jobs.md and the questions of `skewless new` are all
made of it, so that none of them can say something else.
"""

from __future__ import annotations

from dataclasses import dataclass

from skewless.jobfile.argument_kinds import (
    Aggs,
    By,
    Compared,
    On,
    On3,
    Strategy,
    Times,
    Window,
    Within,
)
from skewless.jobfile.kinds import (
    Choice,
    Count,
    Duration,
    EachDuration,
    Flag,
    Inputs,
    Kind,
    Number,
    Settings,
    SubTable,
    Suffixes,
    Text,
    Texts,
)
from skewless.operators.join_type import JOIN_TYPES


@dataclass(frozen=True)
class Key:
    """A key of a table: its kind of value, what it means, and whether it must be there. `missing`
    says what is wanted where that says more than what is accepted."""

    name: str
    kind: Kind
    doc: str
    required: bool = False
    missing: str = ""

    @property
    def wanted(self) -> str:
        return self.missing or self.kind.accepted


@dataclass(frozen=True)
class Table:
    """A table of a job file: its title as it is written, what it is for, and its keys."""

    title: str
    doc: str
    keys: tuple[Key, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key.name for key in self.keys)

    def key(self, name: str) -> Key:
        return next(key for key in self.keys if key.name == name)


SOURCE_FORMAT = 'a source that Spark can stream from, such as "parquet" or "kafka"'
SINK_FORMAT = 'a sink that Spark can write to, such as "parquet", "console" or "kafka"'
FOLDER = "a folder or a URI"
SQL = "an SQL condition over the output columns"
CHECKPOINT = 'the folder of the query\'s state, such as checkpoint = "out/checkpoint"'
NAMED_TABLE = "a table [{0}] with `format` and what the format needs"
METRICS = ("euclidean", "manhattan", "angular", "hamming", "jaccard", "haversine")
TIME = "the name of the event-time column"
BOUND_MISSING = 'how far apart in time rows may be, "10 minutes", ["-1 minute", "10 minutes"]'


def _spark_setting(name: str) -> str | None:
    if name == "spark.master":
        return "`spark.master` is given as `master` in [spark]"
    known = name.startswith("spark.")
    return None if known else f"`{name}` is not a Spark setting: they begin with `spark.`"


INPUT = Table(
    "inputs.NAME",
    "A stream that comes from outside. `NAME` is what steps call it.",
    (
        Key(
            "format",
            Text(SOURCE_FORMAT),
            "Where rows come from: `parquet`, `json`, `csv`, `orc`, `kafka`, `rate`, or any other "
            "format that Spark can stream from.",
            required=True,
        ),
        Key("path", Text(FOLDER), "The folder that the files come to; needed for files."),
        Key(
            "schema",
            Text('columns and types, such as "id BIGINT, at TIMESTAMP"'),
            "Columns and types. Files need one; Kafka and `rate` have their own.",
        ),
        Key(
            "read",
            Choice(("spark", "columns")),
            '`"columns"`: files are read as columns, without the JVM (`sk.readStream`; parquet, '
            'json, csv, orc). `"spark"`, the default: Spark reads them.',
        ),
        Key("options", Settings(), "Options of the format, such as `maxFilesPerTrigger`."),
        Key("where", Text("an SQL condition over the source's columns"), "Which rows are taken."),
        Key(
            "select",
            Texts('SQL expressions, such as ["cast(key AS STRING) AS k"]'),
            "Columns to take, as SQL expressions; they see all of the source's columns.",
        ),
    ),
)

_SHAPE = (
    Key("where", Text(SQL), "A filter over the step's result, in SQL."),
    Key(
        "select",
        Texts('SQL expressions over the result, such as ["id", "price * 2 AS twice"]'),
        "Columns of the result, as SQL expressions. It comes after `where`.",
    ),
)


def _clock(inputs: int) -> tuple[Key, ...]:
    each = Duration() if inputs == 1 else EachDuration(inputs)
    return (
        Key(
            "late",
            each,
            "How far rows may come out of order; later ones are dropped and counted. Default: "
            '`"0 seconds"`. Left out where the input is another step: nothing in it is late.',
        ),
        Key(
            "idle_after",
            each,
            "A stream without rows for so long, by the clock, holds time back no longer.",
        ),
        Key("max_ahead", each, "Rows further ahead of the clock are put aside and counted."),
    )


def _placed(operator: str | None, older: str | None = None) -> tuple[Key, ...]:
    """How the work is divided."""
    keys = []
    if operator is not None:
        words = ", ".join(f'`"{word}"`' for word in Strategy(operator).words)
        doc = f"Who works on which rows; the result is the same. {words}, or with its settings."
        keys.append(Key("strategy", Strategy(operator), doc))
        if older is not None:
            keys.append(Key(older, Strategy(operator), "Another name of `strategy`."))
    doc = 'How many tasks work on a batch. Default: `"auto"`, as many as it needs.'
    keys.append(Key("instances", Count(auto=True), doc))
    return tuple(keys)


NULL_TIMES = Key(
    "on_null_time",
    Choice(("error", "drop")),
    '`"error"`, the default, stops the query at a row without event time; `"drop"` counts it.',
)
_SLOTS = Key("slots", Count(), "Into how many ranges keys are divided. Default: 16 per core.")


def _sides(time_doc: str) -> tuple[Key, ...]:
    return (
        Key("time", Times(2), time_doc),
        Key("left_time", Text(TIME), "The same, one by one."),
        Key("right_time", Text(TIME), "The same, one by one."),
    )


_TIME = "The event-time columns: one name for both sides, or one for each."
_SUFFIXES = "Added to names that several inputs have."

JOIN_KEYS = (
    Key(
        "on",
        On(),
        "What must be equal, or within a band.",
        required=True,
        missing=f"the columns to join on, {On().accepted}",
    ),
    *_sides(f'{_TIME} Only `within = "unbounded"` can do without.'),
    Key(
        "within",
        Within(half_open=True),
        "How far apart in time rows may be: either way, from a lower to an upper bound of right "
        "minus left, or `unbounded`.",
        required=True,
        missing=f"how far apart in time rows may be, {Within(half_open=True).accepted}",
    ),
    Key(
        "how",
        Choice(tuple(JOIN_TYPES)),
        "The type of join. Default: `inner`. Rows without a partner come when none can come.",
    ),
    Key(
        "condition",
        Text("an SQL condition on the pairs"),
        "What else must hold for two rows to match, in SQL over the names that columns have in "
        "the result of an inner join.",
    ),
    *_clock(2),
    *_placed("join", "balance"),
    _SLOTS,
    Key("suffixes", Suffixes(("", "_right")), _SUFFIXES),
    NULL_TIMES,
)

ASOF_KEYS = (
    Key("on", On(bands=False), "What must be equal.", required=True),
    *_sides(_TIME),
    Key(
        "direction",
        Choice(("backward", "forward", "nearest")),
        "The latest right row at or before the left one (the default), the earliest at or after "
        "it, or whichever is nearer.",
    ),
    Key("tolerance", Duration(), "How far apart in time both may be.", required=True),
    Key(
        "allow_exact_matches",
        Flag(),
        "`false`: right rows of the very same time are no partners.",
    ),
    Key(
        "how",
        Choice(("inner", "left")),
        '`"left"`: left rows without a partner come, too. Default: `inner`.',
    ),
    *_clock(2),
    *_placed("join", "balance"),
    _SLOTS,
    Key("suffixes", Suffixes(("", "_right")), _SUFFIXES),
    NULL_TIMES,
)

JOIN3_KEYS = (
    Key(
        "on",
        On3(),
        "Conditions between two inputs each. Columns begin with the name of their input, or with "
        "`r`, `s`, `t` for the first, second, third.",
        required=True,
    ),
    Key("time", Times(3), "The event-time columns: one name for all inputs, or one for each."),
    Key(
        "within",
        Within(pairs=True),
        "How far apart in time rows that have a condition may be; one for all pairs, or one for "
        "each: `rs`, `st`, `rt`.",
        required=True,
    ),
    *_clock(3),
    *_placed("join3"),
    Key("suffixes", Suffixes(("_r", "_s", "_t")), _SUFFIXES),
    NULL_TIMES,
)

SIMILARITY_KEYS = (
    Key(
        "on",
        Compared(),
        "What is compared: an array column, or columns of numbers.",
        required=True,
    ),
    Key("metric", Choice(METRICS), "How distances are measured. Default: `euclidean`."),
    Key(
        "threshold",
        Number("a number from 0 on"),
        "Rows are alike if their distance is at most this.",
        required=True,
    ),
    *_sides(f"{_TIME} Of one input, one name."),
    Key(
        "within",
        Within(),
        "How far apart in time rows may be. Either this or `window` is needed.",
    ),
    Key("window", Duration(), "Both rows are in one window of this length."),
    *_clock(2),
    *_placed("similarity_join"),
    Key("suffixes", Suffixes(("_left", "_right")), f"{_SUFFIXES} Of one input, all."),
    Key("dimension", Count(), "How many elements arrays have. Default: as many as the first."),
    Key(
        "on_bad",
        Choice(("error", "drop")),
        '`"error"`, the default, stops the query at a row that cannot be compared; `"drop"` '
        "counts it.",
    ),
    NULL_TIMES,
)

AGGREGATE_KEYS = (
    Key("by", By(), "The key columns; `[]` is one group of all rows.", required=True),
    Key(
        "aggs",
        Aggs(),
        "What to compute, by the names of the result's columns: "
        '`{ n = "count", total = ["sum", "price"] }`.',
        required=True,
    ),
    Key("time", Text(TIME), "The event-time column; needed with `window`."),
    Key(
        "window",
        Window(),
        "Windows of time. The result then has a column `window` with the fields `start` and "
        "`end`. Without: totals of all rows so far, which no other step can take.",
    ),
    *_clock(1),
    *_placed("aggregate", "grouping"),
    NULL_TIMES,
)

DEDUPLICATE_KEYS = (
    Key("by", By(), "The columns that duplicates have in common.", required=True),
    Key("time", Text(TIME), "The event-time column.", required=True),
    Key("within", Duration(), "Rows up to this much later are duplicates.", required=True),
    *_clock(1),
    *_placed(None),
    NULL_TIMES,
)


def _step(operator: str, doc: str, inputs: Inputs, keys: tuple[Key, ...]) -> Table:
    of = Key(operator, inputs, f"The input{'' if inputs.most == 1 else 's'}, by name.", True)
    return Table("steps.NAME", doc, (of, *keys, *_SHAPE))


# By the key that says what a step does.
STEPS: dict[str, Table] = {
    "join": _step("join", "Joins two streams (`sk.join`).", Inputs(2, 2), JOIN_KEYS),
    "asof_join": _step(
        "asof_join",
        "Each left row with the one right row nearest in time (`sk.asof_join`).",
        Inputs(2, 2),
        ASOF_KEYS,
    ),
    "join3": _step("join3", "Joins three streams at once (`sk.join3`).", Inputs(3, 3), JOIN3_KEYS),
    "similarity_join": _step(
        "similarity_join",
        "Joins what is alike, of two streams or of one with itself (`sk.similarity_join`).",
        Inputs(1, 2),
        SIMILARITY_KEYS,
    ),
    "aggregate": _step(
        "aggregate",
        "Aggregates by key and window of time (`sk.aggregate`).",
        Inputs(1, 1),
        AGGREGATE_KEYS,
    ),
    "deduplicate": _step(
        "deduplicate",
        "The first row of each key within a bound of time (`sk.deduplicate`).",
        Inputs(1, 1),
        DEDUPLICATE_KEYS,
    ),
    "from": _step("from", "Only filters and shapes rows, by `where` and `select`.",
                  Inputs(1, 1), ()),
}  # fmt: skip

# The short form: a join of [left] and [right].
JOIN = Table("join", "Joins [left] and [right].", (*JOIN_KEYS, *_SHAPE))

SINK = Table(
    "sink",
    "Where the result goes.",
    (
        Key(
            "from",
            Text("the name of a step"),
            "The step that is written. Default: the one that no other step takes.",
        ),
        Key(
            "format",
            Text(SINK_FORMAT),
            "`parquet`, `json`, `csv`, `orc` and `kafka` (exactly once); `console`, `noop`, or any "
            "other format that Spark can write ([sinks](sinks.md) says what comes once). Needed "
            "unless there is a `table`.",
        ),
        Key("path", Text(FOLDER), "The output folder; needed for files."),
        Key("table", Text('a table of the catalog, such as "db.joined"'), "A table to append to."),
        Key(
            "mode",
            Choice(("append", "update")),
            'Of an aggregation: `"append"` tells a group when its window closes, `"update"` '
            "whenever it has changed.",
        ),
        Key("partition_by", Texts('columns of the result, such as ["day"]'), "Folders by column."),
        Key("options", Settings(), "Options of the format, and skewless' own (`skewless.…`)."),
    ),
)

TRIGGER = Table(
    "trigger",
    "When batches run. Without it, one after the other.",
    (
        Key("processing_time", Duration(), "A batch so often."),
        Key("available_now", Flag(True), "`true`: take what is there, then end."),
        Key("once", Flag(True), "`true`: one batch, then end."),
    ),
)

SPARK = Table(
    "spark",
    "The session.",
    (
        Key(
            "master",
            Text('a master URL, such as "local[*]" or "spark://host:7077"'),
            "Where Spark runs. Default: `local[*]`.",
        ),
        Key(
            "conf",
            Settings(_spark_setting),
            "Settings of the session, such as `spark.driver.memory`.",
        ),
    ),
)


def _sub(title: str, doc: str, *, named: bool = False, missing: str = "") -> Key:
    kind = SubTable(title, named)
    return Key(title.partition(".")[0], kind, doc, required=bool(missing), missing=missing)


_SINK_MISSING = NAMED_TABLE.format("sink")
JOB = Table(
    "jobs.NAME",
    "One of several queries of a file. `NAME` is its name.",
    (
        Key("checkpoint", Text(CHECKPOINT), "The folder of its state; one for each.", True),
        _sub("sink", "Where its result goes.", missing=_SINK_MISSING),
        _sub("trigger", "When its batches run."),
    ),
)

FILE = Table(
    "",
    "",
    (
        Key("name", Text("a name for the query"), "The query's name."),
        Key(
            "checkpoint",
            Text(CHECKPOINT),
            "The folder of the query's state; a folder for each query. Needed, unless there are "
            "`jobs`.",
        ),
        _sub("left", "Short for `[inputs.left]`."),
        _sub("right", "Short for `[inputs.right]`."),
        _sub("join", 'Short for `[steps.join]` with `join = ["left", "right"]`.'),
        _sub("inputs.NAME", "The streams, by name.", named=True),
        _sub("steps.NAME", "What is done to them, by name.", named=True),
        _sub("sink", "Where the result goes. Needed, unless there are `jobs`."),
        _sub("trigger", "When batches run."),
        _sub("spark", "The session, which all jobs of the file share."),
        _sub("jobs.NAME", "Several queries over the same inputs and steps, by name.", named=True),
    ),
)
