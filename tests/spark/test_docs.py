"""What the documents show runs: each snippet on small streams, and each example."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import skewless as sk
from tests.documents import DOCS, DOCUMENTS, ROOT, Snippet, snippets
from tests.spark.support import TIMESTAMP, FileStream, at, file_stream, finish

EXAMPLES = ROOT / "examples"

# Snippets ----------------------------------------------------------------------------------------

BATCHES, ROWS, APART_S = 3, 12, 7_200

# The columns of a stream: what row number i of a batch has in each.
Columns = dict[str, Callable[[int], Any]]
STREAMS: dict[str, Columns] = {
    "orders": {
        "order_id": lambda i: i,
        "cell": lambda i: i % 4,  # of the last there are no tracks
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

# Documents whose snippets are one script, from the first to the last; the others have one per
# heading. Later snippets see what earlier ones have made.
WHOLE = "all of it"
WHOLES = {"migrate.md", "operate.md", "size.md", "tune.md", "tutorial.md", "upgrade.md"}
# By document and heading: the streams that are used, how many snippets there are, and the results
# that they give.
PLACES: dict[tuple[str, str], tuple[str, int, str]] = {
    ("README.md", "Ten lines"): ("orders tracks", 2, "joined"),
    ("operators.md", "Join"): ("orders tracks", 1, "joined"),
    ("operators.md", "Aggregate"): ("posts", 1, "trends"),
    ("operators.md", "Join the nearest in time"): ("trades quotes", 1, "priced"),
    ("operators.md", "Join three"): ("streamers purchases users", 1, "deals"),
    ("operators.md", "Join what is alike"): ("taxis orders", 1, "near"),
    ("operators.md", "Deduplicate"): ("clicks", 1, "clicks"),
    ("operators.md", "Compose"): ("orders tracks payments", 1, "rides paid revenue"),
    ("checkpoints.md", "A new checkpoint over an old output folder"): ("joined", 1, ""),
    ("dashboard.md", "From a driver"): ("", 1, ""),
    ("dashboard.md", "Metrics of a driver"): ("", 1, ""),
    ("dashboard.md", "After each batch"): ("", 1, ""),
    ("files.md", "Reading"): ("tracks", 1, "joined"),
    ("sinks.md", "Any other sink, with foreachBatch"): ("orders tracks", 2, "joined"),
    ("json.md", "Use"): ("kafka tracks", 1, "joined"),
    ("migrate.md", WHOLE): ("orders tracks", 4, "after"),
    ("operate.md", WHOLE): ("joined", 5, ""),
    ("size.md", WHOLE): ("joined", 1, ""),
    ("tune.md", WHOLE): ("joined ckpt orders tracks", 3, "joined"),
    ("tutorial.md", WHOLE): ("", 11, ""),
    ("upgrade.md", WHOLE): ("", 1, ""),
    ("json.md", "Dead letters"): ("kafka", 1, ""),
}
# Those that need jars, a server or hosts, and the tests that have them. A cluster's is only read.
ELSEWHERE: dict[tuple[str, str], str] = {
    ("sinks.md", "Delta"): "tests/tables/lake_cases.py",
    ("sinks.md", "Iceberg"): "tests/tables/lake_cases.py",
    ("sinks.md", "JDBC"): "tests/tables/lake_cases.py",
    ("connect.md", "Spark Connect"): "tests/connect/test_connect.py",
    ("kafka.md", "From Kafka to Kafka"): "tests/kafka/test_queries.py",
    ("avro.md", "From Kafka to Kafka"): "tests/kafka/test_avro.py",
    ("avro.md", "With a schema registry"): "tests/kafka/test_avro.py",
    ("cluster.md", "On a cluster"): "tests/cluster",
}


def places_of(document: Path) -> dict[str, list[Snippet]]:
    """The snippets of a document, by what belongs together."""
    found: dict[str, list[Snippet]] = {}
    for snippet in snippets(document):
        place = WHOLE if document.name in WHOLES else snippet.heading
        found.setdefault(place, []).append(snippet)
    return found


def test_all_snippets_are_known() -> None:
    found = {(d.name, place): len(s) for d in DOCUMENTS for place, s in places_of(d).items()}
    assert found == {p: count for p, (_, count, _) in PLACES.items()} | dict.fromkeys(ELSEWHERE, 1)


@pytest.mark.parametrize("place", ELSEWHERE, ids=" ".join)
def test_calls_elsewhere_fit(place: tuple[str, str]) -> None:
    """What is not run here is read: its calls of skewless have arguments that there are."""
    assert (ROOT / ELSEWHERE[place]).exists()
    [snippet] = places_of(DOCS / place[0])[place[1]]
    for call in [n for n in ast.walk(ast.parse(snippet.source)) if isinstance(n, ast.Call)]:
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "sk":
            named = {str(k.arg): None for k in call.keywords}
            inspect.signature(getattr(sk, call.func.attr)).bind(*call.args, **named)


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


def placed(source: str, data: Path, folder: Path) -> str:
    """A snippet whose folders are in one of the test: Spark has a working folder of its own."""
    own = re.sub(r'"(?=(?:ckpt2?|out|pairs\.db|shop)["/])', f'"{folder}/', source)
    return own.replace('"/data/', f'"{data}/')


def made_ready(name: str, streams: Callable[[str], DataFrame], folder: Path) -> Any:
    """What a snippet takes for granted: a stream, a join of two, or the checkpoint of one."""
    if name not in ("joined", "ckpt"):
        return streams(name)
    pair = streams("orders"), streams("tracks")
    times, bounds = ("ordered_at", "seen_at"), {"within": "10 minutes", "late": "1 minute"}
    joined = sk.join(*pair, on="cell", time=times, **bounds)
    return joined if name == "joined" else rows_of(joined, folder / "ckpt")


def run_snippets(
    place: tuple[str, str], names: dict[str, Any], data: Path, folder: Path
) -> dict[str, Any]:
    """Run what stands at a place, and compare what is printed; the names that there are then."""
    [path] = [path for path in DOCUMENTS if path.name == place[0]]
    for snippet in places_of(path)[place[1]]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(placed(snippet.source, data, folder), " ".join(place), "exec"), names)
        for query in names["spark"].streams.active:
            query.processAllAvailable()
            query.stop()
        if snippet.printed is not None:
            assert said.getvalue() == snippet.printed
    return names


@pytest.mark.parametrize(
    "place",
    [pytest.param(p, marks=[pytest.mark.slow] if p[0] == "tutorial.md" else []) for p in PLACES],
    ids=" ".join,
)
def test_snippets(
    place: tuple[str, str],
    streams: Callable[[str], DataFrame],
    data: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    used, _, given = PLACES[place]
    names = {name: made_ready(name, streams, tmp_path) for name in used.split()}
    names = run_snippets(place, {"sk": sk, "spark": spark, **names}, data, tmp_path)
    for name in given.split():
        assert isinstance(names[name], sk.Result)
        assert rows_of(names[name], tmp_path / name) > 0, f"{name} has no rows"


@pytest.mark.slow
def test_a_join_that_was_migrated_gives_the_same(
    streams: Callable[[str], DataFrame], data: Path, spark: SparkSession, tmp_path: Path
) -> None:
    names = {"sk": sk, "spark": spark, "orders": streams("orders"), "tracks": streams("tracks")}
    names = run_snippets(("migrate.md", WHOLE), names, data, tmp_path)
    rows = []
    for name in ("before", "after"):
        writer = names[name].writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / f"{name}.ckpt"))
        finish(writer.start(str(tmp_path / name)))
        rows.append(Counter(spark.read.parquet(str(tmp_path / name)).collect()))
    before, after = rows
    assert before == after
    assert any(row.taxi is None for row in after) and any(row.taxi is not None for row in after)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for before in SCRIPTS[name][0]:
        run_script(before, tmp_path)
    lines = run_script(name, tmp_path).strip().splitlines()
    assert re.fullmatch(SCRIPTS[name][2], lines[-1]), lines[-1]
