"""From a document to jobs: tables are read, names are looked up, and what hangs together is put
together. What is wrong is noted, and left out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import product, takewhile
from typing import Any

from skewless.jobfile.description import (
    FILE,
    INPUT,
    JOB,
    JOIN,
    NAMED_TABLE,
    SINK,
    SPARK,
    STEPS,
    TRIGGER,
)
from skewless.jobfile.lines import Path
from skewless.jobfile.model import Job, JobFile, Sink, Source, Step, format_meant
from skewless.jobfile.options import check_kafka, check_own_options
from skewless.jobfile.reading import Section
from skewless.jobfile.rules import check_step
from skewless.jobfile.text import JobText, as_meant, is_slip, meant
from skewless.state.output import EXISTING
from skewless.state.publish import FILE_FORMATS

TRIGGER_ARGUMENTS = {
    "processing_time": "processingTime",
    "available_now": "availableNow",
    "once": "once",
}
JOIN_MISSING = "a table [join] with `on`, `left_time`, `right_time` and `within`"
OF_ONE_JOB = ("name", "checkpoint", "sink", "trigger")
COLUMN_FORMATS = ("parquet", "orc", "csv", "json")
NEITHER = ("where", "select")


def assemble(text: JobText, document: dict[str, Any]) -> JobFile:
    """All that a document describes."""
    file = Section(text, (), document, FILE)
    sources = _sources(file)
    steps = _steps(file, sources)
    ordered = _in_order(file, sources, steps)
    spark = Section(text, ("spark",), file.get("spark", {}), SPARK)
    jobs = tuple(_jobs(file, sources, ordered))
    _check_apart(jobs)
    _warn_of_unused(text, jobs, sources, steps)
    return JobFile(text, jobs, sources, ordered, spark.get("master"), spark.get("conf", {}))


# Inputs ------------------------------------------------------------------------------------------


def _sources(file: Section) -> dict[str, Source]:
    found: dict[str, Source] = {}
    is_short = "steps" not in file or "join" in file
    for side in ("left", "right"):
        if side in file:
            found[side] = _source(file, side, (side,), file.get(side, {}))
        elif is_short:
            file.note_missing(side, NAMED_TABLE.format(side))
    for name, raw in file.get("inputs", {}).items():
        path = ("inputs", name)
        if name in found:
            file.text.note(path, f"there are two inputs `{name}`")
        found[name] = _source(file, name, path, raw)
    return found


def _source(file: Section, name: str, path: Path, raw: Any) -> Source:
    read = Section(file.text, path, raw, INPUT)
    kind, columns = format_meant(read.get("format")), read.get("read") == "columns"
    if columns and kind and kind not in COLUMN_FORMATS:
        read.refuse("read", f'"spark" for {kind}; as columns are read: {", ".join(COLUMN_FORMATS)}')
    if kind == "kafka" and not columns:
        check_kafka(read, read.get("options", {}), reads=True)
    in_files = kind in FILE_FORMATS and "path" not in read.get("options", {})
    if "path" not in read and (columns or in_files):
        read.note_missing("path", "the folder that the files come to")
    return Source(
        name, path, read.get("format", ""), read.get("path"), read.get("schema"), columns,
        read.get("options", {}), read.get("where"), tuple(read.get("select", ())),
    )  # fmt: skip


# Steps -------------------------------------------------------------------------------------------


def _steps(file: Section, sources: dict[str, Source]) -> dict[str, Step]:
    found: dict[str, Step] = {}
    if "join" in file:
        read = Section(file.text, ("join",), file.get("join", {}), JOIN)
        check_step("join", read, ("left", "right"))
        found["join"] = _step("join", ("join",), "join", ("left", "right"), read)
    elif "steps" not in file:
        file.note_missing("join", JOIN_MISSING)
    for name, raw in file.get("steps", {}).items():
        path = ("steps", name)
        if name in found or name in sources:
            file.text.note(path, f"`{name}` is the name of an input or step already")
            continue
        operator, written = _operator(file.text, path, raw)
        if operator is None:
            continue
        read = Section(file.text, path, written, STEPS[operator])
        inputs = read.get(operator, ())
        check_step(operator, read, inputs)
        found[name] = _step(name, path, operator, inputs, read)
    return found


def _operator(text: JobText, path: Path, raw: Any) -> tuple[str | None, Any]:
    """What a step does: it has one key that says so. A slip in that is told, and put right in what
    is returned."""
    if not isinstance(raw, dict):
        text.refuse(path, raw, f"a table: [steps.{path[-1]}]")
        return None, raw
    given = [key for key in STEPS if key in raw]
    if len(given) == 1:
        return given[0], raw
    choices = ", ".join(STEPS)
    if given:
        text.note((*path, given[1]), f"a step does one thing; here are {' and '.join(given)}")
        return None, raw
    near = next((meant(key, tuple(STEPS)) for key in raw if meant(key, tuple(STEPS))), "")
    text.note(path, f"the step `{path[-1]}` must say what it does, by one of: {choices}{near}")
    for key, operator in product(raw, STEPS):
        if is_slip(key, operator):
            text.take_as((*path, key), (*path, operator))
            return operator, {operator if k == key else k: v for k, v in raw.items()}
    return None, raw


def _step(name: str, path: Path, operator: str, inputs: tuple[str, ...], read: Section) -> Step:
    own = {key: value for key, value in read.values.items() if key not in (operator, *NEITHER)}
    shape = read.get("where"), tuple(read.get("select", ()))
    return Step(name, path, operator, inputs, own, *shape)


def _in_order(file: Section, sources: dict[str, Source], steps: dict[str, Step]) -> dict[str, Step]:
    """Steps after those that they take. Names that are not there and circles are noted."""
    text = file.text
    known = tuple(dict.fromkeys((*sources, *steps, *file.get("steps", {}))))
    steps = {step.name: _with_inputs(text, step, known) for step in steps.values()}
    for step in steps.values():
        _check_taken(text, step, steps)
    ordered: dict[str, Step] = {}
    while len(ordered) < len(steps):
        ready = [s for s in steps.values() if s.name not in ordered
                 and all(n not in steps or n in ordered for n in s.inputs)]  # fmt: skip
        if not ready:
            circle = [name for name in steps if name not in ordered]
            place = steps[circle[0]]
            text.note(place.path_in_file, f"steps go round in a circle: {', '.join(circle)}")
            return ordered | steps  # their columns are looked at nevertheless
        ordered |= {step.name: step for step in ready}
    return ordered


def _with_inputs(text: JobText, step: Step, known: Collection[str]) -> Step:
    """Notes inputs that are not there. A slip is read as what was meant, so that all that hangs on
    it is looked at, too."""
    if step.path_in_file == ("join",):
        return step  # that there is no [left] was told
    earlier = list(takewhile(lambda name: name != step.name, known))  # of these comes no circle
    for number, name in enumerate(step.inputs):
        if name not in known:
            there = f"there is: {', '.join(known) or 'none'}"
            message = f"no input or step is called `{name}`{meant(name, known)}; {there}"
            text.note(step.input_path(number), message)
    inputs = (name if name in known else as_meant(name, earlier) for name in step.inputs)
    return replace(step, inputs=tuple(inputs))


def _check_taken(text: JobText, step: Step, steps: dict[str, Step]) -> None:
    """What cannot be taken further, and what there is no need to say of results."""
    results = [_is_result(name, steps) for name in step.inputs]
    for number, name in enumerate(step.inputs):
        below = steps.get(name)
        if below is not None and below.operator == "aggregate" and "window" not in below.arguments:
            message = (
                f"`{name}` has no `window`: its totals change with every batch, so that no other "
                "step can take them"
            )
            text.note(step.input_path(number), message)
    if step.is_operator and results and all(results):
        for key in ("late", "idle_after", "max_ahead"):
            if key in step.arguments:
                accepted = "left out: results of other steps bring their watermark along"
                text.refuse((*step.path_in_file, key), step.arguments[key], accepted)


def _is_result(name: str, steps: dict[str, Step], seen: tuple[str, ...] = ()) -> bool:
    """Whether a name means what an operator gives, shaped or not."""
    step = steps.get(name)
    if step is None or name in seen:
        return False
    return step.is_operator or any(_is_result(n, steps, (*seen, name)) for n in step.inputs)


# Jobs --------------------------------------------------------------------------------------------


def _jobs(file: Section, sources: dict[str, Source], steps: dict[str, Step]) -> Iterator[Job]:
    unread = [name for name in file.get("steps", {}) if name not in steps]
    if "jobs" not in file:
        for key in ("checkpoint", "sink"):
            if key not in file:
                wanted = NAMED_TABLE.format(key) if key == "sink" else FILE.key(key).wanted
                file.note_missing(key, wanted)
        found = _job(file, file.get("name"), sources, steps, unread)
        if found is not None:
            yield found
        return
    for key in OF_ONE_JOB:
        if key in file:
            file.text.note((key,), f"`{key}` belongs into each job where there are [jobs]")
    for name, raw in file.get("jobs", {}).items():
        job = Section(file.text, ("jobs", name), raw, JOB)
        found = _job(job, name, sources, steps, unread)
        if found is not None:
            yield found


def _job(
    job: Section,
    name: str | None,
    sources: dict[str, Source],
    steps: dict[str, Step],
    unread: Collection[str],
) -> Job | None:
    trigger = _trigger(Section(job.text, (*job.path, "trigger"), job.get("trigger", {}), TRIGGER))
    if "sink" not in job.values:
        return None
    read = Section(job.text, (*job.path, "sink"), job.get("sink"), SINK)
    sink = _sink(read)
    step = _written(read, steps, unread)
    if step is None:
        return None
    if not _is_result(step, steps):
        message = f"`{step}` takes no operator: a job needs one, such as a join or an aggregation"
        job.text.note(steps[step].path_in_file, message)
    _check_mode(read, steps[step])
    used = _used(step, steps)
    return Job(
        job.text,
        job.path,
        name,
        job.get("checkpoint", ""),
        step,
        tuple(source for source in sources.values() if source.name in used),
        tuple(step for step in steps.values() if step.name in used),
        sink,
        trigger,
    )


def _check_apart(jobs: tuple[Job, ...]) -> None:
    """Queries share no state, and no output folder that each would take for its own."""
    states: dict[str, Job] = {}
    outputs: dict[str, Job] = {}
    for job in jobs:
        own, sink = (*job.path_in_file, "checkpoint"), job.sink
        other = states.setdefault(job.checkpoint.rstrip("/"), job)
        if job.checkpoint and other is not job:
            job.text.refuse(own, job.checkpoint, f"another folder than that of `{other.name}`")
        if sink.path is None or format_meant(sink.format) not in FILE_FORMATS:
            continue
        other = outputs.setdefault(sink.path.rstrip("/"), job)
        if other is not job and EXISTING not in map(str.lower, sink.options):
            accepted = f'another folder than that of `{other.name}`, or with option "{EXISTING}"'
            job.text.refuse((*job.path_in_file, "sink", "path"), sink.path, accepted)


def _written(sink: Section, steps: dict[str, Step], unread: Collection[str]) -> str | None:
    """The step that a sink takes: the one it names, or the only one that no other takes. Of those
    that are `unread` it was told what is wrong with them."""
    given = sink.get("from")
    if given is not None:
        if given in steps:
            return str(given)
        if given in unread:
            return None
        sink.refuse("from", f"the name of a step: {', '.join(steps)}{meant(given, tuple(steps))}")
        near = as_meant(given, tuple(steps))
        return near if near in steps else None
    taken = {name for step in steps.values() for name in step.inputs}
    last = [step.name for step in steps.values() if step.name not in taken]
    if len(last) == 1:
        return last[0]
    if last and "from" not in sink:
        sink.note_missing("from", f"several steps could be written: {', '.join(last)}")
    return None


def _used(name: str, steps: dict[str, Step]) -> set[str]:
    """A step, and all that it is made of."""
    found, ahead = set[str](), [name]
    while ahead:
        now = ahead.pop()
        if now not in found:
            found.add(now)
            ahead += steps[now].inputs if now in steps else ()
    return found


def _sink(sink: Section) -> Sink:
    kind = format_meant(sink.get("format"))
    if "format" not in sink and "table" not in sink:
        sink.note_missing("format", SINK.key("format").kind.accepted)
    if kind == "memory":
        sink.refuse("format", "a sink that outlives the command; memory does not")
    if kind in FILE_FORMATS and not {"path", "table"} & set(sink.raw):
        sink.note_missing("path", f"the output folder of the {kind} files")
    if "table" in sink and "path" in sink:
        sink.refuse("path", "left out where there is a `table`")
    columns = tuple(sink.get("partition_by", ()))
    options = sink.get("options", {})
    check_own_options(sink, options)
    if kind == "kafka":
        check_kafka(sink, options, reads=False)
    return Sink(
        sink.get("format"), sink.get("path"), sink.get("table"), sink.get("mode"), options, columns
    )


def _check_mode(sink: Section, step: Step) -> None:
    changes = step.operator == "aggregate" and "window" not in step.arguments
    if changes and sink.get("mode") == "append":
        sink.refuse("mode", '"update", as there is no `window` that could close')


def _trigger(trigger: Section) -> dict[str, Any]:
    """The keyword argument of `writeStream.trigger`; empty for one batch after another."""
    if len([key for key in TRIGGER_ARGUMENTS if key in trigger]) > 1:
        accepted = f"only one of: {', '.join(TRIGGER_ARGUMENTS)}"
        trigger.text.refuse(trigger.path, trigger.written, accepted)
    return {TRIGGER_ARGUMENTS[key]: value for key, value in trigger.values.items()}


def _warn_of_unused(
    text: JobText, jobs: tuple[Job, ...], sources: dict[str, Source], steps: dict[str, Step]
) -> None:
    if text.errors:
        return  # what is unused now may be what was meant
    used = {source.name for job in jobs for source in job.sources}
    used |= {step.name for job in jobs for step in job.steps}
    paths = {name: source.path_in_file for name, source in sources.items()}
    paths |= {name: step.path_in_file for name, step in steps.items()}
    for name, path in paths.items():
        if name not in used:
            kind = "input" if name in sources else "step"
            text.note(path, f"no job uses the {kind} `{name}`", "warning")
