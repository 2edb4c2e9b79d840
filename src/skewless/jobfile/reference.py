"""The tables of docs/jobs.md: every table and key of job files, from the one description."""

from __future__ import annotations

from collections.abc import Iterator

from skewless.jobfile.description import FILE, INPUT, JOB, SINK, SPARK, STEPS, TRIGGER, Table

BEGIN = "<!-- made by `python -m skewless.jobfile.reference docs/jobs.md`; do not edit by hand -->"
END = "<!-- end of what is made -->"


def reference() -> str:
    """All tables and keys, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from ("### The file", "", *_table(FILE))
    yield from (f"### `[{INPUT.title}]`", "", INPUT.doc, "", *_table(INPUT))
    for operator, table in STEPS.items():
        yield from (f"### `[steps.NAME]` with `{operator}`", "", table.doc, "", *_table(table))
    for table in (SINK, TRIGGER, SPARK, JOB):
        yield from (f"### `[{table.title}]`", "", table.doc, "", *_table(table))


def _table(table: Table) -> Iterator[str]:
    yield "| key | what it means | what it accepts |"
    yield "|---|---|---|"
    for key in table.keys:
        name = f"**`{key.name}`**" if key.required else f"`{key.name}`"
        accepted = key.kind.accepted.replace("|", "\\|")
        yield f"| {name} | {key.doc} | {accepted} |"
    yield ""


def with_reference(document: str) -> str:
    """A document whose part between the marks is made anew."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document must have the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


if __name__ == "__main__":
    import sys
    from pathlib import Path

    file = Path(sys.argv[1])
    file.write_text(with_reference(file.read_text(encoding="utf-8")), encoding="utf-8")
