#!/usr/bin/env python3
"""What the dashboard costs: reading many batches, opening the page, following a query.

    .venv/bin/python scripts/dashboard_cost.py [BATCHES [INSTANCES [SECONDS]]]

Histories are made up. Times in a browser depend on who else works on the machine; processor times
less so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from skewless.monitor.following import models_of  # noqa: E402
from skewless.monitor.views import VIEWS, Window  # noqa: E402
from tests.monitor.browser import WIDE, chromium  # noqa: E402
from tests.monitor.histories import Story, Written, checkpoint  # noqa: E402

POINTS = 600
DEFAULTS = (10_000, 8, 40)


def spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def timed(what: str, do: Callable[[], Any]) -> Any:
    begun, cpu = time.monotonic(), time.process_time()
    found = do()
    wall, cpu = time.monotonic() - begun, time.process_time() - cpu
    print(f"{what}: {wall:.2f} s, {cpu:.2f} s of processor time")
    return found


def read(root: Path) -> None:
    """As the server reads: the newest first, then all."""
    (model,) = models_of([str(root)])
    timed("first look", model.refresh)
    print(f"  {len(model.whole.ids):,} batches are known, {model.waiting:,} wait")

    def all_of_it() -> None:
        while model.waiting:
            model.refresh()

    timed("all others", all_of_it)
    for what, since in (("all views, when opened", -1), ("after a batch", model.last_batch - 1)):
        window = Window(points=POINTS, since=since)
        told = timed(what, lambda w=window: [json.dumps(view(model, w)) for view in VIEWS.values()])
        print(f"  {sum(map(len, told)):,} bytes")


def follow(root: Path, story: Story, batches: int, seconds: int) -> None:
    """A dashboard in a process of its own, with a page open."""
    code = "from skewless.cli import main; main()"
    command = [sys.executable, "-c", code, "dashboard", str(root), "--port", "0", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    url, server = json.loads(process.stdout.readline())["url"], psutil.Process(process.pid)
    with chromium() as browser:
        for what in ("opened at once", "opened again", "opened again"):
            page = browser.new_context(viewport=WIDE).new_page()
            asked = page.context.new_cdp_session(page)
            asked.send("Performance.enable", {"timeDomain": "threadTicks"})
            begun = time.monotonic()
            page.goto(url)
            page.locator("#tiles .tile").first.wait_for()
            figures = time.monotonic() - begun
            page.locator("#latency .chart .main-svg").first.wait_for()
            charts, load = time.monotonic() - begun, os.getloadavg()[0] / (os.cpu_count() or 1)
            print(f"{what}: {figures:.2f} s, charts {charts:.2f} s (load {load:.1f} per core)")
            told = asked.send("Performance.getMetrics")["metrics"]
            cpu_s = {one["name"]: one["value"] for one in told}
            print(f"  {cpu_s['TaskDuration']:.2f} s of the page's processor time")
            while "reading" in page.locator("#where").inner_text():
                page.wait_for_timeout(200)
        written, cpu, begun = Written(root), spent(server), time.monotonic()
        for number in range(seconds):
            written.run(story, [batches + number])
            time.sleep(max(0.0, begun + number + 1 - time.monotonic()))
        share = (spent(server) - cpu) / (time.monotonic() - begun)
        memory = server.memory_info().rss / 1e6
        print(f"following a batch a second: {share:.2%} of a core, {memory:.0f} MB")
    process.terminate()
    process.wait()


def main() -> None:
    given = [*map(int, sys.argv[1:]), *DEFAULTS[len(sys.argv) - 1 :]]
    batches, instances, seconds = given
    story = Story(instances=instances, figures=instances < 100)
    with tempfile.TemporaryDirectory() as folder:
        print(f"{batches:,} batches of {instances:,} instances")
        checkpoint(Path(folder), story, batches)
        read(Path(folder))
        follow(Path(folder), story, batches, seconds)


if __name__ == "__main__":
    main()
