"""The supported versions are those that `make test-versions` tries, wherever they stand."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tried() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tried", ROOT / "scripts" / "test_versions.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_metadata_has_them(tried: ModuleType) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    told = "Programming Language :: Python :: "
    named = [line.removeprefix(told) for line in project["classifiers"] if line.startswith(told)]
    assert tuple(version for version in named if "." in version) == tried.PYTHONS
    assert project["requires-python"] == f">={tried.PYTHONS[0]}"
    [spark] = [line for line in project["dependencies"] if line.startswith("pyspark")]
    major, minor = map(int, tried.SPARKS[-1].split("."))
    assert spark == f"pyspark>={tried.SPARKS[0]},<{major}.{minor + 1}"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("README.md", r"PySpark (\S+) to (\S+) .*Python (\S+) to (\S+),"),
        ("CONTRIBUTING.md", r"PySpark (\S+) to (\S+) and Python (\S+) to (\S+),"),
        ("docs/upgrade.md", r"PySpark (\S+), \S+ and (\S+), Python (\S+), \S+ and (\S+):"),
    ],
)
def test_the_documents_have_them(tried: ModuleType, file: str, told: str) -> None:
    found = re.search(told, (ROOT / file).read_text())
    assert found is not None
    ends = (*tried.SPARKS[:: len(tried.SPARKS) - 1], *tried.PYTHONS[:: len(tried.PYTHONS) - 1])
    assert found.groups() == ends
