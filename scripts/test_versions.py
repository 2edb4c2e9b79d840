"""Run the essential tests on other versions of Python and PySpark, each in an environment of its
own: ``make test-versions``, or ``python scripts/test_versions.py [--all] [3.12/4.2 …]``.

Environments stay in .versions/, so that a second run takes only the time of the tests. Needs no
package. A Python that is not installed is named, and the run then fails: a version that was not
tried is not supported.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / ".versions"
PYTHONS, SPARKS = ("3.11", "3.12", "3.13"), ("4.1", "4.2", "4.3")
# Every version of both, with the newest of the other.
CROSS = [("3.11", spark) for spark in SPARKS] + [(python, SPARKS[-1]) for python in PYTHONS[1:]]
ESSENTIAL = [
    "tests/arrays",
    "tests/expressions",
    "tests/files",
    "tests/spark",
    "tests/test_cli.py",
    "tests/demo/test_demo.py",
    "--deselect=tests/spark/test_docs.py",  # figures and texts are of one version
]
# Their versions are what is tried here, or follow from it.
FREE = re.compile(r"^(pyspark|py4j)==", re.I)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("pairs", nargs="*", help="Python/PySpark, as 3.12/4.3")
    asked.add_argument("--all", action="store_true", help="every Python with every PySpark")
    options = asked.parse_args()
    every = [(python, spark) for python in PYTHONS for spark in SPARKS]
    pairs = every if options.all else CROSS
    if options.pairs:
        pairs = [_pair(text) for text in options.pairs]
    outcomes = [(pair, *_tried(*pair)) for pair in pairs]
    print(f"\n{datetime.date.today()}")
    for (python, spark), passed, said in outcomes:
        print(f"Python {python}, PySpark {spark}: {'passed' if passed else 'FAILED'}: {said}")
    return 0 if all(passed for _, passed, _ in outcomes) else 1


def _pair(text: str) -> tuple[str, str]:
    python, _, spark = text.partition("/")
    if python not in PYTHONS or spark not in SPARKS:
        raise SystemExit(
            f"{text}: it must be Python/PySpark, of {', '.join(PYTHONS)} and {', '.join(SPARKS)}"
        )
    return python, spark


def _tried(python: str, spark: str) -> tuple[bool, str]:
    """Whether the tests pass on some versions, and what there is to say."""
    interpreter = _interpreter(python)
    if interpreter is None:
        return False, f"python{python} is not installed (pyenv install {python}, for instance)"
    begun = time.monotonic()
    print(f"\n== Python {python}, PySpark {spark}: {PLACE.name}/{python}-{spark}", flush=True)
    try:
        environment = _environment(interpreter, PLACE / f"{python}-{spark}", spark)
    except subprocess.CalledProcessError as error:
        return False, f"pip could not install it ({error.returncode})"
    log = environment / "tests.log"
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    command = [environment / "bin" / "python", "-m", "pytest", "-q", "-n", "2"]
    with log.open("w") as out:
        code = subprocess.run(
            [*command, "--dist", "loadfile", *ESSENTIAL],
            cwd=ROOT,
            env={**clean, "PATH": path},
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    last = log.read_text().rstrip().rpartition("\n")[2]
    print(f"{last} ({time.monotonic() - begun:.0f} s with set-up; {log.relative_to(ROOT)})")
    return code == 0, f"PySpark {_version(environment)}, {last}"


def _interpreter(python: str) -> str | None:
    """One of that version which can make environments: of the PATH, or pyenv's. A launcher may have
    nothing behind it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    kept = sorted(pyenv.glob(f"{python}.*/bin/python{python}"))
    ask = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    for name in (f"python{python}", "python3", *map(str, reversed(kept))):
        found = shutil.which(name)
        if found is None:
            continue
        said = subprocess.run([found, "-c", ask], capture_output=True, text=True, check=False)
        if said.stdout.strip() == python:
            return found
    return None


def _environment(interpreter: str, place: Path, spark: str) -> Path:
    if not (place / "bin" / "python").exists():
        subprocess.run([interpreter, "-m", "venv", str(place)], check=True)
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    constraints = place / "constraints.txt"
    constraints.write_text("\n".join(line for line in pinned if not FREE.match(line)) + "\n")
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    quiet = [*pip, "--disable-pip-version-check", "-c", str(constraints)]
    subprocess.run([*quiet, f"pyspark=={spark}.*", "-e", f"{ROOT}[dev]"], check=True)
    return place


def _version(environment: Path) -> str:
    ask = "import pyspark; print(pyspark.__version__)"
    command = [environment / "bin" / "python", "-c", ask]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
