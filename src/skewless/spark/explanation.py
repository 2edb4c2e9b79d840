"""`sk.explain`: what a query will do before it runs; and, by a checkpoint, how large it gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skewless.arrays.types import FAR_US
from skewless.durations import format_duration_us
from skewless.engine.operator import Input
from skewless.engine.pipeline import Feed, Node
from skewless.engine.report import INTERMEDIATES, BatchReport, OperatorReport
from skewless.errors import ArgumentError
from skewless.history import history
from skewless.spark.file_streams import reader_of
from skewless.spark.pushdown import Pushed, pushed_down
from skewless.spark.result import Plan, Result
from skewless.spark.steps import methods_of

ELASTIC = "as many as a batch needs, and the executors have cores"
FOR_EVER = "for ever"
COLUMNS_SHOWN = 8


@dataclass(frozen=True)
class ExplainedInput:
    """An input of an operator: where its rows come from and who reads them, which columns are
    stored, and how long they are, behind the latest event time: `late` and what the operator needs
    after that. None is for ever. A row lies in the state `copies` times: in a join of three streams
    once for each condition that it has."""

    name: str
    source: str
    reader: str
    columns: tuple[str, ...]
    time: str | None
    late_us: int | None
    kept_us: int | None
    rows_per_second: float | None = None
    expected_rows: int | None = None
    copies: int = 1


@dataclass(frozen=True)
class ExplainedOperator:
    """An operator of a query: what it does, who works on which rows, what of the steps behind it is
    part of it, and what lies in its state, as far as a checkpoint tells."""

    name: str
    does: dict[str, str]
    inputs: tuple[ExplainedInput, ...]
    divided_by: str
    instances: str
    columns_not_carried: tuple[str, ...]
    filter_inside: str | None
    filters_left: tuple[str, ...]
    state_rows: int | None = None
    state_bytes: int | None = None
    expected_rows: int | None = None
    expected_bytes: int | None = None


@dataclass(frozen=True)
class Explanation:
    """What a query does, operator by operator, the lowest first; `steps` are done to the rows of
    the last. `warnings` are what is seldom meant. Print it, or take `to_dict()`."""

    operators: tuple[ExplainedOperator, ...]
    steps: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, for programs."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return str(self)

    def _lines(self) -> Iterator[str]:
        for operator in self.operators:
            yield from _operator_lines(operator)
        if self.steps:
            yield f"then {' → '.join(self.steps)}, by Spark or on Arrow"
        for warning in self.warnings:
            yield f"warning: {warning}"


def explain(result: Result, checkpoint: str | None = None) -> Explanation:
    """What a result will do, without running it: what is stored of each input and for how long, who
    reads files, who works on which rows, what is done early and what is left to Spark, and what is
    seldom meant.

    With the `checkpoint` of a query that ran, also how fast rows came by event time, and how large
    the state becomes at that rate.

    >>> print(sk.explain(joined, checkpoint="ckpt"))                       # doctest: +SKIP
    """
    if not isinstance(result, Result):
        accepted = "a result of skewless, such as that of sk.join"
        raise ArgumentError("result", type(result).__name__, accepted)
    told: list[Pushed] = []
    lean = pushed_down(result, told=told)
    plan = Plan(lean.steps)
    plan.add(lean, 1, None)
    reports = [] if checkpoint is None else list(history(checkpoint))
    operators = tuple(
        _operator(node, plan, pushed, _of_operator(node, reports, alone=len(told) == 1))
        for node, pushed in zip(plan.nodes, told, strict=True)
    )
    steps = tuple(methods_of(result.steps))
    return Explanation(operators, steps, tuple(_warnings(operators, reports)))


def _of_operator(
    node: Node, reports: Sequence[BatchReport], *, alone: bool
) -> Sequence[OperatorReport]:
    """What an operator did in each batch."""
    if alone:
        return reports
    return [one for report in reports for one in report.operators if one.name == node.name]


def _operator(
    node: Node, plan: Plan, pushed: Pushed, reports: Sequence[OperatorReport]
) -> ExplainedOperator:
    operator = node.operator
    kept = operator.spec.kept_us()
    rates = _rates(reports)
    inputs = tuple(
        _input(i, feed, plan, kept[i.name], rates, operator.copies(i.name))
        for i, feed in node.fed()
    )
    last = reports[-1] if reports else None
    expected = [i.expected_rows for i in inputs]
    rows = sum(n for n in expected if n is not None) if expected and None not in expected else None
    if operator.kind == "aggregate":
        rows = None  # it stores partial results, as many as there are groups
    if rows is not None and last is not None:
        rows += _intermediates(rows, last)
    return ExplainedOperator(
        name=node.name,
        does=operator.fingerprint(),
        inputs=inputs,
        divided_by=operator.divided_by,
        instances=ELASTIC if operator.elastic else str(operator.instances),
        columns_not_carried=pushed.dropped,
        filter_inside=pushed.filter,
        filters_left=pushed.left,
        state_rows=None if last is None else last.state_rows,
        state_bytes=None if last is None else last.state_bytes,
        expected_rows=rows,
        expected_bytes=_bytes(rows, last),
    )


def _intermediates(rows: int, last: OperatorReport) -> int:
    """How many pairs lie beside so many rows, if they are as many for each as there are now."""
    pairs = last.counters.get(INTERMEDIATES, 0)
    others = last.state_rows - pairs
    return round(rows * pairs / others) if others > 0 else 0


def _bytes(rows: int | None, last: OperatorReport | None) -> int | None:
    if rows is None or last is None or not last.state_rows:
        return None
    return round(rows * last.state_bytes / last.state_rows)


def _input(
    i: Input, feed: Feed, plan: Plan, kept_us: int, rates: Mapping[str, float], copies: int
) -> ExplainedInput:
    stream = feed.stream is not None
    reader = reader_of(plan.streams[feed.stream]) if feed.stream is not None else "in the same task"
    late_us = None if not stream or i.late_us >= FAR_US else i.late_us
    forever = kept_us >= FAR_US or i.late_us >= FAR_US
    total_us = None if forever else kept_us + (late_us or 0) + feed.lag_us
    rate = rates.get(i.name, rates.get(i.title))
    known = rate is not None and total_us is not None
    return ExplainedInput(
        name=i.title if i.title == "input" else i.name,
        source=plan.described(feed).partition(" (")[0],
        reader=reader if stream or not feed.shape or feed.shapes else "by way of Spark",
        columns=tuple(i.schema.names),
        time=i.time_name,
        late_us=late_us,
        kept_us=total_us,
        rows_per_second=None if rate is None else round(rate, 3),
        expected_rows=round(copies * (rate or 0) * (total_us or 0) / 1e6) if known else None,
        copies=copies,
    )


def _rates(reports: Sequence[OperatorReport]) -> dict[str, float]:
    """Rows of each input per second of event time: those that came while the watermark moved."""
    marks = [(r, r.watermark_us) for r in reports if r.watermark_us is not None]
    marks = [(r, us) for r, us in marks if abs(us) < FAR_US]
    if len(marks) < 2 or marks[-1][1] <= marks[0][1]:
        return {}
    seconds = (marks[-1][1] - marks[0][1]) / 1e6
    # A batch's watermark is that of the batch before: its own rows move the next one.
    rows: dict[str, int] = {}
    for report, _ in marks[:-1]:
        for name, count in report.rows.items():
            rows[name] = rows.get(name, 0) + count
    return {name: count / seconds for name, count in rows.items()}


def _warnings(
    operators: Sequence[ExplainedOperator], reports: Sequence[BatchReport]
) -> Iterator[str]:
    for operator in operators:
        for i in operator.inputs:
            if i.kept_us is None:
                yield f"{operator.name}: {i.name} is stored for ever: the state grows"
            elif i.late_us == 0:
                yield (
                    f"{operator.name}: rows of {i.name} that come out of order are dropped, as "
                    "`late` is 0"
                )
    if reports:
        rows, late = (sum(f(r) for r in reports) for f in (_rows, lambda r: r.late))
        if late:
            yield f"{late:,} of {rows:,} rows came too late so far"


def _rows(report: BatchReport) -> int:
    return sum(report.rows.values())


# Text ---------------------------------------------------------------------------------------------


def _operator_lines(operator: ExplainedOperator) -> Iterator[str]:
    yield f"{operator.name}: {_does(operator.does)}"
    for i in operator.inputs:
        yield f"  {i.name}: {i.source}; {i.reader}"
        yield f"    stored {_span(i)}: {_names(i.columns)}"
        if i.rows_per_second is not None:
            expected = "" if i.expected_rows is None else f"; about {i.expected_rows:,} rows stored"
            yield f"    {i.rows_per_second:,.1f} rows per second of event time{expected}"
    yield f"  work is divided by {operator.divided_by}; instances: {operator.instances}"
    if operator.columns_not_carried:
        yield f"  not carried, as nobody needs them: {_names(operator.columns_not_carried)}"
    if operator.filter_inside is not None:
        yield f"  filtered while it works: {operator.filter_inside}"
    for left in operator.filters_left:
        yield f"  filtered by Spark behind it: {left}"
    if operator.state_rows is not None:
        yield f"  {_state(operator)}"


def _state(operator: ExplainedOperator) -> str:
    now = f"state now: {operator.state_rows:,} rows, {operator.state_bytes or 0:,} bytes"
    if operator.expected_rows is None:
        return now
    size = "" if operator.expected_bytes is None else f", {operator.expected_bytes:,} bytes"
    return f"{now}; at this rate about {operator.expected_rows:,} rows{size}"


def _does(facts: Mapping[str, str]) -> str:
    shown = [value for fact, value in facts.items() if fact in ("kind", "how")]
    shown += [f"{fact} {facts[fact]}" for fact in facts if fact.endswith(("within", "window"))]
    return ", ".join(shown)


def _span(i: ExplainedInput) -> str:
    times = "twice, once for each condition, " if i.copies > 1 else ""
    if i.kept_us is None:
        return f"{times}{FOR_EVER}"
    return f"{times}for {format_duration_us(i.kept_us)} of event time"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - COLUMNS_SHOWN} more" if len(names) > COLUMNS_SHOWN else ""
    return f"{', '.join(names[:COLUMNS_SHOWN])}{more}"
