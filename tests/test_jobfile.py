"""Job files: what they may say, and what is said about those that cannot be understood."""

from __future__ import annotations

import doctest
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from skewless.cli.app import run as run_command
from skewless.conditions import UNBOUNDED, band, equal
from skewless.errors import ArgumentError, JobFileError
from skewless.jobfile import Job, Source, lines, load_jobs
from skewless.jobfile import text as job_text
from skewless.jobfile.lines import key_lines, line_of
from skewless.placement.balancing import Auto, FastJoin, LSStream
from skewless.placement.routing import Broadcast, ContRand, Hash
from skewless.strategies import FAMILIES

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "orders_and_tracks.toml"

JOB = """\
checkpoint = "ckpt"
[left]
format = "parquet"
path = "in/orders"
[right]
format = "rate"
[join]
on = "cell"
left_time = "a"
right_time = "b"
within = "10 minutes"
[sink]
format = "noop"
"""


def load(tmp_path: Path, text: str) -> Job:
    file = tmp_path / "job.toml"
    file.write_text(text, encoding="utf-8")
    (job,) = load_jobs(file).jobs
    return job


def source(job: Job, name: str) -> Source:
    return next(source for source in job.sources if source.name == name)


def load_with(tmp_path: Path, old: str, new: str) -> Job:
    assert old in JOB
    return load(tmp_path, JOB.replace(old, new))


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(JobFileError) as caught:
        load(tmp_path, text)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_a_small_job_leaves_the_rest_to_the_defaults(tmp_path: Path) -> None:
    job = load(tmp_path, JOB)
    assert job.last.arguments == {
        "on": ["cell"],
        "left_time": "a",
        "right_time": "b",
        "within": "10 minutes",
    }
    left, right = source(job, "left"), source(job, "right")
    assert (left.format, left.path, left.options) == ("parquet", "in/orders", {})
    assert (right.format, right.path, right.schema) == ("rate", None, None)
    assert (job.sink.format, job.sink.path, job.sink.partition_by) == ("noop", None, ())
    assert (job.trigger, job.name) == ({}, None)
    file = load_jobs(tmp_path / "job.toml")
    assert (file.master, file.conf) == (None, {})


def test_the_example_is_a_job() -> None:
    file = load_jobs(EXAMPLE)
    (job,) = file.jobs
    assert job.trigger == {"availableNow": True}
    assert file.conf == {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    assert job.sink.partition_by == ("passengers",)


def test_the_job_in_the_help_is_a_job(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", run_command.__doc__ or "", re.DOTALL)
    assert found is not None
    text = textwrap.dedent(found.group(1))
    right = text[text.index("[left]") : text.index("[join]")].replace("[left]", "[right]")
    job = load(tmp_path, text.replace("[join]", f"{right}[join]", 1))
    assert job.last.where == "speed_kmh < 30"
    assert set(job.last.arguments) == {
        "on", "left_time", "right_time", "within", "late", "idle_after", "max_ahead",
        "balance", "instances", "slots", "suffixes", "on_null_time",
    }  # fmt: skip
    assert job.trigger == {"processingTime": "1 second"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"cell"', ["cell"]),
        ('["a", "b"]', ["a", "b"]),
        ('[["a", "b"], "c"]', [("a", "b"), "c"]),
        ('{ left = "a", right = "b" }', [("a", "b")]),
        ('[{ left = "x", right = "y", width = 5 }, "k"]', [band("x", "y", 5), "k"]),
        ('{ left = "x", right = "y", width = "5 seconds" }', [band("x", "y", "5 seconds")]),
        ('{ left = "x", right = "y", null_safe = true }', [equal("x", "y", null_safe=True)]),
        ('[{ left = "x", right = "y", null_safe = false }]', [("x", "y")]),
    ],
)
def test_keys(tmp_path: Path, written: str, meant: list[Any]) -> None:
    assert load_with(tmp_path, 'on = "cell"', f"on = {written}").last.arguments["on"] == meant


def test_durations_are_for_both_sides_or_for_each(tmp_path: Path) -> None:
    for key in ("late", "idle_after", "max_ahead"):
        for written, meant in (
            ('"1 day"', "1 day"),
            ('["1 day", "2 days"]', ("1 day", "2 days")),
        ):
            job = load_with(tmp_path, 'on = "cell"', f'on = "cell"\n{key} = {written}')
            assert job.last.arguments[key] == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"1 hour"', "1 hour"),
        ('["-1 minute", "10 minutes"]', ("-1 minute", "10 minutes")),
        ('"unbounded"', UNBOUNDED),
        ('["unbounded", "10 minutes"]', (UNBOUNDED, "10 minutes")),
        ('["-1 minute", "Unbounded"]', ("-1 minute", UNBOUNDED)),
        ('["unbounded", "unbounded"]', UNBOUNDED),
    ],
)
def test_within(tmp_path: Path, written: str, meant: object) -> None:
    job = load_with(tmp_path, 'within = "10 minutes"', f"within = {written}")
    assert job.last.arguments["within"] == meant


def test_an_unbounded_join_needs_no_times(tmp_path: Path) -> None:
    text = JOB.replace('left_time = "a"\nright_time = "b"\n', "")
    assert "left_time" not in load(tmp_path, text.replace("10 minutes", "unbounded")).last.arguments


@pytest.mark.parametrize(("written", "meant"), [('"at"', "at"), ('["a", "b"]', ("a", "b"))])
def test_time_says_it_for_both_sides(tmp_path: Path, written: str, meant: object) -> None:
    times = 'left_time = "a"\nright_time = "b"'
    job = load_with(tmp_path, times, f"time = {written}")
    assert job.last.arguments["time"] == meant
    assert not {"left_time", "right_time"} & set(job.last.arguments)


@pytest.mark.parametrize("key", ["balance", "strategy"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"auto"', "auto"),
        ('"hash"', Hash()),
        ('"broadcast"', Broadcast()),
        ('"fastjoin"', FastJoin()),
        (
            '{ strategy = "auto", tolerance = 0.2, pin = { "42" = 1 } }',
            Auto(tolerance=0.2, pin={"42": 1}),
        ),
        ('{ strategy = "contrand", groups = 2 }', ContRand(groups=2)),
        ('{ strategy = "lsstream", alpha = "auto" }', LSStream(alpha="auto")),
        ('{ strategy = "lsstream", alpha = 0.5, paper = true }', LSStream(alpha=0.5, paper=True)),
    ],
)
def test_strategies(tmp_path: Path, key: str, written: str, meant: object) -> None:
    job = load_with(tmp_path, 'on = "cell"', f'on = "cell"\n{key} = {written}')
    assert job.last.arguments[key] == meant
    assert not ({"balance", "strategy"} - {key}) & set(job.last.arguments)


@pytest.mark.parametrize("word", FAMILIES["join"].words())
def test_every_strategy_has_a_word(tmp_path: Path, word: str) -> None:
    kind = FAMILIES["join"].load(FAMILIES["join"].words()[word])
    job = load_with(tmp_path, 'on = "cell"', f'on = "cell"\nstrategy = {{ strategy = "{word}" }}')
    assert job.last.arguments["strategy"] == kind()


def test_settings_are_texts_quoted_or_not(tmp_path: Path) -> None:
    options = '[left.options]\nkafka.group.id = "g"\n"kafka.acks" = 1\nfailOnDataLoss = false\n'
    job = load(tmp_path, JOB.replace("[right]", f"{options}[right]"))
    assert source(job, "left").options == {
        "kafka.group.id": "g",
        "kafka.acks": "1",
        "failOnDataLoss": "false",
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('processing_time = "2 seconds"', {"processingTime": "2 seconds"}),
        ("available_now = true", {"availableNow": True}),
        ("once = true", {"once": True}),
        ("", {}),
    ],
)
def test_trigger(tmp_path: Path, written: str, meant: dict[str, Any]) -> None:
    assert load(tmp_path, f"{JOB}[trigger]\n{written}\n").trigger == meant


REFUSED = {
    "unknown key": ("on =", "onn =", "job.toml:8: unknown key `join.onn` (did you mean `on`?)"),
    "unknown table": ("[sink]", "[snik]", "job.toml:12: unknown key `snik` (did you mean `sink`?)"),
    "missing table": ("[sink]\n", "[left.options]\n", "job.toml: `sink` is missing"),
    "missing key": ('on = "cell"\n', "", "job.toml:7: `join.on` is missing"),
    "missing time": ('left_time = "a"\n', "", "job.toml:7: `join.left_time` is missing"),
    "no checkpoint": ('checkpoint = "ckpt"\n', "", "job.toml: `checkpoint` is missing"),
    "not a table": (
        '[right]\nformat = "rate"',
        "",
        "job.toml: `right` is missing: a table [right]",
    ),
    "empty text": ('"cell"', '""', "job.toml:8: `join.on` must be"),
    "no keys": ('"cell"', "[]", "job.toml:8: `join.on` must be"),
    "a key of three": (
        '"cell"',
        '[\n "a",\n ["b", "c", "d"]]',
        "job.toml:10: `join.on[1]` must be",
    ),
    "band without right": (
        '"cell"',
        '{ left = "x", width = 5 }',
        "job.toml:8: `join.on.right` is missing",
    ),
    "width": (
        '"cell"',
        '{ left = "x", right = "y", width = true }',
        "job.toml:8: `join.on.width` must be a number, or for times a duration such as "
        '"5 seconds"; received true',
    ),
    "within": (
        '"10 minutes"',
        '"10 minuts"',
        "job.toml:11: `join.within` must be a duration such as '10 minutes'",
    ),
    "within a number": ('"10 minutes"', "10", "job.toml:11: `join.within` must be a duration"),
    "within negative": (
        '"10 minutes"',
        '"-1 minute"',
        "job.toml:11: `join.within` must be a duration that is not negative",
    ),
    "within reversed": (
        '"10 minutes"',
        '["1 minute", "-1 minute"]',
        "job.toml:11: `join.within` must be [lower, upper] with lower <= upper",
    ),
    "within half open, wrong": (
        '"10 minutes"',
        '["unbounded", "soon"]',
        "job.toml:11: `join.within[1]` must be a duration",
    ),
    "within three": ('"10 minutes"', '["1 s", "2 s", "3 s"]', "job.toml:11: `join.within` must"),
    "late": (
        'within = "10 minutes"',
        'within = "10 minutes"\nlate = ["1 minute", "x"]',
        "job.toml:12: `join.late[1]` must be a duration",
    ),
    "idle_after": (
        'within = "10 minutes"',
        'within = "10 minutes"\nidle_after = 10',
        "job.toml:12: `join.idle_after` must be a duration",
    ),
    "max_ahead": (
        'within = "10 minutes"',
        'within = "10 minutes"\nmax_ahead = ["1 day"]',
        'job.toml:12: `join.max_ahead` must be "1 minute", or one for each side',
    ),
    "how": (
        'on = "cell"',
        'on = "cell"\nhow = "cross"',
        'job.toml:9: `join.how` must be one of: "',
    ),
    "balance": (
        'on = "cell"',
        'on = "cell"\nbalance = "hahs"',
        'job.toml:9: `join.balance` must be one of: "auto", "fastjoin", "lsstream", "none", '
        '"hash", "contrand", "broadcast" '
        '(did you mean "hash"?); received "hahs"',
    ),
    "strategy": (
        'on = "cell"',
        'on = "cell"\nstrategy = "fastjion"',
        'job.toml:9: `join.strategy` must be one of: "auto", "fastjoin", "lsstream", "none", '
        '"hash", "contrand", "broadcast" '
        '(did you mean "fastjoin"?); received "fastjion"',
    ),
    "strategy a number": (
        'on = "cell"',
        'on = "cell"\nstrategy = 7',
        "job.toml:9: `join.strategy` must be a name, or a table such as",
    ),
    "strategy without name": (
        'on = "cell"',
        'on = "cell"\nstrategy = { groups = 7 }',
        "job.toml:9: `join.strategy.strategy` is missing: one of: auto, fastjoin",
    ),
    "strategy and balance": (
        'on = "cell"',
        'on = "cell"\nstrategy = "hash"\nbalance = "auto"',
        "job.toml:10: `join.balance` must be left out where `strategy` is given; received",
    ),
    "time and left_time": (
        'right_time = "b"',
        'time = "b"',
        "job.toml:10: `join.time` must be left out where left_time says it, too; received",
    ),
    "three times": (
        'left_time = "a"\nright_time = "b"',
        'time = ["a", "b", "c"]',
        "job.toml:9: `join.time` must be an event-time column for both sides, or one for each",
    ),
    "a time that is none": (
        'left_time = "a"\nright_time = "b"',
        "time = 5",
        "job.toml:9: `join.time` must be an event-time column for both sides, or one for each",
    ),
    "balance groups": (
        'on = "cell"',
        'on = "cell"\nbalance = { strategy = "contrand", groups = 0 }',
        "job.toml:9: `join.balance.groups` must be a whole number of at least 1; received 0",
    ),
    "balance parameter": (
        'on = "cell"',
        'on = "cell"\nbalance = { strategy = "hash", groups = 2 }',
        "job.toml:9: unknown key `join.balance.groups`",
    ),
    "instances": (
        'on = "cell"',
        'on = "cell"\ninstances = 0',
        "job.toml:9: `join.instances` must be a whole number from 1 to 65536; received 0",
    ),
    "suffixes": (
        'on = "cell"',
        'on = "cell"\nsuffixes = ["_l"]',
        "job.toml:9: `join.suffixes` must be two texts",
    ),
    "null times": (
        'on = "cell"',
        'on = "cell"\non_null_time = "keep"',
        'job.toml:9: `join.on_null_time` must be one of: "error", "drop"; received "keep"',
    ),
    "path of files": ('path = "in/orders"\n', "", "job.toml:2: `left.path` is missing"),
    "path of a file sink": ('"noop"', '"parquet"', "job.toml:12: `sink.path` is missing"),
    "memory": ('"noop"', '"memory"', "job.toml:13: `sink.format` must be a sink that outlives"),
    "options": (
        "[right]",
        "[left.options]\na = [1]\n[right]",
        "job.toml:6: `left.options.a` must be a text, a number, true or false; received [1]",
    ),
    "conf": (
        "[sink]",
        "[spark.conf]\nui.enabled = false\n[sink]",
        "job.toml:13: `ui.enabled` is not a Spark setting",
    ),
    "master in conf": (
        "[sink]",
        '[spark.conf]\n"spark.master" = "local"\n[sink]',
        "job.toml:13: `spark.master` is given as `master` in [spark]",
    ),
    "two triggers": (
        "[sink]",
        "[trigger]\nonce = true\navailable_now = true\n[sink]",
        "job.toml:12: `trigger` must be only one of",
    ),
    "trigger off": (
        "[sink]",
        "[trigger]\nonce = false\n[sink]",
        "job.toml:13: `trigger.once` must be true, or left out; received false",
    ),
    "interval": (
        "[sink]",
        "[trigger]\nprocessing_time = 5\n[sink]",
        "job.toml:13: `trigger.processing_time` must be a duration such as '10 minutes'; received",
    ),
    "syntax": ('"cell"', "cell", "job.toml:8: not valid TOML: Invalid value (column 6)"),
    "unended": ('"noop"\n', '"""noop', "job.toml:13: not valid TOML: Unterminated string"),
    "twice": ('on = "cell"', 'on = "cell"\non = "k"', "job.toml:9: not valid TOML: Cannot over"),
}


@pytest.mark.parametrize(("old", "new", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_name_line_key_value_and_choices(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in JOB
    message = refusal(tmp_path, JOB.replace(old, new))
    assert message.startswith(told)
    assert "\n" not in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match=r"none\.toml: cannot be read: No such file"):
        load_jobs(tmp_path / "none.toml")
    with pytest.raises(JobFileError, match="cannot be read"):
        load_jobs(tmp_path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(JobFileError, match="not a text in UTF-8"):
        load_jobs(tmp_path / "job.toml")


@pytest.mark.parametrize(
    ("argument", "place"),
    [
        ("on", "job.toml:8: `join.on` must be"),
        ("width", "job.toml:8: `join.on` must be"),
        ("left", "job.toml:2: `left` must be"),
        ("partitionBy", "job.toml:12: `sink.partition_by` must be"),
        ("checkpointLocation", "job.toml:1: `checkpoint` must be"),
        ("unheard-of", "job.toml: `unheard-of` must be"),
    ],
)
def test_what_the_engine_refuses_is_told_by_line(tmp_path: Path, argument: str, place: str) -> None:
    job, refused = load(tmp_path, JOB), ArgumentError(argument, "x", "better")
    in_sink = argument in {"partitionBy", "checkpointLocation", "unheard-of"}
    error = job.blame_sink(refused) if in_sink else job.blame(job.last, refused)
    assert str(error).replace(f"{tmp_path}/", "").startswith(place)
    assert "better" in str(error) and "x" in str(error)


@pytest.mark.parametrize("key", ["balance", "strategy"])
def test_a_pin_is_refused_where_it_stands(tmp_path: Path, key: str) -> None:
    pinned = f'[join.{key}]\nstrategy = "auto"\npin = {{ "42" = 99 }}\n[sink]'
    job = load(tmp_path, JOB.replace("[sink]", pinned))
    error = job.blame(job.last, ArgumentError("pin", {"42": 99}, "instances from 0 to 3"))
    told = str(error).replace(f"{tmp_path}/", "")
    assert told.startswith(f"job.toml:14: `join.{key}.pin` must be instances from 0 to 3")


def test_plans_of_spark_are_left_out(tmp_path: Path) -> None:
    error = ArgumentError("where", "x > 1", "a condition ([NO_COLUMN] x;\n'Filter\n+- Plan)")
    job = load(tmp_path, JOB)
    assert "Plan" not in str(job.blame(job.last, error))


NASTY = '''
# a = 1
a = 1 # [b]
"b c" = "# [not.a.table] \\" = 3"
'd.e' = \'[[x]]\'
f.g."h i" = [ # comment ]
  1, [2, "]"], # , }
  { j = "}", k.l = [3,
     4] },
]
m = """
[n]
o = 1 \\"""
""""
p = \'\'\'
[q]
\'\'\'
r = 1979-05-27T07:32:00Z
[s]
t = { }
[s.u . "v.w"]
x = [ ]
[[y]]
z = 1
[[y]]
z = 2
[[y.aa]]
bb = true
[y.aa.cc]
dd = "é"
[[y.aa]]
'''


def leaves(value: object, path: lines.Path = ()) -> set[lines.Path]:
    if isinstance(value, dict) and value:
        return set().union(*(leaves(v, (*path, k)) for k, v in value.items()))
    if isinstance(value, list) and value:
        return set().union(*(leaves(v, (*path, i)) for i, v in enumerate(value)))
    return {path}


@pytest.mark.parametrize("text", [NASTY, NASTY.replace("\n", "\r\n"), EXAMPLE.read_text()])
def test_every_key_has_its_line(text: str) -> None:
    found = key_lines(text)
    assert leaves(tomllib.loads(text)) <= set(found)


def test_lines_are_right() -> None:
    found = key_lines(NASTY)
    rows = NASTY.split("\n")
    for path, start in {
        ("a",): "a = 1",
        ("b c",): '"b c"',
        ("d.e",): "'d.e'",
        ("f", "g", "h i", 2, "k", "l", 1): "     4]",
        ("m",): 'm = """',
        ("r",): "r = ",
        ("s", "u", "v.w", "x"): "x = ",
        ("y", 1, "z"): "z = 2",
        ("y", 1, "aa", 0, "cc", "dd"): "dd",
    }.items():
        assert rows[found[path] - 1].startswith(start), path
    assert ("n",) not in found and ("q",) not in found


def test_what_has_no_line_has_that_of_its_surroundings() -> None:
    found = key_lines("[a]\nb = 1\n")
    assert line_of(found, ("a", "b", "c")) == 2
    assert line_of(found, ("a", "z")) == 1
    assert line_of(found, ("z",)) is None


@pytest.mark.parametrize("module", [lines, job_text])
def test_docstrings(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
