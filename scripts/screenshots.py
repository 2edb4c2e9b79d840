#!/usr/bin/env python3
"""Pictures of the dashboard, of made-up queries: every view, light, dark and narrow; and of the
demo, which is run for it.

    .venv/bin/python scripts/screenshots.py [FOLDER [dashboard | demo]]

Needs a Chromium, such as Debian's. Look at them after every change of the page or of the demo;
those in docs/pictures/ are the ones that the documents show.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from rich._export_format import CONSOLE_SVG_FORMAT  # noqa: E402
from rich.console import Console  # noqa: E402

from skewless.cli.demo.folder import DemoFolder  # noqa: E402
from skewless.cli.demo.proof import found_in  # noqa: E402
from skewless.cli.demo.screen import State, frame  # noqa: E402
from skewless.cli.demo.summary import findings, print_summary, where_next  # noqa: E402
from skewless.cli.demo.turns import TITLES, Turns  # noqa: E402
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
COLUMNS = 108  # of the terminal in the picture
# A font of the machine that shows it: nothing is loaded from elsewhere.
TERMINAL = re.sub(r"@font-face {{.*?}}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code,", "'DejaVu Sans Mono', Menlo, Consolas,"
)
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


def of_dashboard(folder: Path) -> None:
    data = Path(tempfile.gettempdir()) / "checkpoints"  # which is to be read in the pictures
    data.mkdir()
    try:
        with Dashboard(write_queries(data), "127.0.0.1", 0).start() as shown, chromium() as browser:
            take_all(browser, shown.url, folder)
    finally:
        shutil.rmtree(data)


def of_demo(folder: Path) -> None:
    """What a terminal shows at the end of the demo, and the plot that it writes."""
    with tempfile.TemporaryDirectory() as work:
        code = "from skewless.cli import main; main()"
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run([sys.executable, "-c", code, "demo"], cwd=work, env=env, check=True)
        os.chdir(work)  # paths in the picture are short
        shutil.copy("demo-output/story.svg", folder / "story.svg")
        drawn = demo_as_svg(DemoFolder(Path("demo-output")))
        (folder / "demo.svg").write_text(drawn, encoding="utf-8")
        os.chdir(ROOT)


def demo_as_svg(root: DemoFolder) -> str:
    plan, turns, joins = root.plan(), Turns(root.turns), list(TITLES)
    assert plan is not None
    found = findings(plan, turns, joins, {who: found_in(root.place(who).output) for who in joins})
    console = Console(
        record=True, width=COLUMNS, height=60, force_terminal=True, color_system="truecolor",
        file=io.StringIO(), highlight=False,
    )  # fmt: skip
    console.print(frame(State(plan, joins, turns), console.size))
    print_summary(found, where_next(root, has_page=True), console)
    return console.export_svg(title="skewless demo", code_format=TERMINAL, unique_id="demo")


KINDS = {"dashboard": of_dashboard, "demo": of_demo}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="screenshots-"))
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for kind in sys.argv[2:] or KINDS:
        KINDS[kind](folder)
    print(folder)


if __name__ == "__main__":
    main()
