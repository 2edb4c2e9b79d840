"""The page of a run: everything in one file, and nothing in it that a key could break out of."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from skewless.errors import StateError
from skewless.monitor.page import _inline, page_of, read_run, run_data, write_page
from skewless.monitor.views import VIEWS
from tests.monitor.histories import Story, checkpoint, composed_checkpoint

EVIL = "</script><script>alert(1)</script><!--"


def embedded(page: str) -> Any:
    (told,) = re.findall(r'<script type="application/json" id="skewless-run">(.*?)</script>', page)
    return json.loads(told)


def test_all_views_of_all_operators(tmp_path: Path) -> None:
    composed_checkpoint(tmp_path / "ckpt", 60)
    model = write_page(str(tmp_path / "ckpt"), tmp_path / "report.html")
    told = embedded((tmp_path / "report.html").read_text())
    assert list(told["scopes"]) == ["", "join-1", "aggregate-2"]
    for scope in told["scopes"].values():
        assert set(scope["views"]) == set(VIEWS)
        assert scope["views"]["series"]["at"] == list(range(60))
    assert told["scopes"]["join-1"]["lookups"]["42"]["since"] == 55
    assert told["about"]["facts"] == model.facts


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(), 3)
    page = page_of(run_data(read_run(str(tmp_path))))
    ours = page[: page.index("skewless-run")]
    assert not re.search(r'(src|href)="(?!#|data:)', ours)
    assert "assets/" not in ours
    assert len(page) < 2_000_000, "it is mailed around, and opened by a browser in one go"


def test_a_key_cannot_break_out(tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(hot=EVIL, hot_from=0, split_after=1), 5)
    page = page_of(run_data(read_run(str(tmp_path))))
    assert EVIL not in page and "<script>alert" not in page
    assert embedded(page)["scopes"][""]["views"]["keys"]["keys"][0]["key"] == EVIL
    # Every script that there is was put there, and is named by its hash.
    scripts = re.findall(r"<script[^>]*>", page)
    assert scripts == ['<script type="application/json" id="skewless-run">', "<script>", "<script>"]
    (policy,) = re.findall(r'http-equiv="content-security-policy" content="([^"]*)"', page)
    policy = html.unescape(policy)
    assert len(re.findall(r"'sha256-[\w+/=]{44}'", policy)) == 2
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]


def test_scripts_do_not_end_early() -> None:
    assert _inline('a = "</script>"; b = "<!--"; c = "</SCRIPT"') == (
        'a = "\\x3c/script>"; b = "\\x3c!--"; c = "\\x3c/SCRIPT"'
    )


def test_many_batches_in_few_points(tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(instances=2, figures=False), 700)
    series = run_data(read_run(str(tmp_path)))["scopes"][""]["views"]["series"]
    assert (series["width"], len(series["at"])) == (2, 350)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is not the checkpoint of a skewless query"):
        read_run(str(tmp_path))
    checkpoint(tmp_path, Story(), 1).folder.write("query.json", b"{")
    with pytest.raises(StateError, match="cannot be read"):
        read_run(str(tmp_path))
