"""The layers of the package: who may import whom, read from the source without running it.

`arrays` ← `state, placement, expressions` ← `files` ← `engine` ← `operators, monitor` ←
`spark, simulation` ← `jobfile, cli`. A new module at the top of the package fails here until it is
given its place in `MAY_IMPORT`. Inside `operators` no operator knows another, inside `placement` no
way of dividing work knows another: what they share has a module of its own (`SHARED`). But for what
is built on another (`BUILT_ON`).
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "skewless"

BOTTOM = {"errors", "durations", "conditions", "failpoints", "strategies"}
STORED = BOTTOM | {"arrays", "state"}
ENGINE = STORED | {"placement", "expressions", "files", "engine"}
RUNNERS = ENGINE | {"operators"}
ALL = RUNNERS | {
    "sql_types", "history", "kafka", "monitor", "spark", "simulation", "workloads", "jobfile",
    "cli", "__init__", "__main__",
}  # fmt: skip

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "durations": {"errors"},
    "conditions": {"errors"},
    "failpoints": {"errors"},
    "strategies": {"errors"},
    "arrays": BOTTOM - {"strategies"},
    "state": STORED - {"strategies"},
    "placement": {"errors", "durations", "arrays"},
    "expressions": {"errors", "arrays"},
    "files": {"errors", "durations", "arrays", "state", "expressions"},
    "kafka": {"errors", "failpoints", "state", "files"},
    "engine": ENGINE - {"strategies"},
    "operators": RUNNERS - {"strategies"},
    "sql_types": {"errors", "placement"},
    "history": ENGINE | {"sql_types"},
    "monitor": ENGINE - {"strategies", "files", "expressions"},
    "spark": RUNNERS | {"kafka", "history"},
    "simulation": RUNNERS,
    "workloads": {"errors", "durations"},
    "jobfile": ALL - {"cli", "spark", "__main__"},
    "cli": ALL - {"__main__"},
    "__init__": ALL - {"cli", "jobfile", "__init__", "__main__"},
    "__main__": {"cli"},
}
# Parts of a package that know no other part of it but these.
SHARED = {
    "operators": {
        "join_type",
        "epochs",
        "pair",
        "pair_condition",
        "ingesting",
        "groups",
        "naming",
        "shares",
    },
    "placement": {"strategy", "units", "figures", "places", "prices"},
}
# An asof join is a two-way join that keeps one pair of each left row.
BUILT_ON = {"operators.asof": {"two_way"}}
MAY_IMPORT_PYSPARK = {"spark", "cli"}


def modules_of(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def top_level(package: Path, file: Path) -> str:
    """The module or folder right under the package that a file belongs to."""
    return file.relative_to(package).parts[0].removesuffix(".py")


def part_of_file(package: Path, file: Path) -> str:
    """The module or folder right under that: "two_way" of operators/two_way/work.py."""
    return "/".join(file.relative_to(package).parts[1:2]).removesuffix(".py")


def parts_of_package(package: Path, file: Path) -> list[str]:
    """The dotted package that relative imports in a file start from."""
    return [package.name, *file.relative_to(package).parts[:-1]]


def absolute(name: str, level: int, parts: list[str]) -> str:
    """The full name behind `level` dots and a name, or "" if the dots lead out of the package."""
    if level == 0:
        return name
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, name] if name else base) if base else ""


def imported_by_call(node: ast.Call, parts: list[str]) -> Iterator[str]:
    """The module in `importlib.import_module("a.b")` or `__import__("a.b")`, if written out."""
    function = node.func.attr if isinstance(node.func, ast.Attribute) else None
    function = node.func.id if isinstance(node.func, ast.Name) else function
    if function not in {"import_module", "__import__"} or not node.args:
        return
    name = node.args[0]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        bare = name.value.lstrip(".")
        yield absolute(bare, len(name.value) - len(bare), parts)


def imports_of(package: Path, file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of all a file imports, also inside functions and for type checking."""
    parts = parts_of_package(package, file)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = absolute(node.module or "", node.level, parts)
            names = [f"{source}.{alias.name}" if source else "" for alias in node.names]
        elif isinstance(node, ast.Call):
            names = list(imported_by_call(node, parts))
        for name in names:
            yield getattr(node, "lineno", 0), name


def target_of(package: Path, name: str) -> str:
    """The part of the project that an imported name belongs to: `__init__` for a public name."""
    first = name.split(".")[1] if "." in name else "__init__"
    is_module = first in MAY_IMPORT or (package / first).is_dir() or "." in name.partition(".")[2]
    return first if is_module else "__init__"


def part_of(name: str) -> str:
    """The part of its package that a module belongs to: "two_way" of operators.two_way.work."""
    return (name.split(".")[2:] or ["__init__"])[0]


def faults_of_import(package: Path, importer: str, part: str, name: str) -> Iterator[str]:
    """What is wrong with one import, if anything is. `part` is where in its package it stands."""
    root = name.partition(".")[0]
    if not name:
        yield "a relative import leads out of the package"
    elif root == "pyspark" and importer not in MAY_IMPORT_PYSPARK:
        yield f"{importer} may not import pyspark"
    elif root == package.name:
        target = target_of(package, name)
        if target not in MAY_IMPORT:
            yield f"{importer} imports {target}, which has no layer"
        elif target != importer and target not in MAY_IMPORT[importer]:
            yield f"{importer} may not import {target}"
        elif target == importer and importer in SHARED:
            other, shared = part_of(name), SHARED[importer]
            below = BUILT_ON.get(f"{importer}.{part}", set())
            if other not in shared | below | {part, "__init__"}:
                yield f"{importer}.{part} may not import {importer}.{other}"


def violations(package: Path) -> list[str]:
    """Everything in a package that breaks the layers, as `file:line what`."""
    found = []
    for file in modules_of(package):
        place = file.relative_to(package)
        importer = top_level(package, file)
        if importer not in MAY_IMPORT:
            found.append(f"{place}: {importer} has no layer; give it one in MAY_IMPORT")
            continue
        for line, name in imports_of(package, file):
            faults = faults_of_import(package, importer, part_of_file(package, file), name)
            found += [f"{place}:{line} {fault}" for fault in faults]
    return found


def test_there_is_something_to_check() -> None:
    assert modules_of(SRC / PACKAGE), f"no modules in src/{PACKAGE}"


def test_layers_hold() -> None:
    assert violations(SRC / PACKAGE) == []


def test_importing_the_package_loads_neither_pyspark_nor_numba() -> None:
    slow = ("pyspark", "py4j", "numba", "llvmlite")
    code = (
        f"import sys, {PACKAGE}; "
        f"print(*sorted(m for m in sys.modules if m.split('.')[0] in {slow!r}))"
    )
    search_path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


BAD = {
    "errors up": ("errors.py", "from skewless.arrays import x", "errors may not import arrays"),
    "arrays up": ("arrays/a.py", "from ..state import x", "arrays may not import state"),
    "sideways": ("placement/a.py", "from ..state.files import x", "placement may not import state"),
    "by name": ("state/a.py", "from skewless import placement", "state may not import placement"),
    "plain": ("state/a.py", "import skewless.engine.batch", "state may not import engine"),
    "engine up": (
        "engine/a.py",
        "from skewless.operators.pair import x",
        "engine may not import operators",
    ),
    "in function": (
        "operators/a.py",
        "def f():\n    from ..spark import x",
        "operators may not import spark",
    ),
    "for types": (
        "simulation/deep/a.py",
        "if TYPE_CHECKING:\n    from ...spark import x",
        "simulation may not import spark",
    ),
    "registry": ("operators/a.py", "from ..strategies import x", "operators may not import strat"),
    "workloads": ("workloads/a.py", "from ..arrays import x", "workloads may not import arrays"),
    "history": ("history.py", "from .operators import x", "history may not import operators"),
    "monitor": ("monitor/a.py", "from ..operators import x", "monitor may not import operators"),
    "leaf": ("durations.py", "from .arrays import x", "durations may not import arrays"),
    "other operator": (
        "operators/three_way/a.py",
        "from skewless.operators.two_way.work import x",
        "operators.three_way may not import operators.two_way",
    ),
    "other operator by name": (
        "operators/three_way/deep/a.py",
        "from skewless.operators import two_way",
        "operators.three_way may not import operators.two_way",
    ),
    "operator below": (
        "operators/pair.py",
        "from .two_way.work import x",
        "operators.pair may not import operators.two_way",
    ),
    "placement sideways": (
        "placement/routing/a.py",
        "from ..balancing.base import x",
        "placement.routing may not import placement.balancing",
    ),
    "placement up": (
        "placement/strategy.py",
        "if TYPE_CHECKING:\n    from .balancing.monitor import x",
        "placement.strategy may not import placement.balancing",
    ),
    "public name": (
        "operators/a.py",
        "from skewless import join",
        "operators may not import __init__",
    ),
    "package": ("state/a.py", "import skewless", "state may not import __init__"),
    "public to cli": ("__init__.py", "from .cli import main", "__init__ may not import cli"),
    "pyspark": ("jobfile/a.py", "import pyspark.sql", "jobfile may not import pyspark"),
    "pyspark late": (
        "__init__.py",
        "def f():\n    from pyspark.sql import DataFrame",
        "__init__ may not import pyspark",
    ),
    "by call": (
        "state/a.py",
        "importlib.import_module('pyspark')",
        "state may not import pyspark",
    ),
    "by relative call": (
        "state/a.py",
        "import_module('..spark.query', __package__)",
        "state may not import spark",
    ),
    "out of the package": ("errors.py", "from .. import x", "leads out of the package"),
    "unknown module": ("helpers.py", "", "helpers has no layer"),
    "unknown folder": ("misc/a.py", "", "misc has no layer"),
    "unknown target": ("cli.py", "from .helpers import x", "cli imports helpers"),
}


@pytest.mark.parametrize(("file", "source", "complaint"), BAD.values(), ids=BAD.keys())
def test_checker_finds(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    bad = tmp_path / PACKAGE / file
    bad.parent.mkdir(parents=True)
    bad.write_text(source, encoding="utf-8")
    found = violations(tmp_path / PACKAGE)
    assert len(found) == 1
    assert complaint in found[0]


GOOD = {
    "arrays": ("arrays/a.py", "from skewless.errors import ArgumentError"),
    "own folder": (
        "operators/two_way/a.py",
        "from . import base\nfrom .base import x\nimport skewless.operators.two_way",
    ),
    "shared": (
        "operators/three_way/a.py",
        "from skewless.operators.pair import x\nfrom .. import ingesting",
    ),
    "shared placement": ("placement/routing/a.py", "from skewless.placement.units import x"),
    "leaf": ("state/a.py", "from .. import failpoints\nfrom ..durations import parse"),
    "down": ("simulation/a.py", "from ..operators.two_way import x\nfrom ..placement import y"),
    "spark": ("spark/a.py", "from pyspark.sql import DataFrame\nfrom ..operators import two_way"),
    "late": ("__init__.py", "def f():\n    from .spark import query"),
    "cli": ("cli.py", "import skewless as sk\nfrom skewless import join\nimport pyspark"),
    "others": ("workloads/a.py", "import numpy as np\nimport pysparkling"),
}


@pytest.mark.parametrize(("file", "source"), GOOD.values(), ids=GOOD.keys())
def test_checker_accepts(tmp_path: Path, file: str, source: str) -> None:
    good = tmp_path / PACKAGE / file
    good.parent.mkdir(parents=True)
    good.write_text(source, encoding="utf-8")
    assert violations(tmp_path / PACKAGE) == []
