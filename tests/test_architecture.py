"""ARCHITECTURE.md tells the truth: the files that it and docs/internals.md name exist, and its
lists of what to touch are those that the examples really stand in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skewless.engine.lifecycle import DURABLE, TRANSIENT

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "skewless"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
INSIDE = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
ON_DISK = {f"{name}/" for name in (*DURABLE, *TRANSIENT)}
LISTS = dict(re.findall(r"- \*\*.*?\*\* \(`(\w+)`\): ((?:.|\n)*?)(?=\n- \*\*|\n\n)", TEXT))


def named_paths(text: str) -> set[str]:
    return {name for name in re.findall(r"`([\w/]+(?:\.py|/))`", text) if "/" in name}


@pytest.mark.parametrize("name", sorted(named_paths(TEXT + INSIDE) - ON_DISK))
def test_what_is_named_exists(name: str) -> None:
    places = (SRC, ROOT, SRC / "placement", SRC / "operators" / "aggregate")
    assert any((place / name).exists() for place in places)


def test_there_is_a_list_for_each() -> None:
    assert set(LISTS) == {"ContRand", "manhattan", "deduplicate", "ConsoleSink", "ApproxDistinct"}


def files_with(example: str) -> set[str]:
    """The modules of the package in which an example stands, its own ones among them."""
    word = re.compile(rf"\b{example}", re.IGNORECASE)
    return {
        str(file.relative_to(SRC))
        for file in SRC.rglob("*.py")
        if word.search(file.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize(
    ("example", "elsewhere"),
    [
        # Where an example is mentioned without being part of it: help texts and measurements.
        ("ContRand", {"spark/arguments/join.py", "cli/app.py"}),
        ("manhattan", {"workloads/vectors.py"}),
        ("deduplicate", {"spark/result.py"}),
        ("ConsoleSink", set()),
        (
            "ApproxDistinct",
            {"spark/arguments/aggs.py", "spark/arguments/analysis.py", "__init__.py"},
        ),
    ],
)
def test_lists_are_complete(example: str, elsewhere: set[str]) -> None:
    named = {n.removesuffix("/") for n in re.findall(r"`([\w/.]+)`", LISTS[example])}
    found = files_with(example) - elsewhere

    def is_named(file: str) -> bool:
        return any(
            file == n or file.endswith(f"/{n}") or n in str(Path(file).parent) for n in named
        )

    assert {file for file in found if not is_named(file)} == set()
    modules = {n for n in named if n.endswith(".py") and not n.startswith("tests/")}
    assert {n for n in modules if not any(file.endswith(n) for file in found)} == set()
