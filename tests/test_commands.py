"""The commands that the documents show are understood: by the tool, make, the benchmarks, pip."""

from __future__ import annotations

import importlib
import importlib.util
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from skewless.cli.app import app
from tests.documents import DOCUMENTS, ROOT, Command, blocks, commands

SHOWN = [c for d in DOCUMENTS if d.name != "CHANGELOG.md" for c in commands(d)]
NUMBERS = {"BATCH", "N"}  # placeholders of numbers


# What a command says to words that it does not understand.
UsageError: type[Exception] = typer.BadParameter.__base__


def parse(command: Any, words: Sequence[str], *, mentioned: bool) -> None:
    """As the command would, but it does nothing."""
    given = ["1" if word in NUMBERS else word for word in words]
    try:
        command.make_context(command.name, given)
    except typer.Exit:
        assert "--help" in words  # `given` is eaten up
    except typer.BadParameter as error:
        if not (mentioned and "Missing" in str(error)):
            raise


def check_skewless(words: Sequence[str], *, mentioned: bool) -> None:
    group = typer.main.get_command(app)
    if words[0].isupper():  # any command
        return
    assert words[0] in group.commands, f"no command {words[0]}"
    parse(group.commands[words[0]], words[1:], mentioned=mentioned)


def check_make(words: Sequence[str], *, mentioned: bool) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert words[0] in targets


def check_python(words: Sequence[str], *, mentioned: bool) -> None:
    if words[0] != "-m":
        assert (ROOT / words[0]).exists() or not words[0].endswith(".py")
        return
    name = words[1]
    assert importlib.util.find_spec(name) is not None
    module = {"benchmarks.papers": "benchmarks.papers.__main__"}.get(name, name)
    if name.startswith("benchmarks.") and name != "benchmarks.beside":
        tool = typer.Typer(add_completion=False)
        tool.command()(importlib.import_module(module).main)
        parse(typer.main.get_command(tool), words[2:], mentioned=mentioned)


def check_pytest(words: Sequence[str], *, mentioned: bool) -> None:
    assert [w for w in words if w.startswith("tests") and not (ROOT / w).exists()] == []


def check_pip(words: Sequence[str], *, mentioned: bool) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = re.findall(r"(?:skewless|\.)\[([\w,]+)\]", " ".join(words))
    assert {e for extras in asked for e in extras.split(",")} <= set(
        project["optional-dependencies"]
    )


CHECKS: dict[str, Callable[..., None]] = {
    "skewless": check_skewless,
    "make": check_make,
    "python": check_python,
    "pytest": check_pytest,
    "pip": check_pip,
}


@pytest.mark.parametrize("tool", CHECKS)
def test_commands_are_understood(tool: str) -> None:
    shown = [c for c in SHOWN if c.words[0] == tool]
    assert shown, f"nobody shows {tool}"
    wrong = {}
    for command in shown:
        try:
            CHECKS[tool](command.words[1:], mentioned=command.mentioned)
        except (AssertionError, UsageError) as error:
            wrong[command] = str(error)
    assert wrong == {}


def test_every_command_of_the_tool_is_shown() -> None:
    shown = {c.words[1] for c in SHOWN if c.document == "tool.md" and c.words[0] == "skewless"}
    assert shown - {"COMMAND"} == set(typer.main.get_command(app).commands)


def test_checks_find_what_they_look_for(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    text = "# A\n\n    skewless inspect CKPT [--decisions]  # why\n\n`skewless inspekt` `make x`\n"
    document.write_text(text + "```sh\nskewless inspect --las 3 C\n```\n", encoding="utf-8")
    found = list(commands(document))
    assert found[0] == Command("a.md", ("skewless", "inspect", "CKPT", "--decisions"), False)
    check_skewless(found[0].words[1:], mentioned=False)
    with pytest.raises(UsageError, match="--las"):
        check_skewless(found[1].words[1:], mentioned=False)
    with pytest.raises(AssertionError, match="inspekt"):
        check_skewless(found[2].words[1:], mentioned=True)
    with pytest.raises(AssertionError):
        check_make(found[3].words[1:], mentioned=True)
    check_skewless(["inspect"], mentioned=True)
    with pytest.raises(typer.BadParameter, match="Missing"):
        check_skewless(["inspect"], mentioned=False)


def test_blocks_are_found() -> None:
    text = "# A\n```python\n# no heading\na\n```\n\n```text\nb\n```\nc\n\n## D\n```text\ne\n```\n"
    found = [(b.heading, b.language, b.lines, b.follows) for b in blocks(text)]
    assert found == [
        ("A", "python", ("# no heading", "a"), False),
        ("A", "text", ("b",), True),
        ("D", "text", ("e",), False),
    ]
