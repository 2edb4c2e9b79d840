"""The files of the page, beside this module: ours, and the chart library."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
SCRIPTS = ("format.js", "data.js", "charts.js", "sections.js", "app.js")  # in this order
STYLE = "style.css"
PAGE = "index.html"
CHARTS = "plotly.js"
# Plotly with the charts that have two axes: a third of the whole, so that a page opens sooner.
_CHARTS_FILE = "plotly-cartesian.min.js.gz"

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


def charts_script() -> bytes:
    return gzip.decompress((FOLDER / _CHARTS_FILE).read_bytes())


@cache
def assets() -> dict[str, Asset]:
    """All that may be asked for, by name: nothing else is ever read from the disk."""
    ours = {name: Asset.of((FOLDER / name).read_bytes(), name) for name in (*SCRIPTS, STYLE)}
    return ours | {CHARTS: Asset.of(charts_script(), CHARTS)}
