"""A hook of MkDocs: notebooks become pages of the site, with the outputs that they were saved with.

Text, code and pictures are all that ours have, so that a page is a few lines of Markdown per cell
and looks, searches and darkens as all others do. The notebook itself stays beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file in [f for f in files if f.src_uri.endswith(".ipynb")]:
        notebook = json.loads(Path(str(file.abs_src_path)).read_text(encoding="utf-8"))
        name = Path(file.src_uri)
        page = "\n\n".join(cell for c in notebook["cells"] for cell in cell_lines(c))
        page += f"\n\n[This notebook]({name.name}), to run it yourself.\n"
        files.append(File.generated(config, str(name.with_suffix(".md")), content=page))
    return files


def cell_lines(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"]).strip()
    if cell["cell_type"] != "code":
        yield source
        return
    yield fenced("python", source)
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "image/png" in data:
            picture = "".join(data["image/png"]).replace("\n", "")
            yield f"![What the cell above drew](data:image/png;base64,{picture})"
        else:
            yield fenced("text", "".join(data["text/plain"]).rstrip())


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"
