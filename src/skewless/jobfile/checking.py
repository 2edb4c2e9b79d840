"""Columns and types through all steps of a job file, as far as they can be known without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from skewless.arrays.values import is_flat
from skewless.conditions import Band, Equal
from skewless.durations import parse_duration_us
from skewless.errors import ArgumentError, ColumnError
from skewless.jobfile.columns import (
    UTC,
    Columns,
    are_comparable,
    group_of,
    open_columns,
    source_columns,
    type_name,
)
from skewless.jobfile.description import STEPS
from skewless.jobfile.kinds import Inputs
from skewless.jobfile.lines import Path
from skewless.jobfile.model import FORMATS, Job, JobFile, Source, Step, format_meant
from skewless.jobfile.rules import ROLES
from skewless.jobfile.sql import missing_names, selected
from skewless.jobfile.text import is_slip, meant
from skewless.kafka.options import topic_of
from skewless.operators.join_type import JOIN_TYPES
from skewless.operators.naming import merged_keys, named_columns

ANSI = "spark.sql.ansi.enabled"
INFERENCE = "spark.sql.streaming.schemaInference"
NEED_SCHEMA = ("parquet", "json", "csv", "orc", "xml", "avro")
DAY_US = 86_400_000_000


def check_columns(file: JobFile) -> None:
    """Notes columns that are not there, and those whose types do not fit what they are used for."""
    _Checker(file).check()


class _Checker:
    def __init__(self, file: JobFile) -> None:
        self.file, self.text = file, file.text
        self.ansi = file.conf.get(ANSI, "true").lower() != "false"
        self.known: dict[str, Columns] = {}

    def check(self) -> None:
        for source in self.file.sources.values():
            self.known[source.name] = self._source(source)
        for step in self.file.steps.values():
            inputs = [self.known.get(name, open_columns(name)) for name in step.inputs]
            wanted = STEPS[step.operator].key(step.operator).kind
            assert isinstance(wanted, Inputs)
            if wanted.least <= len(inputs) <= wanted.most:
                given = CHECKS[step.operator](self, step, inputs)
            else:
                given = open_columns(step.name)
            self.known[step.name] = self._shaped(step.path_in_file, step, given)
        for job in self.file.jobs:
            self._sink(job)

    def note(self, path: Path, message: str) -> None:
        self.text.note(path, message)

    # Inputs and what is done to rows

    def _source(self, source: Source) -> Columns:
        columns, wrong = source_columns(source)
        for message in wrong:
            self.note((*source.path_in_file, "schema"), message)
        self._known_format(source.format, (*source.path_in_file, "format"))
        needs = source.schema is None and format_meant(source.format) in NEED_SCHEMA
        if needs and self.file.conf.get(INFERENCE, "false").lower() != "true":
            where = (*source.path_in_file, "schema")
            message = (
                f"`{source.name}` needs a `schema`, as files may come later; or set {INFERENCE} = "
                "true in `conf` of [spark], to take that of the files there are"
            )
            self.note(where, message)
        return self._shaped(source.path_in_file, source, columns)

    def _shaped(self, path: Path, item: Source | Step, columns: Columns) -> Columns:
        named = Columns(item.name, columns.types, columns.whole)
        if item.where is not None:
            for message in missing_names(item.where, named):
                self.note((*path, "where"), message)
        if not item.select:
            return named
        found, wrong = selected(item.select, named)
        for number, message in wrong:
            self.note((*path, "select", number), message)
        return found

    def _sink(self, job: Job) -> None:
        columns = self.known.get(job.step, open_columns(job.step))
        path = (*job.path_in_file, "sink")
        for number, name in enumerate(job.sink.partition_by):
            self._has(columns, name, (*path, "partition_by", number))
        kind = format_meant(job.sink.format)
        self._known_format(job.sink.format or "", (*path, "format"))
        if kind == "csv":
            nested = [n for n, t in columns.types.items() if t is not None and pt.is_nested(t)]
            if nested:
                described = ", ".join(map(columns.described, nested))
                message = f"csv has plain values only, not {described}: select their parts"
                self.note((*path, "format"), message)
        if kind == "kafka" and columns.whole:
            self._kafka_columns(job, columns, path)

    def _known_format(self, kind: str, path: Path) -> None:
        """A format may be anything that is installed, but nothing that is nearly one of Spark's."""
        if kind.lower() not in FORMATS and any(is_slip(kind.lower(), known) for known in FORMATS):
            self.note(path, f'no format "{kind}"{meant(kind.lower(), FORMATS, chr(34))}')

    def _kafka_columns(self, job: Job, columns: Columns, path: Path) -> None:
        """What Kafka takes of a result: a value, and where it goes."""
        if columns.find("value") is None:
            message = (
                "kafka takes a column named `value`, for instance "
                f'select = ["to_json(struct(*)) AS value"]; `{job.step}` has: '
                f"{', '.join(columns.names)}"
            )
            self.note((*path, "format"), message)
        if topic_of(job.sink.options) is None and columns.find("topic") is None:
            message = "kafka needs a `topic`: an option, or a column of the result"
            self.note((*path, "options"), message)

    def _has(self, columns: Columns, name: str, path: Path) -> bool:
        """Whether a column may be there."""
        message = columns.lacks(name)
        if message is not None:
            self.note(path, message)
        return message is None

    # Times and keys

    def times(self, step: Step, inputs: Sequence[Columns]) -> list[pa.DataType | None]:
        """The event-time columns: they are there, and timestamps of one type."""
        found: list[pa.DataType | None] = []
        for number, columns in enumerate(inputs):
            key, name = _time_key(step, number)
            path = (*step.path_in_file, *key)
            if name is None or not self._has(columns, name, path):
                found.append(None)
                continue
            kind = columns.type_of(name)
            if kind is not None and not pt.is_timestamp(kind):
                described = columns.described(name)
                self.note(path, f"the event time must be a timestamp; {described} is none")
                kind = None
            found.append(kind)
        kinds = {kind for kind in found if kind is not None}
        if len(kinds) > 1:
            written = " and ".join(sorted(map(type_name, kinds)))
            key, _ = _time_key(step, len(inputs) - 1)
            message = f"the event times must be of one type; these are {written}: cast one of them"
            self.note((*step.path_in_file, *key), message)
        return found

    def conditions(self, step: Step, inputs: Sequence[Columns]) -> list[tuple[int, int, Any]]:
        """The conditions of `on`, with the numbers of the inputs that they compare."""
        found: list[tuple[int, int, Any]] = []
        for number, written in enumerate(step.arguments.get("on", ())):
            if written is None:
                continue  # it could not be understood
            a, b, condition = _compared(step.operator, written)
            path = (*step.path_in_file, "on", number)
            there = [self._has(inputs[a], condition.left, path),
                     self._has(inputs[b], condition.right, path)]  # fmt: skip
            if all(there):
                self._check_types(inputs[a], inputs[b], condition, path)
            found.append((a, b, condition))
        return found

    def _check_types(self, left: Columns, right: Columns, condition: Any, path: Path) -> None:
        a, b = left.type_of(condition.left), right.type_of(condition.right)
        both = f"{left.described(condition.left)} with {right.described(condition.right)}"
        if isinstance(condition, Band):
            wrong = _band_problem(a, b, condition.width)
            if wrong:
                self.note(path, f"a band of {both}: {wrong}")
        elif not are_comparable(a, b, ansi=self.ansi):
            self.note(path, f"Spark does not compare {both}: cast one of them")

    def by(self, step: Step, columns: Columns) -> list[str]:
        found = []
        for number, name in enumerate(step.arguments.get("by", ())):
            path = (*step.path_in_file, "by", number)
            if not self._has(columns, name, path):
                continue
            kind = columns.type_of(name)
            if kind is not None and not is_flat(kind):
                message = (
                    f"keys hold no other values; {columns.described(name)} does: use its parts"
                )
                self.note(path, message)
            found.append(columns.find(name) or name)
        return found

    def united(
        self, step: Step, inputs: Sequence[Columns], merged: set[tuple[int, str]], taken: Any = ()
    ) -> Columns:
        """All columns of several inputs, as the engine names them."""
        if not all(columns.whole for columns in inputs):
            names = {name: None for columns in inputs for name in columns.types}
            return Columns(step.name, names, whole=False)
        default = SUFFIXES[step.operator]
        try:
            suffixes = step.arguments.get("suffixes", default)
            named = named_columns(inputs, suffixes, default, merged, taken)
        except ColumnError as error:
            self.note((*step.path_in_file, "suffixes"), f"`suffixes` must be {error.accepted}")
            return open_columns(step.name)
        types = {c.name: inputs[c.input].types[inputs[c.input].names[c.index]] for c in named}
        return Columns(step.name, types)


SUFFIXES = {
    "join": ("", "_right"),
    "asof_join": ("", "_right"),
    "join3": ("_r", "_s", "_t"),
    "similarity_join": ("_left", "_right"),
}


def _join(check: _Checker, step: Step, inputs: list[Columns]) -> Columns:
    check.times(step, inputs)
    conditions = check.conditions(step, inputs)
    merged = merged_keys(conditions)
    pairs = check.united(step, inputs, merged)
    if "condition" in step.arguments:
        for message in missing_names(step.arguments["condition"], pairs):
            check.note((*step.path_in_file, "condition"), message)
    how = JOIN_TYPES[step.arguments.get("how", "inner")]
    if len(how.shown) == 1:
        return inputs[0 if how.shown == ("left",) else 1]
    if how.unmatched in ((), ("left",)):
        return pairs
    # A merged key may then be of the right side, or of a type that both have in common.
    keys = {name for _, name in merged}
    types = {n: None if n.lower() in keys else t for n, t in pairs.types.items()}
    return Columns(step.name, types, pairs.whole)


def _asof(check: _Checker, step: Step, inputs: list[Columns]) -> Columns:
    check.times(step, inputs)
    return check.united(step, inputs, merged_keys(check.conditions(step, inputs)))


def _similarity(check: _Checker, step: Step, inputs: list[Columns]) -> Columns:
    check.times(step, inputs)
    on = step.arguments.get("on")
    each = on if isinstance(on, tuple) else (on,) * len(inputs)
    for side, columns, names in zip(("left", "right"), inputs, each, strict=False):
        path = (*step.path_in_file, "on", *([side] if isinstance(on, tuple) else []))
        _check_compared(check, step, columns, names, path)
    both = [inputs[0], inputs[-1]]
    found = check.united(step, both, set(), ["distance"])
    return Columns(step.name, {**found.types, "distance": pa.float64()}, found.whole)


def _check_compared(check: _Checker, step: Step, columns: Columns, names: Any, path: Path) -> None:
    from skewless.operators.similarity.metrics import METRICS

    listed = [names] if isinstance(names, str) else names or []
    if not all([check._has(columns, name, path) for name in listed]):  # noqa: C419, RUF100
        return
    kinds = [columns.type_of(name) for name in listed]
    called = step.arguments.get("metric", "euclidean")
    metric = METRICS[called]
    if kinds and None not in kinds and not metric.fits(kinds):
        described = ", ".join(map(columns.described, listed))
        check.note(path, f'"{called}" compares {metric.columns_described}; {described} is none')


def _aggregate(check: _Checker, step: Step, inputs: list[Columns]) -> Columns:
    (columns,) = inputs
    times = check.times(step, inputs) if "window" in step.arguments else []
    types: dict[str, pa.DataType | None] = {}
    if times:
        ends = times[0] or UTC
        types["window"] = pa.struct([pa.field("start", ends), pa.field("end", ends)])
    for name in check.by(step, columns):
        types[name] = columns.type_of(name)
    for name, wanted in step.arguments.get("aggs", {}).items():
        path = (*step.path_in_file, "aggs", name)
        if name.lower() in (known.lower() for known in types):
            check.note(path, f"two columns of the result are called `{name}`")
        types[name] = _check_agg(check, columns, wanted, path)
    return Columns(step.name, types)


def _check_agg(check: _Checker, columns: Columns, wanted: Any, path: Path) -> pa.DataType | None:
    """The type of an aggregate."""
    from skewless.operators.aggregate.accumulators.named import NAMED, WITH_PARAMETER

    what, *rest = (wanted,) if isinstance(wanted, str) else wanted
    if rest and not check._has(columns, rest[0], path):
        return None
    kinds = [columns.type_of(name) for name in rest[:1]]
    if None in kinds:
        return None
    try:
        make = WITH_PARAMETER[what](rest[1]).bind if what in WITH_PARAMETER else NAMED[what]
        return make(kinds).result
    except ValueError as error:
        accepted = error.accepted if isinstance(error, ArgumentError) else str(error)
        check.note(path, f'"{what}" of {columns.described(rest[0])}: must be {accepted}')
        return None


def _deduplicate(check: _Checker, step: Step, inputs: list[Columns]) -> Columns:
    (columns,) = inputs
    check.times(step, inputs)
    check.by(step, columns)
    return columns


def _from(check: _Checker, step: Step, inputs: list[Columns]) -> Columns:
    return inputs[0]


CHECKS = {
    "join": _join,
    "asof_join": _asof,
    "join3": _asof,
    "similarity_join": _similarity,
    "aggregate": _aggregate,
    "deduplicate": _deduplicate,
    "from": _from,
}


def _time_key(step: Step, number: int) -> tuple[Path, str | None]:
    """Where the event time of an input stands, and which it is."""
    time = step.arguments.get("time")
    if isinstance(time, tuple):
        return ("time", number), time[number]
    one = ("left_time", "right_time")[number] if number < 2 else "time"
    if time is None and one in step.arguments:
        return (one,), step.arguments[one]
    return ("time",), time


def _compared(operator: str, written: Any) -> tuple[int, int, Any]:
    """The numbers of the inputs that a condition compares, the lower first, and their columns."""
    if operator != "join3":
        if isinstance(written, str):
            return 0, 1, Equal(written, written)
        return 0, 1, Equal(*written) if isinstance(written, tuple) else written
    (a, _, left), (b, _, right) = (c.partition(".") for c in (written.left, written.right))
    ends = sorted([(ROLES.index(a), left), (ROLES.index(b), right)])
    width = {"width": written.width} if isinstance(written, Band) else {}
    return ends[0][0], ends[1][0], type(written)(ends[0][1], ends[1][1], **width)


def _band_problem(a: pa.DataType | None, b: pa.DataType | None, width: object) -> str | None:
    if a is None or b is None:
        return None
    groups = {group_of(a), group_of(b)}
    if groups == {"number"}:
        return "the width must be a number" if isinstance(width, str) else None
    if groups != {"time"} or a != b:
        return "must be two numeric columns, two timestamps of one kind, or two dates"
    if not isinstance(width, str):
        return 'the width must be a duration such as "5 seconds"'
    if pt.is_date32(a) and parse_duration_us(width, "width") % DAY_US:
        return "the width must be whole days, as the columns are dates"
    return None
