"""The house rules that no linter knows: sizes, leftovers, and an exact list of public names."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
FOLDERS = ("src", "tests", "benchmarks", "docs", "examples")
NOT_OURS = {"__pycache__", "spark-warehouse", "metastore_db", "derby.log"}

FILE_BYTES_MAX = 1 << 20
FUNCTION_LINES_MAX = 70
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")


def is_ours(file: Path) -> bool:
    """Not a cache, nor downloaded or generated data: those have hidden or well-known names."""
    parts = file.relative_to(ROOT).parts
    return not any(part in NOT_OURS or part.startswith(".") for part in parts)


def house_files() -> list[Path]:
    inside = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*")]
    return sorted(
        file for file in [*inside, *ROOT.glob("*.md")] if file.is_file() and is_ours(file)
    )


def source_files() -> list[Path]:
    return [file for file in house_files() if file.suffix == ".py" and file.is_relative_to(SRC)]


def docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """A public function documents every argument: that is no code."""
    if ast.get_docstring(function, clean=False) is None:
        return 0
    text = function.body[0]
    return (text.end_lineno or text.lineno) - text.lineno + 1


def long_functions(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.lineno} {node.name} has {lines} lines"


def leftovers(source: str) -> Iterator[str]:
    for number, line in enumerate(source.splitlines(), 1):
        if LEFTOVER.search(line):
            yield f"{number} {line.strip()}"


def module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that bind names of a module, those under an `if TYPE_CHECKING` included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from module_level([*statement.body, *statement.orelse])


def is_from_own_module(statement: ast.ImportFrom) -> bool:
    """`from .a import x`, but not `from . import a`, which binds a module."""
    module = statement.module or ""
    return bool(module) and (statement.level > 0 or module.startswith("skewless."))


def public_names(source: str) -> set[str]:
    """What a package's `__init__` defines, or takes from its own modules, under a public name."""
    names: set[str] = set()
    for statement in module_level(ast.parse(source).body):
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.ImportFrom) and is_from_own_module(statement):
            names |= {alias.asname or alias.name for alias in statement.names}
    return {name for name in names if not name.startswith("_")}


def test_no_file_is_too_large() -> None:
    sizes = {str(file.relative_to(ROOT)): file.stat().st_size for file in house_files()}
    assert sizes, "no files found"
    assert {name: size for name, size in sizes.items() if size > FILE_BYTES_MAX} == {}


@pytest.mark.parametrize("check", [long_functions, leftovers])
def test_source_has_no(check: Callable[[str], Iterator[str]]) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{what}"
        for file in source_files()
        for what in check(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_public_names_are_exact() -> None:
    skewless = importlib.import_module("skewless")
    listed = getattr(skewless, "__all__", None)
    if listed is None:
        pytest.skip("skewless has no __all__ yet")
    assert list(listed) == sorted(set(listed))
    assert [name for name in listed if not hasattr(skewless, name)] == []
    source = (SRC / "skewless" / "__init__.py").read_text(encoding="utf-8")
    assert public_names(source) - set(listed) == set()


def test_the_version_is_that_of_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert said is not None
    assert importlib.import_module("skewless").__version__ == project["version"] == said[1]


def test_checks_find_what_they_look_for() -> None:
    body = "\n".join(["    pass"] * FUNCTION_LINES_MAX)
    assert list(long_functions(f"def f():\n{body}")) == ["1 f has 71 lines"]
    assert list(long_functions("def f():\n" + body.removesuffix("\n    pass"))) == []
    told = '    """One.\n\n    Two.\n    """'
    assert list(long_functions(f"def f():\n{told}\n{body}")) == ["1 f has 71 lines"]
    assert list(long_functions(f"def f():\n{told}\n" + body.removesuffix("\n    pass"))) == []
    other = body.replace("    pass", '    """no docstring"""')
    assert list(long_functions(f"def f():\n    pass\n{other}")) == ["1 f has 72 lines"]
    assert list(leftovers("a = 1\n# TODO: b\nTODOS = 2")) == ["2 # TODO: b"]
    init = (
        "from .spark import join\nfrom . import errors\nimport os\nfrom typing import Any\n_x = 1"
    )
    assert public_names(init) == {"join"}
