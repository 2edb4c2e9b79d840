"""The files of the page: ours beside this module, and the chart library from its own wheel."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from skewless.monitor.extras import plotly_js

FOLDER = Path(__file__).parent / "static"
SCRIPTS = ("format.js", "data.js", "charts.js", "sections.js", "app.js")  # in this order
STYLE = "style.css"
PAGE = "index.html"
CHARTS = "plotly.js"

TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """A file with its type, and what tells one version of it from another."""

    content: bytes
    type: str
    tag: str

    @staticmethod
    def of(content: bytes, name: str) -> Asset:
        tag = hashlib.sha256(content).hexdigest()[:16]
        return Asset(content, TYPES[Path(name).suffix], tag)


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def assets() -> dict[str, Asset]:
    """All that may be asked for, by name: nothing else is ever read from the disk."""
    ours = {name: Asset.of((FOLDER / name).read_bytes(), name) for name in (*SCRIPTS, STYLE)}
    return ours | {CHARTS: Asset.of(plotly_js().read_bytes(), CHARTS)}
