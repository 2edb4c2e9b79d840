"""What do skewless and Spark's own stream-stream joins give, row by row, on the same micro-batches?

    python -m benchmarks.semantics [--only WORD] [--write]

Every case is data: batches of both streams as (key, second, number), and the join as each of the
two is told it. Both are run, every batch is written down, and the table says who gives what, when.
With `--write` it goes into docs/spark_cases.md.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

import skewless as sk
from benchmarks.measure import Json, say
from benchmarks.session import start_session
from skewless.spark.result import Result

DOCUMENT = Path(__file__).parents[1] / "docs" / "spark_cases.md"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
TIME = pa.timestamp("us", tz="UTC")
PATIENCE_S = 120

Batches = Sequence[Sequence[tuple[Any, float, int]]]
Told = list[tuple[int, str]]  # batch and row

# The streams. Each ends with rows by which its watermark moves on: they match nothing, and are not
# shown.
CLOSING = 1000
END_LEFT = ([("z", 60, CLOSING)], [("z", 120, CLOSING)], [("z", 180, CLOSING)])
END_RIGHT = ([("y", 60, -CLOSING)], [("y", 120, -CLOSING)], [("y", 180, -CLOSING)])
SOME_LEFT: Batches = ([("a", 1, 1), ("b", 3, 2)], [("c", 12, 3), (None, 13, 4)], *END_LEFT)
SOME_RIGHT: Batches = ([("a", 2, 10)], [("b", 5, 20), ("c", 11, 30)], *END_RIGHT)
TWICE_LEFT: Batches = ([("a", 1, 1)], *END_LEFT)
TWICE_RIGHT: Batches = ([("a", 2, 10), ("a", 3, 20)], *END_RIGHT)
LATE_LEFT: Batches = ([("a", 30, 1)], [("a", 31, 2), ("a", 5, 3)], [("a", 32, 4)], *END_LEFT)
LATE_RIGHT: Batches = ([("a", 30, 10)], [("x", 50, 20)], [("a", 6, 30)], *END_RIGHT)


@dataclass(frozen=True)
class Case:
    """A join of two streams `l` (k, lt, v) and `r` (k, rt, w), as both are told it."""

    name: str
    left: Batches
    right: Batches
    spark: Callable[[DataFrame, DataFrame], DataFrame]
    ours: Callable[[DataFrame, DataFrame], Result]
    remark: str = ""


def bounded(how: str, extra: str = "true", seconds: int = 5) -> Callable[..., DataFrame]:
    """Spark's join on the key and times that are at most so many seconds apart."""

    def build(left: DataFrame, right: DataFrame) -> DataFrame:
        near = f"rt BETWEEN lt - INTERVAL {seconds} SECONDS AND lt + INTERVAL {seconds} SECONDS"
        on = F.expr(f"l.k = r.k AND {near} AND {extra}")
        shown = ["l.k", "lt", "v"] if "semi" in how else ["l.k", "lt", "v", "rt", "w"]
        return left.alias("l").join(right.alias("r"), on, how).select(*shown)

    return build


def near(how: Any, condition: str | None = None, seconds: int = 5) -> Callable[..., Result]:
    """The same of ours."""

    def build(left: DataFrame, right: DataFrame) -> Result:
        found = sk.join(
            left, right, on=[("k", "rk")], time=("lt", "rt"), within=f"{seconds} seconds",
            how=how, condition=condition,
        )  # fmt: skip
        shown = ["k", "lt", "v"] if "semi" in how else ["k", "lt", "v", "rt", "w"]
        return found.select(*shown)

    return lambda left, right: build(left, right.withColumnRenamed("k", "rk"))


def windowed(left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both with the window of ten seconds that a row is in."""
    return (
        left.select("k", F.window("lt", "10 seconds").alias("win"), "lt", "v"),
        right.select("k", F.window("rt", "10 seconds").alias("win"), "rt", "w"),
    )


def sparks_windows(left: DataFrame, right: DataFrame) -> DataFrame:
    a, b = windowed(left, right)
    return a.join(b, ["k", "win"]).select("k", F.col("win.start").alias("at"), "v", "w")


def our_windows(left: DataFrame, right: DataFrame) -> Result:
    a, b = windowed(left, right)
    joined = sk.join(a, b, ["k", "win"], time=("lt", "rt"), within="10 seconds")
    return joined.select("k", F.col("win.start").alias("at"), "v", "w")


def sparks_totals(how: str) -> Callable[..., DataFrame]:
    def build(left: DataFrame, right: DataFrame) -> DataFrame:
        joined = bounded(how)(left, right)
        groups = joined.groupBy(F.window("lt", "10 seconds").alias("win"), "k")
        return groups.agg(F.count("*").alias("n")).select(F.col("win.start").alias("at"), "k", "n")

    return build


def our_totals(how: str) -> Callable[..., Result]:
    def build(left: DataFrame, right: DataFrame) -> Result:
        joined = near(how)(left, right)
        groups = joined.groupBy("k", time="lt", window="10 seconds").agg(n="count")
        return groups.select(F.col("window.start").alias("at"), "k", "n")

    return build


def sparks_three(left: DataFrame, right: DataFrame) -> DataFrame:
    first = bounded("inner")(left, right).withColumnRenamed("k", "key")
    third = left.select(F.col("k").alias("k3"), F.col("lt").alias("t3"), F.col("v").alias("v3"))
    on = "key = k3 AND t3 BETWEEN lt - INTERVAL 5 SECONDS AND lt + INTERVAL 5 SECONDS"
    return first.join(third, F.expr(on)).select("key", "v", "w", "v3")


def our_three(left: DataFrame, right: DataFrame) -> Result:
    third = left.select(F.col("k").alias("k3"), F.col("lt").alias("t3"), F.col("v").alias("v3"))
    first = near("inner")(left, right)
    joined = sk.join(first, third, [("k", "k3")], time=("lt", "t3"), within="5 seconds")
    return joined.select(F.col("k").alias("key"), "v", "w", "v3")


NOT_EXPIRED = (
    "Spark's plan bounds the left side's state by the constant in `v > 1`, as if it were a time: "
    "rows never expire, and one without a partner never comes"
)
LENIENT = "Spark judges by the watermark of the batch before the last"

CASES = (
    *(
        Case(f"{how}, time within 5 s", SOME_LEFT, SOME_RIGHT, bounded(how), near(how))
        for how in ("inner", "left", "right", "full", "left_semi")
    ),
    *(
        Case(
            f"{how}, a condition on the left side", SOME_LEFT, SOME_RIGHT,
            bounded(how, "v > 1"), near(how, "v > 1"),
            NOT_EXPIRED if how in ("left", "full") else "",
        )
        for how in ("left", "right", "full", "left_semi")
    ),
    *(
        Case(
            f"{how}, a condition on the right side", SOME_LEFT, SOME_RIGHT,
            bounded(how, "w < 30"), near(how, "w < 30"),
        )
        for how in ("left", "right", "full", "left_semi")
    ),
    Case(
        "left, a condition on both", SOME_LEFT, SOME_RIGHT,
        bounded("left", "v * 10 < w"), near("left", "v * 10 < w"),
    ),
    *(
        Case(
            f"{how}, matched, then past its time (SPARK-26154)", TWICE_LEFT, TWICE_RIGHT,
            bounded(how, "w <> 20"), near(how, "w <> 20"),
        )
        for how in ("left", "full")
    ),
    *(
        Case(
            f"{how}, rows that are late", LATE_LEFT, LATE_RIGHT, bounded(how), near(how),
            LENIENT if how == "left" else "",
        )
        for how in ("inner", "left", "left_semi")
    ),
    Case("inner, on windows", SOME_LEFT, SOME_RIGHT, sparks_windows, our_windows),
    Case("inner, then counts in windows", SOME_LEFT, SOME_RIGHT,
         sparks_totals("inner"), our_totals("inner")),
    Case("left, then counts in windows", SOME_LEFT, SOME_RIGHT,
         sparks_totals("left"), our_totals("left")),
    Case("inner, then inner with a third", SOME_LEFT, SOME_RIGHT, sparks_three, our_three),
)  # fmt: skip


def write_stream(folder: Path, names: Sequence[str], batches: Batches) -> pa.Schema:
    """One file per batch; the columns of the files."""
    schema = pa.schema(list(zip(names, (pa.string(), TIME, pa.int64()), strict=True)))
    folder.mkdir(parents=True)
    for number, batch in enumerate(batches):
        rows = [(k, BEGIN + timedelta(seconds=s), v) for k, s, v in batch]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        hidden = folder / f".{number}.tmp"
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), hidden)
        os.utime(hidden, (1_700_000_000 + number,) * 2)
        hidden.rename(folder / f"{number}.parquet")
    return schema


def read_stream(session: SparkSession, folder: Path, schema: pa.Schema, time: str) -> DataFrame:
    reader = session.readStream.schema(from_arrow_schema(schema)).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark(time, "0 seconds")


def told_by(result: DataFrame | Result, work: Path, name: str) -> Told:
    """What comes out of each batch until all files are read."""
    told: Told = []

    def see(rows: DataFrame, batch: int) -> None:
        closing = {"y", "z", CLOSING, -CLOSING}
        shown = (row for row in rows.collect() if not closing & {*row})
        told.extend((batch, written(row)) for row in shown)

    writer = result.writeStream.foreachBatch(see)
    writer = writer.option("checkpointLocation", str(work / f"checkpoint of {name}"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(PATIENCE_S)
    return told


def written(row: Sequence[Any]) -> str:
    """A row, with times as seconds."""
    shown = [
        f"{(v.replace(tzinfo=UTC) - BEGIN).total_seconds():g} s" if isinstance(v, datetime) else v
        for v in row
    ]
    return " ".join("–" if value is None else str(value) for value in shown)


def run_case(session: SparkSession, case: Case, root: Path) -> tuple[Told, Told]:
    """What both give."""
    work = Path(tempfile.mkdtemp(dir=root))
    left = write_stream(work / "l", ("k", "lt", "v"), case.left)
    right = write_stream(work / "r", ("k", "rt", "w"), case.right)

    def frames() -> tuple[DataFrame, DataFrame]:
        return (
            read_stream(session, work / "l", left, "lt"),
            read_stream(session, work / "r", right, "rt"),
        )

    theirs = told_by(case.spark(*frames()), work, "Spark")
    ours = told_by(case.ours(*frames()), work, "skewless")
    shutil.rmtree(work)
    return theirs, ours


def verdict(theirs: Told, ours: Told) -> str:
    if sorted(theirs) == sorted(ours):
        return "the same, in the same batches"
    if sorted(row for _, row in theirs) == sorted(row for _, row in ours):
        return "the same, some in another batch"
    return "**not the same**"


def by_batch(told: Told) -> str:
    batches = sorted({batch for batch, _ in told})
    return "; ".join(f"{b}: " + ", ".join(sorted(r for x, r in told if x == b)) for b in batches)


def document(found: Sequence[tuple[Case, Told, Told]]) -> str:
    lines = [
        "# Spark's stream-stream joins, case by case",
        "",
        "Printed by `python -m benchmarks.semantics --write`, which states the cases as data and "
        "runs both engines on the same micro-batches; both sides have a watermark without delay. "
        "A number before a colon is the batch in which rows come; – is null. Why rows may come in "
        "another batch, and which late rows are kept, is in [spark.md](spark.md).",
        "",
        "| case | | skewless gives | Spark gives |",
        "|---|---|---|---|",
    ]
    for case, theirs, ours in found:
        spark = "the same" if sorted(theirs) == sorted(ours) else by_batch(theirs)
        judged = verdict(theirs, ours) + (f". {case.remark}" if case.remark else "")
        lines.append(f"| {case.name} | {judged} | {by_batch(ours)} | {spark} |")
    return "\n".join(lines) + "\n"


def main(
    only: Annotated[str | None, typer.Option(help="Cases with this in their names.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write docs/spark_cases.md.")] = False,
) -> None:
    """Run Spark's stream-join cases through both engines."""
    found: list[tuple[Case, Told, Told]] = []
    with tempfile.TemporaryDirectory(prefix="skewless-cases-") as work:
        parameters: Json = {"work": work, "unix_sockets": False}
        session = start_session(parameters)
        for case in CASES:
            if only is None or only in case.name:
                found.append((case, *run_case(session, case, Path(work))))
                say(f"{case.name}: {verdict(*found[-1][1:])}")
        session.stop()
    text = document(found)
    if write and only is None:
        DOCUMENT.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    typer.run(main)
