"""A real browser: the Chromium of this machine, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 390, "height": 844}
FIGURES = ("throughput", "latency", "rows", "lag", "state", "dropped", "heat", "ratio", "shares",
           "timeline", "instances", "slots", "traffic")  # fmt: skip


def executable() -> str | None:
    """Where the browser is, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # As root there is no sandbox; nothing but our own pages is opened.
        browser = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Complaints:
    """What a page has said on its console that it should not, and whom it has asked."""

    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def watch(self, page: Any) -> None:
        page.on("console", lambda m: m.type in ("error", "warning") and self.said.append(m.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))


def draw_all(page: Any) -> None:
    """Scroll through a page, so that every figure is drawn or says that there is nothing."""
    for name in FIGURES:
        figure = page.locator(f"#{name}")
        if figure.is_hidden():
            continue
        figure.scroll_into_view_if_needed()
        figure.locator(".chart .main-svg, .empty").first.wait_for()
    page.evaluate("window.scrollTo(0, 0)")
