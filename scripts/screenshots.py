#!/usr/bin/env python3
"""Pictures of the dashboard and of the demo.

    .venv/bin/python scripts/screenshots.py [FOLDER [run | made-up | demo]...]

`run`: the dashboard of a longer demo, as it ran. `demo`: its terminal and its plot. The pictures
have names of their own, so that FOLDER may be docs/pictures/. `made-up`: every view of queries that
are made up, light, dark and narrow, to be looked at after every change of the page.

Needs a Chromium, such as Debian's.
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from PIL import Image  # noqa: E402
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
    take_sections(page, {section: folder / f"{look}-{section}.png" for section in SECTIONS})


def take_sections(page: Any, files: Mapping[str, Path]) -> None:
    """Some sections, with a little of the ground around them."""
    page.set_viewport_size({**page.viewport_size, "height": 2000})  # nothing lies over a section
    for section, file in files.items():
        page.locator(f"#{section}").screenshot(path=file)


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


# The pictures of the documents: which section, in which look, and how much of it.
OF_RUN = {
    "flow": "light", "balance": "dark", "keys": "light", "decisions": "light",
    "placement": "dark",
}  # fmt: skip
RUN = ("demo", "--no-spark", "--batches", "40", "--rows", "200000", "--output", ".")


def of_run(folder: Path) -> None:
    """What the documents show: the dashboard of Auto and Hash in a demo of more batches."""
    work = Path(tempfile.gettempdir()) / "city"  # which is to be read in the pictures
    work.mkdir()
    try:
        run_demo(work, *RUN)
        roots = [str(work / who / "checkpoint") for who in ("auto", "hash")]
        with Dashboard(roots, "127.0.0.1", 0).start() as shown, chromium() as browser:
            for look in ("light", "dark"):
                page = browser.new_context(**LOOKS[look]).new_page()
                page.goto(shown.url)
                page.locator("#tiles .tile").first.wait_for()
                draw_all(page)
                page.locator("#keys-table button").first.click()
                page.locator("#found dl").wait_for()
                page.evaluate("window.scrollTo(0, 0)")
                page.wait_for_timeout(300)  # charts fade in
                if look == "light":
                    page.screenshot(path=folder / "dashboard.png")
                take_sections(
                    page, {s: folder / f"{s}.png" for s, of in OF_RUN.items() if of == look}
                )
    finally:
        shutil.rmtree(work)


def of_made_up(folder: Path) -> None:
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
        for name in ("docs", "examples"):  # of which the demo tells where it finds them
            (Path(work) / name).symlink_to(ROOT / name)
        run_demo(Path(work), "demo")
        os.chdir(work)  # paths in the picture are short
        shutil.copy("demo-output/story.svg", folder / "story.svg")
        drawn = demo_as_svg(DemoFolder(Path("demo-output")))
        (folder / "demo.svg").write_text(drawn, encoding="utf-8")
        os.chdir(ROOT)


def run_demo(work: Path, *command: str) -> None:
    code = "from skewless.cli import main; main()"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", code, *command], cwd=work, env=env, check=True)


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


def shrink(folder: Path) -> None:
    """A page has few colours: a palette of them is half the size, and looks the same."""
    for file in folder.glob("*.png"):
        picture = Image.open(file)
        if picture.mode != "P":
            picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)


KINDS = {"run": of_run, "made-up": of_made_up, "demo": of_demo}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="screenshots-"))
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for kind in sys.argv[2:] or KINDS:
        KINDS[kind](folder)
    shrink(folder)
    print(folder)


if __name__ == "__main__":
    main()
