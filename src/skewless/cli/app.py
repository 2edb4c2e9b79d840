"""The commands and their help. What they need is imported when they run: help is instant."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from skewless.cli.failures import explain
from skewless.monitor.starting import HOST, METRICS_PORT, PORT

TRACEBACK = "SKEWLESS_TRACEBACK"
INTERRUPTED = 130

CONTINUES = "Running the same command again continues where it stopped."


class Guarded(TyperGroup):
    """Every command's errors in one place: a red line instead of a traceback, and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _stderr().print(f"Stopped. {CONTINUES}", markup=False)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            explained = explain(error)
            if explained is None or os.environ.get(TRACEBACK, "0") not in ("", "0"):
                raise
            message, code = explained
            message = "\n".join([message, *getattr(error, "__notes__", ())])
            _stderr().print(f"error: {message}", style="red", markup=False, soft_wrap=True)
            raise typer.Exit(code) from None


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)


def _want_traceback(value: bool) -> bool:
    if value:
        os.environ[TRACEBACK] = "1"
    return value


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")
]
Traceback = Annotated[
    bool,
    typer.Option(
        "--traceback",
        callback=_want_traceback,
        help=f"Show where in the code an error came from (also: {TRACEBACK}=1).",
    ),
]

app = typer.Typer(
    cls=Guarded,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Stream joins on Spark that stay fast when the keys are skewed.",
    epilog="Begin with: skewless demo",
)


def _print_version(value: bool) -> None:
    if value:
        from skewless import __version__

        typer.echo(f"skewless {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    batches: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="How many micro-batches.")
    ] = 16,
    rows: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=2,
            max=100_000_000,
            help="Rows per batch, one in ten an order; 400,000 are an hour of the city.",
        ),
    ] = 200_000,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder for all the demo writes.")
    ] = Path("demo-output"),
    drift: Annotated[
        float,
        typer.Option(
            metavar="X", min=0, max=1, help="How far the hot spots travel in a day, 0 to 1."
        ),
    ] = 0.0,
    event: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=0,
            max=0.5,
            help="From batch 5 on, this share of all rows is in one cell: a concert.",
        ),
    ] = 0.03,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Another seed is another city.")
    ] = 7,
    instances: Annotated[
        int, typer.Option(metavar="N", min=1, max=65_536, help="Tasks per batch.")
    ] = 8,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Whether Spark's own join takes part.")
    ] = True,
    dashboard: Annotated[
        bool,
        typer.Option("--dashboard", help="Show Hash and Auto in the browser, too, while they run."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what an earlier demo wrote, and start anew.")
    ] = False,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Join the orders and taxi tracks of a simulated city in three ways, side by side, and watch.

    Writes the two streams as parquet files, as skewed as published for a real city (20 % of the
    cells hold 80 % of the orders), and joins them on the grid cell, two minutes apart at most, on
    Spark in this process: by Spark's own join, by `sk.join` with every key in one place (Hash), and
    by `sk.join` as it comes (Auto). Each batch is done by one after the other.

    In batch 5 a concert begins in one cell, which becomes too heavy for any one task. Watch
    `busiest/mean`: Auto splits the cell. At the end the results are compared; if they differ, the
    exit code is 1.

    Ctrl-C stops it; the same command again continues, and with more --batches it goes on after its
    end. Spark's own messages are in spark.log in the output folder.
    """
    from skewless.cli.demo.folder import Plan
    from skewless.cli.demo.run import DIFFERENT, Options, run_demo
    from skewless.cli.display import make_console

    plan = Plan(batches, rows, drift, seed, event)
    options = Options(instances, spark, dashboard, fresh)
    console = make_console(stderr=as_json)
    exit_code, summary = run_demo(plan, output, options, console)
    _finish(exit_code, summary, as_json, console, stopped=exit_code != DIFFERENT)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The file that describes it.")],
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB]...", help="Which of several jobs; all, if none is named."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Where Spark's own messages go; - is standard error. Default: a temporary file, "
            "named when something fails.",
        ),
    ] = None,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Run what is described in a TOML file: the smallest is a join of two streams.

    ```toml
    checkpoint = "out/checkpoint"       # the state; a folder for each query
    name = "orders-and-tracks"          # optional

    [left]                              # [right] has the same keys
    format = "parquet"                  # any source Spark can stream from
    path = "in/orders"
    schema = "id BIGINT, cell BIGINT, ordered_at TIMESTAMP"
    options = { maxFilesPerTrigger = 1 }
    select = ["id", "cell", "ordered_at"]    # optional: SQL expressions

    [join]
    on = "cell"                         # or ["a", "b"], [["a_l", "a_r"]],
                                        # { left="x", right="y", width=5 }
    left_time = "ordered_at"
    right_time = "seen_at"
    within = "10 minutes"               # or ["-1 minute", "10 minutes"],
                                        # or "unbounded"
    late = "1 minute"                   # from here on all is optional
    idle_after = "10 minutes"           # a silent side holds time back no longer
    max_ahead = "1 day"                 # rows from the future are put aside
    where = "speed_kmh < 30"
    balance = "auto"                    # "fastjoin", "lsstream", "none", "hash",
                                        # "broadcast", or with its settings
                                        # { strategy="contrand", groups=4 }
    instances = 8
    slots = 128
    suffixes = ["", "_right"]
    on_null_time = "drop"               # or "error"

    [sink]
    format = "parquet"                  # json, csv, orc, console, kafka, ...
    path = "out/joined"
    partition_by = ["passengers"]       # optional

    [trigger]                           # optional: without, batch on batch
    processing_time = "1 second"        # or available_now = true, once = true

    [spark]                             # optional
    master = "local[*]"
    conf = { "spark.driver.memory" = "4g" }
    ```

    All operators, several of them in one query, and several queries in one file: docs/jobs.md, and
    `skewless new`, which asks and writes a file. `${NAME}` and `${NAME:-default}` are environment
    variables.

    Relative paths, in the file too, are relative to the current folder. The form of the file is
    checked before Spark starts, and columns by Spark; `skewless validate` checks both without it.

    Ctrl-C stops it; the same command again continues from the checkpoint, exactly once.
    """
    from skewless.cli.display import make_console
    from skewless.cli.run import run_jobs, spark_log, stdout_to_stderr
    from skewless.jobfile import load_jobs

    described = load_jobs(file, jobs or ())
    console = make_console(stderr=as_json)
    with spark_log(log) as log_file, stdout_to_stderr(as_json):
        exit_code, summary = run_jobs(described, log_file, console)
    _finish(exit_code, summary, as_json, console)


@app.command()
def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The job file to check.")],
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Check a job file without Spark, and tell all that is wrong with it.

    - Keys and values, names of inputs and steps, environment variables.

    - Columns and types, as far as the file has schemas: keys that are not there or cannot be
      compared, times that are no timestamps, names in SQL expressions. What only Spark can know
      is left for `run`.

    - Warnings: what works, and is seldom meant.

    The exit code is 0 if `run` can try it, and 1 if it cannot. With --json: `{"file", "valid",
    "problems": [{"line", "key", "message", "severity"}]}`.
    """
    from skewless.cli.validate import print_problems, problems_json
    from skewless.jobfile.validation import validate as find_problems

    problems = find_problems(file)
    if as_json:
        typer.echo(json.dumps(problems_json(str(file), problems)))
    else:
        print_problems(str(file), problems)
    if any(problem.severity == "error" for problem in problems):
        raise typer.Exit(1)


@app.command()
def new(
    file: Annotated[
        Path, typer.Argument(metavar="[FILE.toml]", help="The job file to write.")
    ] = Path("job.toml"),
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is there already.")
    ] = False,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Write a job file by asking: what to do, with which streams, and where the result goes.

    Enter takes what is proposed. Columns and types are taken from parquet files, where there are
    any. The file is checked as `skewless validate` does. Answers can be piped in.
    """
    from skewless.cli.new import ask_and_write
    from skewless.cli.validate import print_problems, problems_json
    from skewless.jobfile.validation import validate as find_problems

    ask_and_write(file, force=force, quiet=as_json)
    problems = find_problems(file)
    if as_json:
        typer.echo(json.dumps(problems_json(str(file), problems)))
    else:
        print_problems(str(file), problems)
        typer.echo(f"Run it: skewless run {file}")


@app.command()
def schema(as_json: Json = False, traceback: Traceback = False) -> None:
    """Print the JSON schema of job files, for editors.

    `skewless schema > skewless.schema.json`; then editors that know TOML (Taplo, Even Better TOML)
    complete and check files that begin with the line `#:schema ./skewless.schema.json`.
    With or without --json it is JSON.
    """
    from skewless.jobfile.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=None if as_json else 2, ensure_ascii=False))


def _finish(
    exit_code: int, summary: dict[str, Any], as_json: bool, console: Console, stopped: bool = True
) -> None:
    if as_json:
        typer.echo(json.dumps(summary))
    if exit_code:
        if stopped:
            console.print(f"Stopped. {CONTINUES}", markup=False)
        raise typer.Exit(exit_code)


@app.command()
def inspect(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CKPT", help="The checkpoint folder of a query, or its URI.")
    ],
    last: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many batches to show and sum up.")
    ] = 20,
    decisions: Annotated[
        bool,
        typer.Option("--decisions", help="Show what was moved, split and refused, and why."),
    ] = False,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Show what a query is and how its batches went, running or not.

    - Per batch: rows of each side, late ones (dropped), nulls (left out), matches, time by phase,
      rows and bytes of state, and the time of the busiest instance over the mean (1.00 is even).

    - Per instance: the time it worked and the pairs it compared.

    - Per key: the heaviest ones by value, with their share of the rows.

    - With --decisions: every change of balance that was proposed, and what became of it.

    With --json: `{"query": {...}, "batches": [...]}`, decisions and figures per slot included.
    """
    from skewless.cli.display import make_console
    from skewless.cli.inspect import show
    from skewless.history import describe_query, history

    query, reports = describe_query(checkpoint), history(checkpoint)
    if as_json:
        batches = [report.to_json() for report in reports[-last:]]
        typer.echo(json.dumps({"query": query, "batches": batches}))
    else:
        show(query, reports, last, make_console(), decisions=decisions)


Checkpoints = Annotated[
    list[str],
    typer.Argument(metavar="CKPT", help="Checkpoint folders of queries, or their URIs."),
]
Host = Annotated[
    str,
    typer.Option(metavar="HOST", help="The address to listen at; this machine only by default."),
]


@app.command()
def dashboard(
    checkpoints: Checkpoints,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65_535, help="The port; 0 takes any free one.")
    ] = PORT,
    host: Host = HOST,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="SKEWLESS_DASHBOARD_TOKEN",
            help="What one has to know to see it; made and printed where other machines can reach "
            "it and none is given.",
        ),
    ] = None,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Show queries on a local web page, live, running or not.

    - Throughput, time by phase, watermark lag, state, late and dropped rows.

    - The work of every instance in every batch, the heaviest keys, every decision and why; where a
      key is, and since when.

    It only reads: the histories and commits in the checkpoints, wherever they lie. The queries need
    not run. Ctrl-C ends it.

    Needs: pip install "skewless[dashboard]"
    """
    from skewless.monitor.starting import dashboard as show

    _serve(show(*checkpoints, port=port, host=host, token=token), as_json)


@app.command()
def report(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CKPT", help="The checkpoint folder of a query, or its URI.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = Path("report.html"),
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Write all that the dashboard shows of a query into one page.

    The page is one file with everything in it: it opens without a server or a network, and can be
    sent around. It names the heaviest keys, unless the query hides them.
    """
    from skewless.monitor.starting import report as write

    batches = write(checkpoint, output)
    if as_json:
        typer.echo(json.dumps({"page": str(output), "batches": batches}))
    else:
        typer.echo(f"{output}: {batches:,} batches")


@app.command()
def metrics(
    checkpoints: Checkpoints,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65_535, help="The port; 0 takes any free one.")
    ] = METRICS_PORT,
    host: Host = HOST,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Tell Prometheus how queries are doing, from their checkpoints.

    It only reads the histories in the checkpoints, in a process of its own. Counters begin with the
    last batch that is there. Ctrl-C ends it. An example board for Grafana: docs/grafana.json.

    Needs: pip install "skewless[metrics]"
    """
    from skewless.monitor.starting import metrics_of_checkpoints

    _serve(metrics_of_checkpoints(checkpoints, host, port), as_json)


def _serve(server: Any, as_json: bool) -> None:
    """Say where something is to be seen, and wait until it is stopped."""
    typer.echo(json.dumps({"url": server.url}) if as_json else f"{server.url}   (Ctrl-C ends it)")
    try:
        server.wait()
    except KeyboardInterrupt:
        pass  # there is nothing to continue
    finally:
        server.stop()


@app.command()
def rollback(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CKPT", help="The checkpoint folder of a query, or its URI.")
    ],
    to: Annotated[int, typer.Option(metavar="N", min=0, help="The last batch that stays.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    traceback: Traceback = False,
) -> None:
    """Go back to the state after an earlier batch.

    - Later batches are taken back: their commits, the output files that these name, and what
      Spark's own log has of them. The next start repeats them from the sources, exactly once.

    - What it would do is shown first, and asked. With --json nothing is asked: without --yes,
      nothing is done, either.

    - Refused while a query runs on the checkpoint, and for a batch whose state is no longer kept
      (option skewless.keepCommits of the query, 10 unless told otherwise).

    - If it is interrupted, the query does not start until it was repeated.
    """
    from skewless.cli.display import make_console
    from skewless.cli.rollback import run_rollback

    console = make_console(stderr=as_json)
    outcome = run_rollback(checkpoint, to, console, yes=yes, ask=not as_json)
    if as_json:
        typer.echo(json.dumps(outcome))
    else:
        console.print("Done." if outcome["done"] else "Nothing was done.")


@app.command()
def version(as_json: Json = False, traceback: Traceback = False) -> None:
    """Show the versions of skewless and of what it stands on."""
    from skewless.cli.version import versions

    found = versions()
    if as_json:
        typer.echo(json.dumps(found))
        return
    for name, number in found.items():
        typer.echo(f"{name:<10}{number or 'not found'}")


def main() -> None:
    """The entry point of the `skewless` command."""
    app(prog_name="skewless")
