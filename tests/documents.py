"""What the documents show: snippets of Python with what they print, and commands of a shell.

A block of Python is a snippet. A block of `text` right below it is what it prints; with the title
"for example" it is what it printed once, as figures differ from machine to machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
EXAMPLE = 'title="for example"'

FENCE = re.compile(r"^```(\w*) ?(.*)$")
TOOLS = ("skewless", "make", "python", "pytest", "pip")


@dataclass(frozen=True)
class Block:
    """A block of code under a heading; `follows` says that nothing stands above it but a block."""

    heading: str
    language: str
    title: str
    lines: tuple[str, ...] = ()
    follows: bool = False


@dataclass(frozen=True)
class Snippet:
    """A block of Python, and what it prints, if that is known."""

    heading: str
    source: str
    printed: str | None = None


@dataclass(frozen=True)
class Command:
    """A command as a document has it. Within a sentence one may leave out what it needs."""

    document: str
    words: tuple[str, ...]
    mentioned: bool


INDENTED = "indented"


def blocks(text: str) -> Iterator[Block]:
    """Fenced blocks; indented ones, too, which have no language."""
    heading, block, follows = "", None, False
    for line in [*text.splitlines(), ""]:
        fence = FENCE.match(line)
        if block is not None and block.title != INDENTED:
            if line == "```":
                yield block
                block, follows = None, True
            else:
                block = replace(block, lines=(*block.lines, line))
        elif fence is not None:
            block = Block(heading, fence[1], fence[2], follows=follows)
        elif line.startswith("    "):
            block = block or Block(heading, "", INDENTED)
            block = replace(block, lines=(*block.lines, line.strip()))
        elif line.strip() or block is not None:
            if block is not None:
                yield block
                block = None
            follows = False
            heading = line.lstrip("# ") if re.match(r"#+ ", line) else heading


def snippets(document: Path) -> list[Snippet]:
    """The snippets of a document, in order."""
    found: list[Snippet] = []
    for block in blocks(document.read_text(encoding="utf-8")):
        body = "".join(f"{line}\n" for line in block.lines)
        if block.language == "python":
            found.append(Snippet(block.heading, body))
        elif block.language == "text" and block.follows and block.title != EXAMPLE:
            found[-1] = replace(found[-1], printed=body)
    return found


def commands(document: Path) -> Iterator[Command]:
    """The commands of a document: lines of its blocks, and code within its sentences."""
    text = document.read_text(encoding="utf-8")
    for block in blocks(text):
        if block.language in ("", "sh"):
            for line in block.lines:
                yield from _command(document, line, mentioned=False)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`([^`]+)`", prose):
        yield from _command(document, code.replace("\n", " "), mentioned=True)


def _command(document: Path, line: str, *, mentioned: bool) -> Iterator[Command]:
    """Placeholders stay as they are; brackets around what may be left out go, and comments do."""
    words = re.sub(r"\s(#|>).*|…|[\[\]](?![\w,]*\]?\")", "", line).split()
    words = [re.sub(r"^(\.venv/bin/)", "", word).strip('"') for word in words]
    if len(words) > 1 and words[0] in TOOLS:
        yield Command(document.name, tuple(words), mentioned)
