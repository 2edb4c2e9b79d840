"""One page of a run that needs no server: everything that the dashboard shows, in one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

from skewless.errors import ArgumentError, StateAccessError, StateError
from skewless.monitor.assets import PAGE, SCRIPTS, STYLE, charts_script, text_of
from skewless.monitor.lookup import look_up
from skewless.monitor.model import QueryModel
from skewless.monitor.reading import CheckpointReader, Status
from skewless.monitor.views import VIEWS, Window, about, overview

POINTS = 600

_STYLE = re.compile(r'<link rel="(?:stylesheet|preload)"[^>]*>\n')
_SCRIPTS = re.compile(r'<script src="assets/[^>]*" defer></script>\n')


def read_run(checkpoint: str) -> QueryModel:
    """All that a checkpoint tells of its query."""
    model = QueryModel(CheckpointReader(checkpoint))
    while True:
        model.refresh(budget_s=10)
        if model.status is Status.UNREADABLE:
            raise StateAccessError(f"{model.location} cannot be read: {model.why}")
        if model.status is Status.GONE:
            raise StateError(f"{model.location} is not the checkpoint of a skewless query")
        if not model.waiting:
            return model


def run_data(model: QueryModel) -> dict[str, Any]:
    """Everything on the page: all views of the query and of each operator."""
    return {
        "about": about(model),
        "scopes": {name: _scope(model, name) for name in ("", *model.operators)},
    }


def _scope(model: QueryModel, operator: str) -> dict[str, Any]:
    window = Window(operator, points=POINTS)
    views = {name: view(model, window) | {"whole": True} for name, view in VIEWS.items()}
    told = [key["key"] for key in views["keys"]["keys"]]
    told += [own["key"] for own in views["placement"].get("own", ())]
    return {
        "overview": overview(model, window),
        "views": views,
        "lookups": {value: look_up(model, operator, value) for value in dict.fromkeys(told)},
    }


def _inline(script: str) -> str:
    """A script as part of a page: nothing in it may look like its end."""
    return re.sub(r"</(?=script)|<!--", lambda m: m[0].replace("<", "\\x3c"), script, flags=re.I)


def _trusted(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def page_of(data: dict[str, Any]) -> str:
    """The page with its data. What runs in it is named by its hash: nothing else does, whatever
    the keys are."""
    scripts = [_inline(charts_script().decode())]
    scripts.append(_inline("\n".join(text_of(name) for name in SCRIPTS)))
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_trusted, scripts))}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    told = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page = _STYLE.sub("", text_of(PAGE))
    page = _SCRIPTS.sub("", page)
    head = (
        f'<meta http-equiv="content-security-policy" content="{html.escape(policy)}">\n'
        f"<style>\n{text_of(STYLE)}</style>\n</head>"
    )
    body = f'<script type="application/json" id="skewless-run">{told}</script>\n'
    body += "".join(f"<script>{script}</script>\n" for script in scripts)
    page = page.replace("</head>", head, 1)
    before, _, after = page.rpartition("</body>")
    return f"{before}{body}</body>{after}"


def write_page(checkpoint: str, path: Path) -> QueryModel:
    """Write the page of a run; what was read is returned."""
    model = read_run(checkpoint)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page_of(run_data(model)), encoding="utf-8")
    except OSError as error:
        raise ArgumentError("output", str(path), f"a file to write ({error.strerror})") from None
    return model
