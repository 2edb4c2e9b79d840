"""Dead letters: rows with bad values in files, each once, whatever happens."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from skewless.engine.batch import run_batch
from skewless.engine.decoding import ASIDE, NO_JSON, Decoding
from skewless.engine.executor import InProcessExecutor
from skewless.engine.letters import LetterBox, letters_folder
from skewless.engine.operator import Arrival
from skewless.engine.pipeline import Feed, IngestTask
from skewless.files.json_values import JsonColumns
from skewless.files.writing import FileWriting, unsupported
from skewless.state.files import Folder
from skewless.state.output import Output
from tests.crashes import (
    POINTS,
    CrashError,
    assert_nothing_is_left_over,
    crash_at,
)
from tests.frame.kits import KITS
from tests.frame.streams import Stream, busy, rows_of
from tests.queries import FileSink, PipelineRun

if TYPE_CHECKING:
    from tests.s3 import S3Server

TEXTS = pa.schema([("value", pa.string()), ("offset", pa.int64())])
LETTERS = pa.schema([*TEXTS, ("reason", pa.string())])
KIT = KITS["join"]
KEY = f"{KIT.streams[0]}_k"
BAD = ["nope", f'{{"{KEY}": "x"}}', f'{{"{KEY}": 1', "[1]"]


def box(path: Path) -> LetterBox:
    writing = FileWriting("parquet", LETTERS, from_arrow_schema(LETTERS).json(), "4.3.0")
    assert unsupported(writing) is None
    return LetterBox(str(path), writing)


def texts_of(stream: Stream, number: int) -> list[str]:
    """Three rows of a stream as JSON, and among them what is none."""
    rows = stream.table().slice(3 * number, 3 if number < 7 else 99).to_pylist()
    good = [json.dumps(row, default=lambda time: time.isoformat()) for row in rows]
    return [good[0], *BAD[number % 3 : number % 3 + 2], *good[1:]]


def batch_of(stream: Stream, number: int) -> pa.RecordBatch:
    texts = texts_of(stream, number)
    offsets = [100 * number + i for i in range(len(texts))]
    return pa.record_batch({"value": texts, "offset": offsets}, TEXTS)


def is_bad(text: str) -> bool:
    """By Python's own parser; whoever has a key has one that is a number."""
    try:
        found = json.loads(text)
    except ValueError:
        return True
    return not isinstance(found, dict) or isinstance(found.get(KEY), str)


def parsing(task: IngestTask, letters: LetterBox | None) -> Decoding:
    schema = busy(*KIT.streams)[0].schema
    made = tuple(-1 - i for i in range(len(schema)))
    return Decoding(task, JsonColumns(schema), 0, made, ASIDE, letters=letters)


@dataclass
class Parsing(InProcessExecutor):
    """The rows of the first stream come as texts."""

    letters: LetterBox | None = None

    def _taken_in(self, task: Any, feed: Feed, *more: Any) -> list[Arrival]:
        if feed.stream == 0:
            task, feed = parsing(task, self.letters), replace(feed, columns=(0, 1))
        return super()._taken_in(task, feed, *more)


class Run:
    def __init__(self, folder: Path, state: Folder | None = None) -> None:
        self.folder = folder
        self.left, self.right = (replace(s) for s in busy(*KIT.streams))
        pipeline = KIT.pipeline(KIT.setups[0])
        self.run = PipelineRun(state or folder / "state", pipeline, folder / "out")
        self.take()

    def take(self) -> None:
        for name in ("out", "letters"):
            Output(str(self.folder / name)).take(self.run.query.folder)

    def again(self) -> None:
        self.run.start(self.run.pipeline)

    def batch(self, number: int, attempts: int = 1) -> None:
        rows = self.right.batch(3 * number, 3 * number + 3 if number < 7 else 999)
        feeds = [[[batch_of(self.left, number)]], [[rows]]]
        executor = Parsing(
            self.run.pipeline,
            self.run.query.folder,
            feeds,
            faithful=True,
            attempts=attempts,
            letters=box(self.folder / "letters"),
        )
        sink = FileSink(self.run.query, self.run.schema, self.folder / "out")
        run_batch(self.run.query, executor, sink, number)

    def check(self) -> None:
        """Every bad row is in the folder of its batch, and everything else was joined."""
        self.again()
        expected: Counter[Any] = Counter()
        for number in range(8):
            rows = batch_of(self.left, number).to_pylist()
            bad = [row for row in rows if is_bad(row["value"])]
            expected.update((row["value"], row["offset"], NO_JSON, number) for row in bad)
        partitioning = ds.partitioning(pa.schema([("batch", pa.int64())]), flavor="hive")
        table = ds.dataset(self.folder / "letters", partitioning=partitioning).to_table()
        assert table.column_names == ["value", "offset", "reason", "batch"]
        assert Counter(tuple(row.values()) for row in table.to_pylist()) == expected
        assert expected.total() > 8
        found = rows_of(self.run.published_table())
        assert found == KIT.expected((self.left, self.right))
        assert_nothing_is_left_over(self.run)


def test_bad_rows_are_in_files(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for number in range(8):
        run.batch(number, attempts=1 + number % 2)
        assert run.run.query.folder.list(letters_folder(run.run.query.folder)) == []
    run.check()


def test_the_state_on_a_remote_store(s3: S3Server, cache_folder: Path, tmp_path: Path) -> None:
    """Rows then are sent on as packets, and files are made elsewhere first."""
    run = Run(tmp_path, s3.folder("state"))
    for number in range(8):
        run.batch(number, attempts=2)
    run.check()


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at(point: str, tmp_path: Path) -> None:
    """A crash neither loses nor doubles a row, nor shows one of a batch that does not count."""
    run = Run(tmp_path)
    for number in range(8):
        if number in (0, 5):
            try:
                with crash_at(point):
                    run.batch(number)
            except CrashError:
                folder = run.run.query.folder  # of a task that was killed
                folder.make(letters_folder(folder))
                folder.write(f"{letters_folder(folder)}/part-00009-x.parquet", b"half")
                run.again()
        run.batch(number, attempts=2)
    run.check()


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    node, i, _ = run.run.pipeline.streams()[0]
    task = node.ingest(i.name, run.run.query.folder)
    parse = pickle.loads(pickle.dumps(parsing(task, box(tmp_path / "letters"))))

    def failing() -> Any:
        yield batch_of(run.left, 0)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(parse(failing(), 0))
    folder = run.run.query.folder
    assert folder.list(letters_folder(folder)) == []
    *_, told = parse([batch_of(run.left, 0)], 3)
    assert isinstance(told, Arrival)
    assert told == Arrival.from_json(json.loads(json.dumps(told.to_json())))
    assert told.rows == told.dropped["dead letters"] == 2
    [letter] = told.letters
    assert pq.read_table(folder.path(letter.staged)).num_rows == 2
    staged, final = letter.move(7)
    assert staged == letter.staged
    assert final.startswith(f"{tmp_path}/letters/batch=7/batch-000000000007-part-00003-")
