"""Another commit beside this one: ``python -m benchmarks.beside COMMIT BENCHMARK [OPTIONS]``.

Runs a benchmark with `--json` in a checkout of the commit and here, by turns, so that both meet the
same machine, and prints every rate and time of both with their ratio: the median over all rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parents[1]
RATES, TIMES = ("rows_per_s", "_per_s"), ("_ms", "seconds", "_s")

app = typer.Typer(add_completion=False)


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def main(
    context: typer.Context,
    commit: str = typer.Argument(help="What to compare with."),
    benchmark: str = typer.Argument(help="A module of `benchmarks`: native, three_way, …"),
    rounds: int = typer.Option(2, min=1, help="How often each is run."),
) -> None:
    """Compare a benchmark of this tree with that of another commit, run by turns."""
    console = Console(stderr=True)
    found: dict[str, dict[str, list[float]]] = {"before": {}, "now": {}}
    with tempfile.TemporaryDirectory(prefix="skewless-beside-") as folder:
        _check_out(commit, Path(folder))
        for number in range(rounds):
            for name, tree in (("before", Path(folder)), ("now", HERE)):
                console.print(f"round {number + 1} of {rounds}: {name}")
                result = _run(tree, benchmark, context.args)
                for path, value in _figures(result):
                    found[name].setdefault(path, []).append(value)
    Console().print(_table(found))


def _check_out(commit: str, folder: Path) -> None:
    archive = folder / "tree.tar"
    with open(archive, "wb") as out:
        subprocess.run(["git", "archive", commit], cwd=HERE, stdout=out, check=True)
    with tarfile.open(archive) as tree:
        tree.extractall(folder, filter="data")


def _run(tree: Path, benchmark: str, options: list[str]) -> Any:
    """What a benchmark prints, with the package of its own tree, in Spark's workers too."""
    environment = os.environ | {
        "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", *options, "--json"]
    data = ["--data", str(HERE / "benchmarks" / ".data")]
    done = subprocess.run(
        [*command, *data], cwd=tree, env=environment, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def _figures(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All rates and times, by where they stand."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _figures(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _figures(inner, f"{path}[{number}]")
    elif isinstance(value, int | float) and path.endswith((*RATES, *TIMES)):
        yield path, float(value)


def _table(found: dict[str, dict[str, list[float]]]) -> Table:
    table = Table("", "before", "now", "now / before")
    for path in (p for p in found["now"] if p in found["before"]):
        before, now = (statistics.median(found[name][path]) for name in ("before", "now"))
        if before > 0:
            table.add_row(path, f"{before:,.1f}", f"{now:,.1f}", f"{now / before:.3f}")
    return table


if __name__ == "__main__":
    app()
