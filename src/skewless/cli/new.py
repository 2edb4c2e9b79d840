"""`skewless new`: a job file by asking. Every answer is read as the file's own values are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
import typer

from skewless.errors import JobFileError
from skewless.jobfile.columns import (
    Columns,
    open_columns,
    schema_columns,
    source_columns,
    type_name,
)
from skewless.jobfile.description import INPUT, SINK, STEPS, TRIGGER, Key
from skewless.jobfile.kinds import Inputs
from skewless.jobfile.model import Source
from skewless.jobfile.text import RefusedError

OPERATORS = tuple(name for name in STEPS if name != "from")
FILES = ("parquet", "json", "csv", "orc")
NAMES = {1: ("events",), 2: ("orders", "tracks"), 3: ("orders", "tracks", "payments")}
EXAMPLE_SCHEMA = "id BIGINT, key STRING, value DOUBLE, at TIMESTAMP"
# What is asked for each operator beside keys and times, and what is proposed.
ASKED: Mapping[str, Mapping[str, str]] = {
    "join": {"within": "10 minutes", "how": "inner"},
    "asof_join": {"direction": "backward", "tolerance": "10 seconds", "how": "inner"},
    "join3": {"within": "10 minutes"},
    "similarity_join": {"metric": "euclidean", "threshold": "1.0", "within": "1 minute"},
    "aggregate": {"window": "1 minute"},
    "deduplicate": {"within": "10 minutes"},
}
AVAILABLE, ALWAYS = "now", "always"


def ask_and_write(file: Path, *, force: bool, quiet: bool) -> None:
    """Ask, and write the file. With `quiet`, questions go to standard error."""
    if file.exists() and not force:
        raise JobFileError(f"{file}: is there already; --force replaces it")
    text = Asking(quiet).job()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    typer.echo(f"Written: {file}", err=quiet)


class Asking:
    """A conversation. What was understood becomes lines of TOML."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._columns: dict[str, Columns] = {}

    def job(self) -> str:
        operator = self._choose("What is to be done?", OPERATORS, "join")
        inputs = self._inputs(operator)
        parts = [self._source(name) for name in inputs]
        name = self._ask("A name for the result", "result", self._is_new)
        step, (sink, shape) = self._step(name, operator, inputs), self._sink(name)
        parts += [step + shape, sink]
        checkpoint = self._ask("The folder of the query's state", f"out/{name}-checkpoint")
        head = f"checkpoint = {toml(checkpoint)}\nname = {toml(name)}\n"
        return "\n".join([head, *parts, self._trigger()])

    # Questions

    def _ask(self, question: str, default: str, check: Any = None) -> str:
        """An answer that `check` does not refuse."""
        while True:
            answer = str(typer.prompt(question, default=default, err=self._quiet)).strip()
            try:
                if check is not None:
                    check(answer)
                return answer
            except RefusedError as error:
                typer.echo(f"  {error.message}", err=True)

    def _choose(self, question: str, choices: Iterable[str], default: str) -> str:
        listed = tuple(choices)

        def check(answer: str) -> None:
            if answer not in listed:
                raise RefusedError((), f"one of: {', '.join(listed)}")

        return self._ask(f"{question} ({', '.join(listed)})", default, check)

    def _value(self, key: Key, default: str) -> Any:
        """The value of a key, as it is to stand in the file."""
        question = key.doc.partition(". ")[0].rstrip(".").replace("`", "")

        def check(answer: str) -> None:
            key.kind.read(_typed(answer), (key.name,))

        return _typed(self._ask(f"{key.name}: {question}", default, check))

    def _is_new(self, name: str) -> None:
        if name in self._columns or not name.replace("_", "").replace("-", "").isalnum():
            raise RefusedError((), "a name of letters, digits, - and _ that no other has")

    # Inputs

    def _inputs(self, operator: str) -> list[str]:
        wanted = STEPS[operator].key(operator).kind
        assert isinstance(wanted, Inputs)
        count = wanted.most
        if wanted.least < wanted.most:
            count = int(self._choose("How many inputs?", ("1", "2"), "2"))
        found: list[str] = []
        for number in range(count):
            name = self._ask(f"Input {number + 1}, its name", NAMES[count][number], self._is_new)
            self._columns[name] = open_columns(name)
            found.append(name)
        return found

    def _source(self, name: str) -> str:
        kind = self._ask(f"{name}: its format (parquet, json, csv, orc, kafka, rate, …)", "parquet")
        lines = [f"[inputs.{name}]", f"format = {toml(kind)}"]
        if kind in FILES:
            path = self._ask(f"{name}: the folder of its files", f"in/{name}")
            lines += ['read = "columns"', f"path = {toml(path)}"]
            lines.append(f"schema = {toml(self._schema(name, path))}")
        elif kind == "kafka":
            lines += self._kafka(name)
        else:
            source = Source(name, (), kind)
            self._columns[name], _ = source_columns(source)
        return "\n".join(lines) + "\n"

    def _kafka(self, name: str) -> list[str]:
        servers = self._ask(f"{name}: Kafka's servers", "localhost:9092")
        topic = self._ask(f"{name}: the topic", name)
        schema = self._ask(f"{name}: the columns of its JSON values", EXAMPLE_SCHEMA, self._check)
        self._columns[name], _ = schema_columns(name, schema)
        value = f"from_json(CAST(value AS STRING), '{schema}')"
        select = [f"{value}.{column} AS {column}" for column in self._columns[name].names]
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
        return [f"options = {toml(options)}", f"select = {toml(select)}"]

    def _schema(self, name: str, path: str) -> str:
        schema = self._ask(f"{name}: its columns", found_schema(path), self._check)
        self._columns[name], _ = schema_columns(name, schema)
        return schema

    def _check(self, schema: str) -> None:
        INPUT.key("schema").kind.read(schema, ("schema",))
        _, wrong = schema_columns("", schema)
        if wrong:
            raise RefusedError(("schema",), "; ".join(wrong))

    # The step

    def _step(self, name: str, operator: str, inputs: list[str]) -> str:
        named = inputs[0] if len(inputs) == 1 else inputs
        values: dict[str, Any] = {operator: named}
        table = STEPS[operator]
        if "by" in table.names:
            values["by"] = self._value(table.key("by"), toml(self._keys(inputs)))
        else:
            values["on"] = self._value(table.key("on"), toml(self._on(operator, inputs)))
        if operator == "aggregate":
            values["aggs"] = self._value(table.key("aggs"), '{ n = "count" }')
        values |= {k: self._value(table.key(k), d) for k, d in ASKED[operator].items()}
        times = [self._time(of) for of in inputs]
        values["time"] = times[0] if len(times) == 1 else times
        values["late"] = self._value(table.key("late"), "1 minute")
        lines = [f"{key} = {toml(value)}" for key, value in values.items()]
        return "\n".join([f"[steps.{name}]", *lines]) + "\n"

    def _time(self, name: str) -> str:
        columns = self._columns[name]
        times = [n for n, t in columns.types.items() if _is_time(t)]

        def check(answer: str) -> None:
            wrong = columns.lacks(answer)
            if wrong or (times and columns.find(answer) not in times):
                raise RefusedError((), wrong or f"a timestamp: {', '.join(times)}")

        return self._ask(f"time: the event-time column of {name}", (times or ["at"])[0], check)

    def _keys(self, inputs: list[str]) -> str:
        """A column that all have, and that is no time."""
        first, *others = (self._columns[name] for name in inputs)
        plain = [n for n, t in first.types.items() if t is None or not pt.is_nested(t)]
        fitting = [n for n in plain if not _is_time(first.types[n])]
        both = [n for n in fitting if all(o.find(n) is not None for o in others)]
        return (both or fitting or plain or ["key"])[0]

    def _on(self, operator: str, inputs: list[str]) -> Any:
        if operator == "join3":
            a, b, c = inputs
            return [[f"{x}.{self._keys([x, y])}", f"{y}.{self._keys([x, y])}"]
                    for x, y in ((a, b), (b, c))]  # fmt: skip
        if operator != "similarity_join":
            return self._keys(inputs)
        types = self._columns[inputs[0]].types
        arrays = [n for n, t in types.items() if t is not None and pt.is_list(t)]
        numbers = [n for n, t in types.items() if t is not None and pt.is_floating(t)]
        return arrays[0] if arrays else numbers or ["x", "y"]

    # The result

    def _sink(self, name: str) -> tuple[str, str]:
        """The sink, and what it wants the step to look like."""
        kind, shape = self._value(SINK.key("format"), "parquet"), ""
        lines = ["[sink]", f"format = {toml(kind)}"]
        if kind in FILES:
            lines.append(f"path = {toml(self._ask('The output folder', f'out/{name}'))}")
        elif kind == "kafka":
            servers = self._ask("Kafka's servers", "localhost:9092")
            options = {"kafka.bootstrap.servers": servers, "topic": self._ask("The topic", name)}
            lines.append(f"options = {toml(options)}")
            shape = f"select = {toml(['to_json(struct(*)) AS value'])}\n"
        return "\n".join(lines) + "\n", shape

    def _trigger(self) -> str:
        when = self._choose("Run for what is there now, or always?", (AVAILABLE, ALWAYS), ALWAYS)
        if when == AVAILABLE:
            return "[trigger]\navailable_now = true\n"
        every = self._value(TRIGGER.key("processing_time"), "10 seconds")
        return f"[trigger]\nprocessing_time = {toml(every)}\n"


def _is_time(kind: pa.DataType | None) -> bool:
    return kind is not None and bool(pt.is_timestamp(kind))


def found_schema(path: str) -> str:
    """The schema of the first parquet file of a folder as Spark writes it, or an example."""
    file = next(iter(sorted(Path(path).glob("*.parquet"))), None) if Path(path).is_dir() else None
    if file is None:
        return EXAMPLE_SCHEMA
    try:
        fields = pq.read_schema(file)
    except (OSError, ValueError):
        return EXAMPLE_SCHEMA
    schema = ", ".join(f"{_quoted(field.name)} {_written(field.type)}" for field in fields)
    columns, wrong = schema_columns("", schema)
    return EXAMPLE_SCHEMA if wrong or None in columns.types.values() else schema


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


def _written(kind: pa.DataType) -> str:
    """A type; the names of fields in it stay as they are."""
    written = type_name(kind)
    return written if pt.is_nested(kind) else written.upper()


def _typed(answer: str) -> Any:
    """An answer as a value of TOML, where it is one; a text elsewhere; a list with commas."""
    import tomllib

    try:
        return tomllib.loads(f"answer = {answer}")["answer"]
    except tomllib.TOMLDecodeError:
        pass
    if "," in answer:
        return [part.strip() for part in answer.split(",")]
    return answer


def toml(value: Any) -> str:
    """A value as TOML writes it.

    >>> toml({"a.b": 1, "c": ["x", True]})
    '{ "a.b" = 1, c = ["x", true] }'
    """
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {toml(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)
