"""The documents as a site: built strictly, no link is broken, nothing comes from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import skewless as sk
from tests.documents import DOCS, ROOT
from tests.monitor.browser import Complaints, chromium, executable

# What a browser fetches by itself, by tag: where it stands.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


def test_every_public_name_has_its_place() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md")]
    shown = [name for page in pages for name in re.findall(r"^::: skewless\.([\w.]+)$", page, re.M)]
    assert len(shown) == len(set(shown))
    assert {name for name in sk.__all__ if not {name, f"{name}.{name}"} & set(shown)} == set()


class Page(HTMLParser):
    """What a page links to, loads, and can be linked to by."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if given.get(LOADED.get(tag, ""), "data:")[:5] != "data:":
            self.loads.add(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False, timeout=250
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in site.rglob("*.html")}


def broken_links(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Links within the site to files or places that are not there."""
    broken = []
    for file, page in pages.items():
        for link in page.links | page.loads:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            base = site if to.path.startswith("/") else file.parent
            path = (base / unquote(to.path).lstrip("/")).resolve() if to.path else file
            path = path / "index.html" if path.is_dir() else path
            known = pages[path].ids if path in pages else set()
            if not path.exists() or unquote(to.fragment) not in known | {""}:
                broken.append(f"{file.relative_to(site)}: {link}")
    return sorted(broken)


def test_broken_links_are_found(tmp_path: Path) -> None:
    a, b = tmp_path / "a.html", tmp_path / "b.html"
    a.write_text('<p id="x"><a href="b.html"></a><a href="/b.html#y"></a><a href="#z"></a>')
    b.write_text('<p id="y"><a href="a.html#x"></a><a href="c.html"></a><img src="d.png">')
    found = broken_links(tmp_path, {a: Page(a), b: Page(b)})
    assert found == ["a.html: #z", "b.html: c.html", "b.html: d.png"]


@pytest.mark.slow
def test_no_link_is_broken(site: Path, pages: dict[Path, Page]) -> None:
    documents = {file.relative_to(DOCS).with_suffix(".html") for file in DOCS.rglob("*.md")}
    assert documents <= {file.relative_to(site) for file in pages}
    assert broken_links(site, pages) == []


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loads = {load for page in pages.values() for load in page.loads}
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    loads |= set(re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", styles))
    assert loads, "pages load something"
    assert {load for load in loads if load.startswith(("http", "//"))} == set()


@pytest.mark.slow
def test_what_is_to_be_there(site: Path, pages: dict[Path, Page]) -> None:
    ids = {name for file, page in pages.items() if "api" in file.parts for name in page.ids}
    named = {name for name in sk.__all__ if {f"skewless.{name}", f"skewless.{name}.{name}"} & ids}
    assert named == set(sk.__all__)
    for notebook in (DOCS / "notebooks").glob("*.ipynb"):
        page = (site / "notebooks" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert "data:image/png;base64," in page
        assert (site / "notebooks" / notebook.name).exists()


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(executable() is None, reason="no Chromium here: apt install chromium")
def test_in_a_browser(served: str, site: Path, pages: dict[Path, Page]) -> None:
    complaints = Complaints()
    with chromium() as browser:
        page = browser.new_page()
        complaints.watch(page)
        for file in sorted(pages):
            page.goto(served + str(file.relative_to(site)))
        page.goto(f"{served}index.html")
        page.keyboard.press("/")
        page.keyboard.type("watermark")
        page.locator(".md-search-result__item").first.wait_for()
    assert [url for url in complaints.asked if not url.startswith((served, "data:", "blob:"))] == []
    assert complaints.said == []
