#!/usr/bin/env python3
"""Pictures of the dashboard, of made-up queries: every view, light, dark and narrow.

    .venv/bin/python scripts/screenshots.py [FOLDER]

Needs a Chromium, such as Debian's. Look at them after every change of the page; those in
docs/pictures/ are the ones that the documents show.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from skewless.monitor.server import Dashboard  # noqa: E402
from tests.monitor.browser import NARROW, WIDE, chromium, draw_all  # noqa: E402
from tests.monitor.histories import (  # noqa: E402
    EVERY_US,
    Story,
    checkpoint,
    composed_checkpoint,
)

BATCHES = 240
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "narrow": {"viewport": NARROW, "color_scheme": "light"},
    "narrow-dark": {"viewport": NARROW, "color_scheme": "dark"},
}
SECTIONS = ("flow", "balance", "keys", "decisions", "placement", "hosts", "about")


def write_queries(root: Path) -> list[str]:
    """A join with a hot key that is split, a composed query, and one with very many instances."""
    begun_us = time.time_ns() // 1000 - BATCHES * EVERY_US
    hosts = ("worker-1", "worker-2", "worker-3")
    checkpoint(root / "orders", Story(hosts=hosts, begun_us=begun_us), BATCHES)
    composed_checkpoint(root / "payments", 120, begun_us)
    checkpoint(root / "large", Story(instances=1000, slots_each=4, begun_us=begun_us), 60)
    checkpoint(root / "quiet", Story(hot_from=10**9, begun_us=begun_us), 3)
    return [str(root / name) for name in ("orders", "payments", "large", "quiet")]


def take(page: Any, folder: Path, look: str) -> None:
    """The whole page and each of its sections."""
    draw_all(page)
    page.locator("#keys-table button").first.click()
    page.locator("#found dl").wait_for()
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(300)  # charts fade in
    page.screenshot(path=folder / f"{look}-all.png", full_page=True)
    page.screenshot(path=folder / f"{look}-top.png")
    page.set_viewport_size({**page.viewport_size, "height": 2000})  # nothing lies over a section
    for section in SECTIONS:
        page.locator(f"#{section}").screenshot(path=folder / f"{look}-{section}.png")


def take_all(browser: Any, url: str, folder: Path) -> None:
    for look, options in LOOKS.items():
        page = browser.new_context(**options).new_page()
        page.goto(url)
        page.locator("#tiles .tile").first.wait_for()
        take(page, folder, look)
    for number, name in ((1, "composed"), (2, "large"), (3, "quiet")):
        page = browser.new_context(**LOOKS["light"]).new_page()
        page.goto(url)
        page.locator("#query").select_option(str(number))
        page.wait_for_timeout(500)  # the charts of the first query are not those of this one
        draw_all(page)
        page.screenshot(path=folder / f"{name}-all.png", full_page=True)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="screenshots-"))
    folder.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.gettempdir()) / "checkpoints"  # which is to be read in the pictures
    data.mkdir()
    try:
        with Dashboard(write_queries(data), "127.0.0.1", 0).start() as shown, chromium() as browser:
            take_all(browser, shown.url, folder)
    finally:
        shutil.rmtree(data)
    print(folder)


if __name__ == "__main__":
    main()
