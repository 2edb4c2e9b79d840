"""What the documents show runs: each block of Python on small streams, and each example."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from tests.spark.support import TIMESTAMP, FileStream, at, file_stream, finish

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])

# Blocks of Python --------------------------------------------------------------------------------

BATCHES, ROWS, APART_S = 3, 12, 7_200

# The columns of a stream: what row number i of a batch has in each.
Columns = dict[str, Callable[[int], Any]]
STREAMS: dict[str, Columns] = {
    "orders": {
        "order_id": lambda i: i,
        "cell": lambda i: i % 3,
        "price": lambda i: 4.0 + i,
        "lat": lambda i: 52.0 + i / 10_000,
        "lon": lambda i: 13.0,
        "ordered_at": at,
    },
    "tracks": {"taxi": lambda i: i, "cell": lambda i: i % 3, "seen_at": at},
    "payments": {"order_id": lambda i: i, "paid_at": lambda i: at(i + 30)},
    "posts": {
        "hashtag": lambda i: f"#{i % 3}",
        "followers": lambda i: i,
        "author": lambda i: i % 5,
        "latency": lambda i: i / 10,
        "at": at,
    },
    "streamers": {"stream": lambda i: i % 3, "live_at": at},
    "purchases": {"stream": lambda i: i % 3, "price": float, "bought_at": at},
    "users": {"user": lambda i: i, "budget": float, "seen_at": lambda i: at(i + 20)},
    "taxis": {
        "taxi": lambda i: i,
        "lat": lambda i: 52.0 + i / 10_000,
        "lon": lambda i: 13.0,
        "seen_at": at,
    },
    "trades": {"symbol": lambda i: i % 3, "traded_at": lambda i: at(i + 1)},
    "quotes": {"symbol": lambda i: i % 3, "quoted_at": at, "bid": float},
    "clicks": {"click_id": lambda i: i % 4, "at": at},
    "kafka": {
        "value": lambda i: json.dumps(
            {"cell": i % 3, "ordered_at": at(i).isoformat(), "price": 4.0 + i}
        ).encode(),
        "offset": lambda i: i,
    },
}

# By document and heading, for each of its blocks: the streams that it uses, and the results that it
# gives. Later blocks see what earlier ones have made.
BLOCKS: dict[tuple[str, str], list[tuple[str, str]]] = {
    ("README.md", "Ten lines"): [("orders tracks", "joined"), ("", "")],
    ("README.md", "Aggregate"): [("posts", "trends")],
    ("README.md", "Join the nearest in time"): [("trades quotes", "priced")],
    ("README.md", "Join three"): [("streamers purchases users", "deals")],
    ("README.md", "Join what is alike"): [("taxis orders", "near")],
    ("README.md", "Deduplicate"): [("clicks", "clicks")],
    ("README.md", "Compose"): [("orders tracks payments", "rides paid revenue")],
    ("dashboard.md", "From a driver"): [("", "")],
    ("dashboard.md", "Metrics of a driver"): [("", "")],
    ("dashboard.md", "After each batch"): [("", "")],
    ("files.md", "Reading"): [("tracks", "joined")],
    ("sinks.md", "Any other sink, with foreachBatch"): [("orders tracks", "joined"), ("", "")],
    ("json.md", "Use"): [("kafka tracks", "joined")],
    ("json.md", "Dead letters"): [("kafka", "")],
}
# Those that need jars or a server: tests/tables/lake_cases.py and tests/connect do the same.
ELSEWHERE = {("sinks.md", heading): 1 for heading in ("Delta", "Iceberg", "JDBC")} | {
    ("connect.md", "Spark Connect"): 1
}


def blocks_of(document: Path) -> dict[str, list[str]]:
    """The blocks of Python in a document, by the heading they are under."""
    found: dict[str, list[str]] = {}
    text = document.read_text(encoding="utf-8")
    for heading, body in re.findall(r"^#+ (.*?)\n((?:.|\n)*?)(?=^#+ |\Z)", text, re.MULTILINE):
        blocks = re.findall(r"^```python\n((?:.|\n)*?)^```", body, re.MULTILINE)
        if blocks:
            found[heading] = blocks
    return found


def test_all_blocks_are_known() -> None:
    found = {(d.name, heading): len(b) for d in DOCUMENTS for heading, b in blocks_of(d).items()}
    assert found == {place: len(blocks) for place, blocks in BLOCKS.items()} | ELSEWHERE


def table(columns: Columns, batch: int) -> pa.Table:
    arrays = {}
    for name, value in columns.items():
        values = [value(i) for i in range(ROWS)]
        if name.endswith("at") and name != "lat":
            values = [value(batch * APART_S + i) for i in range(ROWS)]
        arrays[name] = pa.array(
            values, TIMESTAMP if name.endswith("at") and name != "lat" else None
        )
    return pa.table(arrays)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files for every stream."""
    folder = tmp_path_factory.mktemp("documents")
    for name, columns in STREAMS.items():
        file_stream(folder / name, [table(columns, b) for b in range(BATCHES)])
    return folder


@pytest.fixture(scope="module")
def streams(spark: SparkSession, data: Path) -> Callable[[str], DataFrame]:
    schemas = {name: table(columns, 0).schema for name, columns in STREAMS.items()}
    return lambda name: FileStream(data / name, schemas[name]).read(spark)


def rows_of(result: sk.Result, checkpoint: Path) -> int:
    """How many rows a result has, all in all."""
    writer = result.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    finish(writer.trigger(availableNow=True).start())
    return sum(report.matches for report in sk.history(str(checkpoint)))


@pytest.mark.parametrize("place", BLOCKS, ids=" ".join)
def test_block(
    place: tuple[str, str],
    streams: Callable[[str], DataFrame],
    data: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    document, heading = place
    [path] = [path for path in DOCUMENTS if path.name == document]
    names: dict[str, Any] = {"sk": sk, "spark": spark}
    for source, (used, given) in zip(blocks_of(path)[heading], BLOCKS[place], strict=True):
        names |= {name: streams(name) for name in used.split()}
        for own in ("ckpt", "ckpt2", "out", "pairs.db"):  # Spark has its own working folder
            source = source.replace(f'"{own}"', repr(str(tmp_path / own)))  # noqa: PLW2901
        source = source.replace('"/data/', f'"{data}/')  # noqa: PLW2901
        exec(compile(source, f"{document}, {heading}", "exec"), names)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
        for name in given.split():
            assert isinstance(names[name], sk.Result)
            assert rows_of(names[name], tmp_path / name) > 0, f"{name} has no rows"


# Examples ----------------------------------------------------------------------------------------

# What to run before, the arguments, and what the last line says.
SCRIPTS: dict[str, tuple[list[str], list[str], str]] = {
    "make_city.py": ([], ["--batches", "2"], r"2 batches of orders and tracks are in \S+"),
    "ten_lines.py": (["make_city.py"], [], r"[1-9]\d* matches"),
    "live_commerce.py": ([], [], r"[1-9]\d* deals are in \S+"),
    "near_duplicates.py": ([], [], r"[1-9]\d* pairs, [1-9]\d* of them a post and its copy, .*"),
    "network_flows.py": ([], [], r"[1-9]\d* triples are in \S+"),
    "taxis_near_orders.py": ([], [], r"[1-9]\d* pairs of a taxi and an order are in \S+"),
}


def run_script(name: str, folder: Path) -> str:
    """Run an example as a user would; what it prints."""
    command = [sys.executable, str(EXAMPLES / name), *SCRIPTS[name][1]]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=250, check=False
    )
    assert run.returncode == 0, run.stderr[-4_000:]
    return run.stdout


def test_all_examples_are_known() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SCRIPTS)


# Half a minute each; two others use the same operators, and tests/test_cli.py runs the ten lines.
SLOW = {"live_commerce.py", "taxis_near_orders.py", "ten_lines.py"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in SCRIPTS],
)
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for before in SCRIPTS[name][0]:
        run_script(before, tmp_path)
    lines = run_script(name, tmp_path).strip().splitlines()
    assert re.fullmatch(SCRIPTS[name][2], lines[-1]), lines[-1]
