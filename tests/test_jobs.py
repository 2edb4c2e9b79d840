"""Job files of any operators: what they become, and all that is wrong with them at once."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import skewless as sk
from skewless.cli import app
from skewless.cli.run import done_by
from skewless.errors import JobFileError
from skewless.jobfile import JobFile, load_jobs
from skewless.jobfile.argument_kinds import AGGREGATES, QUANTILE
from skewless.jobfile.assembly import COLUMN_FORMATS
from skewless.jobfile.description import METRICS, STEPS
from skewless.jobfile.reference import with_reference
from skewless.jobfile.schema import json_schema
from skewless.jobfile.validation import validate
from tests.job_files import BAD, BAD_COLUMNS, BAD_TOLD_EARLY, COMPOSED, GOOD, HEAD, JOBS, step_file
from tests.job_files import STEPS as CALLS
from tests.test_jobfile import JOB, REFUSED

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
ALL_BAD = {**BAD, **BAD_COLUMNS, **BAD_TOLD_EARLY}


def written(folder: Path, text: str) -> Path:
    file = folder / "job.toml"
    file.write_text(text, encoding="utf-8")
    return file


def loaded(folder: Path, text: str, **environment: str) -> JobFile:
    return load_jobs(written(folder, text), environment=environment)


def line_with(text: str, part: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


# What files become


@pytest.mark.parametrize(("text", "call"), CALLS.values(), ids=CALLS.keys())
def test_every_step_is_a_call(tmp_path: Path, text: str, call: Any) -> None:
    (job,) = loaded(tmp_path, step_file(text)).jobs
    (step,) = job.steps
    operator, inputs, arguments = call
    assert (step.operator, step.inputs) == (operator, inputs)
    assert {source.name for source in job.sources} == set(inputs)
    # tests/spark/test_jobs.py compares what is made of both; here only which arguments there are.
    given = set(step.arguments) | ({"where"} if step.where else set())
    assert given - {"suffixes", "instances"} == set(arguments) - {"suffixes", "instances"}


def test_only_joins_have_joined(tmp_path: Path) -> None:
    (joined,) = loaded(tmp_path, step_file(CALLS["join"][0])).jobs
    text = step_file('deduplicate = "orders"\nby = "cell"\ntime = "at"\nwithin = "1 minute"')
    (first,) = loaded(tmp_path, text).jobs
    assert (done_by(joined), done_by(first)) == ("joined", "ran")


def test_steps_follow_one_another(tmp_path: Path) -> None:
    (job,) = loaded(tmp_path, HEAD + COMPOSED).jobs
    assert [step.name for step in job.steps] == ["cheap", "rides", "paid", "revenue"]
    assert (job.step, job.last.select[1]) == ("revenue", "window.end AS until")
    backwards = HEAD + "\n\n".join(reversed(COMPOSED.split("\n\n")))
    (job,) = loaded(tmp_path, backwards).jobs
    assert [step.name for step in job.steps] == ["cheap", "rides", "paid", "revenue"]


def test_several_jobs_share_steps(tmp_path: Path) -> None:
    file = loaded(tmp_path, JOBS)
    rides, revenue = file.jobs
    assert [step.name for step in rides.steps] == ["cheap", "rides"]
    assert {source.name for source in rides.sources} == {"orders", "tracks"}
    assert (rides.name, rides.checkpoint) == ("rides", "ckpt/rides")
    assert (rides.sink.path, rides.trigger) == ("out/rides", {"availableNow": True})
    assert (revenue.sink.table, revenue.sink.mode, revenue.step) == (
        "db.revenue", "update", "revenue",
    )  # fmt: skip
    assert [job.name for job in file.only(["revenue"]).jobs] == ["revenue"]
    with pytest.raises(JobFileError, match=r"no job `ride` \(did you mean `rides`\?\)"):
        load_jobs(tmp_path / "job.toml", ["ride"])


def test_environment_variables(tmp_path: Path) -> None:
    text = step_file(CALLS["join"][0])
    text = text.replace('"in/orders"', '"${IN}/orders-$${IN}-${env:HOME}"')
    text = text.replace('"in/tracks"', '"${PLACE:-in}/tracks"')
    text = text.replace('late = "1 minute"', 'late = "${LATE}"\ninstances = "${N:-3}"')
    (job,) = loaded(tmp_path, text, IN="s3a://data", LATE="5 seconds").jobs
    orders, tracks = job.sources
    assert (orders.path, tracks.path) == ("s3a://data/orders-${IN}-${env:HOME}", "in/tracks")
    assert (job.last.arguments["late"], job.last.arguments["instances"]) == ("5 seconds", 3)
    (job,) = loaded(tmp_path, text, IN="x", LATE="1 second", PLACE="", N="7").jobs
    assert (job.sources[1].path, job.last.arguments["instances"]) == ("/tracks", 7)
    with pytest.raises(JobFileError) as caught:
        loaded(tmp_path, text)
    assert [line.partition(": ")[2].split(" is not")[0] for line in str(caught.value).split("\n")
            if "environment" in line] == [
        "the environment variable IN", "the environment variable LATE"]  # fmt: skip


# What is wrong with them


@pytest.mark.parametrize(("text", "mistakes"), ALL_BAD.values(), ids=ALL_BAD.keys())
def test_all_mistakes_are_told_by_line(
    tmp_path: Path, text: str, mistakes: list[tuple[str, str]]
) -> None:
    problems = [p for p in validate(written(tmp_path, text)) if p.severity == "error"]
    told = [(problem.line, problem.message) for problem in problems]
    assert len(told) == len(mistakes), told
    for (line, message), (place, part) in zip(told, mistakes, strict=True):
        assert line == line_with(text, place)
        assert part in message


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_good_files_have_no_mistakes(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text)
    assert [p for p in validate(file) if p.severity == "error"] == []
    assert load_jobs(file).jobs


@pytest.mark.parametrize(("text", "mistakes"), BAD.values(), ids=BAD.keys())
def test_mistakes_of_form_are_told_before_a_run(
    tmp_path: Path, text: str, mistakes: list[tuple[str, str]]
) -> None:
    with pytest.raises(JobFileError) as caught:
        load_jobs(written(tmp_path, text))
    assert mistakes[0][1] in str(caught.value)


@pytest.mark.parametrize(("text", "mistakes"), BAD_COLUMNS.values(), ids=BAD_COLUMNS.keys())
def test_columns_are_left_to_spark_by_a_run(tmp_path: Path, text: str, mistakes: Any) -> None:
    assert load_jobs(written(tmp_path, text)).jobs


WARNINGS = {
    "unbounded": (step_file(CALLS["join of any times"][0]), "its state grows for ever"),
    "totals": (step_file(CALLS["aggregate of all"][0]), "its state grows with the keys"),
    "late": (
        step_file(CALLS["join"][0].replace('late = "1 minute"', 'late = ["0 seconds", "0 ms"]')),
        "rows that come out of order are dropped",
    ),
    "unused": (step_file(CALLS["join"][0]), "no job uses the input `payments`"),
    "a circle of folders": (
        step_file(CALLS["join"][0]).replace('"noop"', '"json"\npath = "in/orders/"'),
        "it reads what it writes: the input `orders` has the same folder",
    ),
    "unparsed": (
        step_file(CALLS["join"][0] + '\nwhere = "price +"'),
        "`price +` could not be parsed, and was not checked",
    ),
}


@pytest.mark.parametrize(("text", "told"), WARNINGS.values(), ids=WARNINGS.keys())
def test_warnings(tmp_path: Path, text: str, told: str) -> None:
    problems = validate(written(tmp_path, text))
    assert {p.severity for p in problems} == {"warning"}
    assert any(told in p.message for p in problems)


OPEN = {
    "no schema": ('format = "delta"', ["nothing", "is known"]),
    "a generator": ('format = "rate"\nselect = ["inline(f(value))", "value"]', ["anything"]),
    "unparsed": ('format = "rate"\nselect = ["value:a.b AS x", "value"]', ["x"]),
    "a lambda": (
        'format = "text"\npath = "in"\n'
        "select = [\"transform(split(value, ','), x -> upper(x)) AS parts\"]",
        ["parts"],
    ),
    "an alias used again": (
        'format = "kafka"\nselect = ["cast(value AS STRING) AS v", "length(v) AS n", "timestamp"]',
        ["v", "n", "timestamp"],
    ),
    "a json": (
        'format = "kafka"\nselect = ["from_json(cast(value AS STRING), \'a INT\') AS v", "v.a"]',
        ["a"],
    ),
    "a cast": ('format = "kafka"\nselect = ["CAST(key AS STRING)"]', ["key"]),
    "all but": ('format = "rate"\nselect = ["* EXCEPT (value)", "value AS v"]', ["timestamp", "v"]),
    "quoted": ('format = "rate"\nselect = ["value AS `a b`"]', ["a b"]),
    "metadata": (
        'format = "text"\npath = "in"\nselect = ["_metadata.file_path AS file", "user"]',
        ["file"],
    ),
}


@pytest.mark.parametrize(("source", "names"), OPEN.values(), ids=OPEN.keys())
def test_what_is_not_certain_is_no_mistake(tmp_path: Path, source: str, names: list[str]) -> None:
    brokers = 'options = { kafka.bootstrap.servers = "a:1", subscribe = "t" }'
    source = source.replace('"kafka"', f'"kafka"\n{brokers}')
    text = f'checkpoint = "c"\n[inputs.a]\n{source}\n[sink]\nformat = "noop"\n[steps.n]\n'
    text += f'aggregate = "a"\nby = {json.dumps(names)}\naggs = {{ number = "count" }}\n'
    problems = validate(written(tmp_path, text), {})
    assert [p.message for p in problems if p.severity == "error"] == []


def test_keys_near_to_what_is_missing_are_one_mistake(tmp_path: Path) -> None:
    text = step_file(CALLS["join"][0].replace("within", "wihtin"))
    (problem,) = [p for p in validate(written(tmp_path, text)) if p.severity == "error"]
    assert "did you mean `within`?" in problem.message


# The commands


def invoke(*args: str, answers: str | None = None) -> Any:
    return CliRunner().invoke(app, args, input=answers, env={"COLUMNS": "200"})


def test_validate_tells_and_its_exit_code_says(tmp_path: Path) -> None:
    text, mistakes = BAD["several mistakes"]
    file = written(tmp_path, text)
    told = invoke("validate", str(file))
    assert told.exit_code == 1
    lines = told.stdout.splitlines()
    errors = [line for line in lines if "warning" not in line]
    assert errors[-1] == f"{file}: 3 mistakes"
    for line, (place, part) in zip(errors, mistakes, strict=False):
        assert line.startswith(f"{file}:{line_with(text, place)}: ") and part in line
    told = invoke("validate", str(file), "--json")
    assert told.exit_code == 1
    answer = json.loads(told.stdout)
    assert not answer["valid"] and len(answer["problems"]) == 3
    assert answer["problems"][1]["key"] == "steps.found.within"
    good = invoke("validate", str(written(tmp_path, GOOD["composed"])))
    assert (good.exit_code, good.stdout) == (0, f"{file}: no mistakes\n")
    assert json.loads(invoke("validate", str(file), "--json").stdout)["valid"]


def test_a_mark_of_the_byte_order_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(GOOD["composed"], encoding="utf-8-sig")
    assert [p for p in validate(file) if p.severity == "error"] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [("a = [", ":1: not valid TOML"), (None, ": cannot be read: No such file")],
)
def test_validate_files_that_are_none(tmp_path: Path, text: str | None, told: str) -> None:
    file = tmp_path / "job.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    answer = invoke("validate", str(file))
    assert answer.exit_code == 1
    assert f"{file}{told}" in answer.stdout


def test_validate_loads_no_pyspark(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD["jobs"])
    code = (
        "import sys; from skewless.cli import app\n"
        f"try: app(['validate', {str(file)!r}])\n"
        "except SystemExit: pass\n"
        "print('heavy:', *sorted({m.split('.')[0] for m in sys.modules} & {'pyspark', 'py4j'}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1].strip() == "heavy:"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_examples_are_valid(file: Path) -> None:
    assert [str(p) for p in validate(file, {}) if p.severity == "error"] == []


# `skewless new`


def answered(folder: Path, *answers: str) -> tuple[dict[str, Any], Any]:
    """What a file says after some answers, the rest being what is proposed; and what was told."""
    file = folder / "new.toml"
    told = invoke("new", str(file), "--force", answers="\n".join([*answers, *[""] * 40]))
    assert told.exit_code == 0, told.output
    assert [p for p in validate(file) if p.severity == "error"] == []
    return tomllib.loads(file.read_text(encoding="utf-8")), told


@pytest.mark.parametrize("operator", [name for name in STEPS if name != "from"])
def test_what_is_proposed_is_valid(tmp_path: Path, operator: str) -> None:
    told, said = answered(tmp_path, operator)
    assert operator in told["steps"]["result"]
    assert f"Run it: skewless run {tmp_path / 'new.toml'}" in said.stdout
    assert load_jobs(tmp_path / "new.toml").jobs


def test_answers_are_what_is_written(tmp_path: Path) -> None:
    told, _ = answered(
        tmp_path, "join", "trades", "quotes",
        "json", "/data/trades", "symbol STRING, price DOUBLE, traded_at TIMESTAMP",
        "kafka", "broker:9092", "q", "symbol STRING, bid DOUBLE, quoted_at TIMESTAMP",
        "priced", "symbol", "-1 minute, 10 minutes", "left", "traded_at", "quoted_at",
        "5 seconds, 1 second", "parquet", "/out", "/ckpt", "now",
    )  # fmt: skip
    assert told["steps"]["priced"] == {
        "join": ["trades", "quotes"], "on": "symbol", "within": ["-1 minute", "10 minutes"],
        "how": "left", "time": ["traded_at", "quoted_at"], "late": ["5 seconds", "1 second"],
    }  # fmt: skip
    quotes = told["inputs"]["quotes"]
    assert quotes["options"] == {"kafka.bootstrap.servers": "broker:9092", "subscribe": "q"}
    assert len(quotes["select"]) == 3
    assert told["inputs"]["trades"]["read"] == "columns"
    assert (told["checkpoint"], told["sink"]["path"]) == ("/ckpt", "/out")
    assert told["trigger"] == {"available_now": True}


def test_wrong_answers_are_asked_again(tmp_path: Path) -> None:
    told, said = answered(
        tmp_path, "jion", "deduplicate", "a b", "clicks", "", "", "id BIGIN, at TIMESTAMP",
        "id BIGINT, note STRING, at TIMESTAMP", "", "", "soon", "1 hour", "note", "at",
    )  # fmt: skip
    step = told["steps"]["result"]
    assert (step["deduplicate"], step["by"], step["within"], step["time"]) == (
        "clicks", "id", "1 hour", "at",
    )  # fmt: skip
    for part in ("one of: join,", "a name of letters", "is no type (did you mean `bigint`?)",
                 "must be a duration", "a timestamp: at"):  # fmt: skip
        assert part in said.stderr


def test_columns_are_taken_from_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    columns = {"k": pa.array([1], pa.int32()), "at": pa.array([0], pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table(columns), tmp_path / "in" / "0.parquet")
    told, _ = answered(tmp_path, "aggregate", "", "", str(tmp_path / "in"))
    assert told["inputs"]["events"]["schema"] == "k INT, at TIMESTAMP"
    assert told["steps"]["result"]["by"] == "k"


def test_columns_of_any_kind_are_taken_from_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    columns = {
        "a b": pa.array([["x"]]),
        "v": pa.array([{"X": 1, "Y": None}], pa.struct([("X", pa.int64()), ("Y", pa.date32())])),
        "at": pa.array([0], pa.timestamp("ms", "UTC")),
    }
    pq.write_table(pa.table(columns), tmp_path / "in" / "0.parquet")
    told, _ = answered(tmp_path, "aggregate", "", "", str(tmp_path / "in"))
    schema = "`a b` array<string>, v struct<X: bigint, Y: date>, at TIMESTAMP"
    assert told["inputs"]["events"]["schema"] == schema
    assert told["steps"]["result"]["by"] == "at"


def test_a_result_for_kafka(tmp_path: Path) -> None:
    told, _ = answered(
        tmp_path, "deduplicate", *[""] * 3, "id BIGINT, at TIMESTAMP", "", *[""] * 4,
        "kafka", "broker:9092", "seen",
    )  # fmt: skip
    assert told["sink"] == {
        "format": "kafka",
        "options": {"kafka.bootstrap.servers": "broker:9092", "topic": "seen"},
    }
    assert told["steps"]["result"]["select"] == ["to_json(struct(*)) AS value"]


def test_new_replaces_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, "mine")
    told = invoke("new", str(file), answers="\n" * 40)
    assert told.exit_code == 2 and "--force replaces it" in told.stderr
    assert file.read_text(encoding="utf-8") == "mine"


def test_new_that_is_left_writes_nothing(tmp_path: Path) -> None:
    told = invoke("new", str(tmp_path / "job.toml"), answers="join\norders\n")
    assert told.exit_code == 1
    assert not (tmp_path / "job.toml").exists()


def test_new_as_json(tmp_path: Path) -> None:
    told = invoke("new", str(tmp_path / "job.toml"), "--json", answers="\n" * 40)
    assert json.loads(told.stdout) == {
        "file": str(tmp_path / "job.toml"), "valid": True, "problems": [],
    }  # fmt: skip


# One description for all


@pytest.fixture(scope="module")
def editor() -> jsonschema.Draft202012Validator:
    schema = json.loads(invoke("schema").stdout)
    assert schema == json_schema() == json.loads(invoke("schema", "--json").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


GOOD_FILES = {**GOOD, "short": JOB, **{e.name: e.read_text(encoding="utf-8") for e in EXAMPLES}}


@pytest.mark.parametrize("text", GOOD_FILES.values(), ids=GOOD_FILES.keys())
def test_the_schema_accepts(editor: jsonschema.Draft202012Validator, text: str) -> None:
    assert list(editor.iter_errors(tomllib.loads(text))) == []


# What a schema cannot say: what hangs together beyond a table, and what a text holds.
BEYOND_A_SCHEMA = {
    "an input that is not there", "an input with a slip hides nothing else",
    "join3 of one pair", "join3 of unknown inputs",
    "join3 within of other pairs", "within and window", "a window without time",
    "late without window", "an outer join without a bound", "totals taken further", "a circle",
    "no operator at all", "late of a result", "which step?", "a step that is not there",
    "a job's keys beside jobs", "append of totals", "kafka as columns",
    "a variable that is not there", "an input and a step of one name",
    "several mistakes of a strategy", "several mistakes in bounds",
    "jobs with one checkpoint and one output", "options of our own", "kafka without brokers",
}  # fmt: skip
BAD_FORMS = {name: text for name, (text, _) in BAD.items() if name not in BEYOND_A_SCHEMA}
# Of the short form: those that are no matter of two keys, or of what a text holds.
OF_TWO_KEYS = {
    "missing time", "within negative", "within reversed", "strategy and balance",
    "time and left_time", "path of a file sink", "path of files", "memory", "balance groups",
    "conf", "master in conf", "syntax", "unended", "twice", "within", "within half open, wrong",
    "late",
}  # fmt: skip
BAD_SHORT = {n: JOB.replace(o, w) for n, (o, w, _) in REFUSED.items() if n not in OF_TWO_KEYS}


@pytest.mark.parametrize("text", BAD_FORMS.values(), ids=BAD_FORMS.keys())
def test_the_schema_refuses(editor: jsonschema.Draft202012Validator, text: str) -> None:
    assert list(editor.iter_errors(tomllib.loads(text)))


@pytest.mark.parametrize("text", BAD_SHORT.values(), ids=BAD_SHORT.keys())
def test_the_schema_refuses_short_forms(editor: jsonschema.Draft202012Validator, text: str) -> None:
    assert list(editor.iter_errors(tomllib.loads(text)))


def test_the_documents_tables_are_those_of_the_description() -> None:
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    assert with_reference(text) == text, "python -m skewless.jobfile.reference docs/jobs.md"


def test_the_documents_files_are_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    blocks = [part.partition("```")[0] for part in text.split("```toml\n")[1:]]
    assert len(blocks) >= 3
    for block in blocks:
        problems = validate(written(tmp_path, block), {})
        assert [str(p) for p in problems if p.severity == "error"] == []


def test_the_description_knows_all_names() -> None:
    from skewless.files.reading import FORMATS
    from skewless.operators.aggregate.accumulators.named import NAMED, WITH_PARAMETER
    from skewless.operators.similarity.metrics import METRICS as KNOWN

    assert set(METRICS) == set(KNOWN)
    assert (set(AGGREGATES), {QUANTILE}) == (set(NAMED), set(WITH_PARAMETER))
    assert set(COLUMN_FORMATS) == set(FORMATS)


# Arguments that are functions, or names of others: these are for Python.
NOT_IN_FILES = {"join3": {"times"}, "similarity_join": {"check_metric"}}
INPUTS = {"left", "right", "r", "s", "t", "df"}


@pytest.mark.parametrize("operator", [name for name in STEPS if name != "from"])
def test_the_description_knows_all_arguments(operator: str) -> None:
    import inspect

    arguments = set(inspect.signature(getattr(sk, operator)).parameters) - INPUTS
    keys = set(STEPS[operator].names) - {operator, "select", "where"}
    assert keys == arguments - NOT_IN_FILES.get(operator, set()) - {"where"}
