"""The dashboard in a real browser: what one sees, as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skewless.monitor.page import write_page
from skewless.monitor.server import Dashboard
from tests.monitor.browser import (
    FIGURES,
    NARROW,
    WIDE,
    Complaints,
    chromium,
    draw_all,
    executable,
)
from tests.monitor.histories import Story, Written, batch_report, checkpoint, composed_checkpoint

pytestmark = [
    pytest.mark.skipif(executable() is None, reason="no Chromium here: apt install chromium"),
]
pytest.importorskip("playwright")

STORY = Story(hot_from=4, split_after=25)
EVIL = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1><b>b</b>&lt;"

PATIENCE_S = 30

Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    found = Complaints()
    yield found
    assert found.said == []


@pytest.fixture
def opened(browser: Any, complaints: Complaints) -> Iterator[Opened]:
    """Opens pages: of checkpoints, or at an address."""
    ends: list[Callable[[], object]] = []

    def open_page(*roots: Path, url: str | None = None, wait: bool = True, **options: Any) -> Any:
        if url is None:
            shown = Dashboard([str(root) for root in roots], "127.0.0.1", 0, every_s=0.1).start()
            ends.append(shown.stop)
            url = shown.url
        context = browser.new_context(**({"viewport": WIDE} | options))
        ends.append(context.close)
        page = context.new_page()
        complaints.watch(page)
        page.goto(url)
        if wait:
            page.locator("#throughput").scroll_into_view_if_needed()
            page.locator("#throughput .chart .main-svg").first.wait_for()
        return page

    yield open_page
    while ends:
        ends.pop()()


def says(page: Any, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for()


def until(page: Any, condition: str) -> None:
    """Wait until something holds in the page. Its policy lets no text be run there, so that the
    browser is asked again and again."""
    end = time.monotonic() + PATIENCE_S
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def plotted(page: Any, figure: str, trace: int = 0) -> Any:
    """What a chart has been given."""
    return page.evaluate(f"document.querySelector('#{figure} .chart').data[{trace}]")


@pytest.mark.slow
def test_it_follows_a_query(opened: Opened, tmp_path: Path) -> None:
    written = checkpoint(tmp_path, STORY, 20)
    page = opened(tmp_path)
    says(page, "#where", "batch 19")
    assert plotted(page, "throughput")["x"] == list(range(20))
    written.run(STORY, range(20, 23))
    says(page, "#where", "batch 22")
    until(page, "document.querySelector('#throughput .chart').data[0].x.length == 23")
    reports = [batch_report(STORY, b) for b in range(23)]
    rates = [sum(r.rows.values()) / r.duration_ms * 1000 for r in reports]
    assert plotted(page, "throughput")["y"] == pytest.approx(rates, rel=1e-3)


def test_a_split_as_it_happens(opened: Opened, tmp_path: Path) -> None:
    written = checkpoint(tmp_path, STORY, 25)
    page = opened(tmp_path)
    draw_all(page)
    assert page.locator("#decisions-table tr", has_text="split").count() == 0
    page.locator("#decisions").scroll_into_view_if_needed()
    written.run(STORY, range(25, 32))
    row = page.locator("#decisions-table tr", has_text="split")
    row.wait_for()
    assert "key 42" in row.inner_text() and "2, 3, 4, 5" in row.inner_text()
    assert "split of key 42 after batch 25" in page.locator("#said").inner_text()
    page.locator("#placement").scroll_into_view_if_needed()
    until(
        page, "[...document.querySelector('#instances .chart').data].some(t => t.name == 'key 42')"
    )
    # What was out of sight meanwhile is up to date when it is seen again.
    for figure in ("heat", "state", "latency"):
        page.locator(f"#{figure}").scroll_into_view_if_needed()
        until(page, f"document.querySelector('#{figure} .chart').data[0].x.length == 32")


@pytest.mark.slow
def test_a_checkpoint_that_is_deleted_and_comes_back(opened: Opened, tmp_path: Path) -> None:
    written = checkpoint(tmp_path / "ckpt", STORY, 10)
    page = opened(tmp_path / "ckpt")
    assert page.locator("#banner").is_hidden()
    written.root.rename(tmp_path / "away")
    says(page, "#banner", "is gone")
    assert page.locator("#throughput .chart").is_visible(), "what was known is still shown"
    (tmp_path / "away").rename(written.root)
    page.locator("#banner").wait_for(state="hidden")
    written.run(STORY, range(10, 12))
    says(page, "#where", "batch 11")


@pytest.mark.slow
def test_a_checkpoint_that_is_not_there_yet(opened: Opened, tmp_path: Path) -> None:
    page = opened(tmp_path / "later", wait=False)
    says(page, "#banner", "There is no checkpoint of a skewless query at")
    written = Written(tmp_path / "later").begin()
    says(page, "#verdict", "No batch has been committed yet.")
    written.run(STORY, range(2))
    page.locator("#throughput .chart .main-svg").first.wait_for()


@pytest.mark.slow
def test_ten_thousand_batches(opened: Opened, tmp_path: Path) -> None:
    story = Story(instances=4, figures=False, hot_from=7777, split_after=7779)
    checkpoint(tmp_path, story, 10_000)
    page = opened(tmp_path)
    until(page, "!document.querySelector('#where').textContent.includes('reading')")
    until(
        page,
        "document.querySelector('#throughput .chart').data.length == 3 && "
        "document.querySelector('#throughput .chart').data[0].x[0] == 0",
    )
    assert len(plotted(page, "throughput")["x"]) <= 641
    draw_all(page)
    says(page, "#decisions-table", "split")
    # Three batches of ten thousand are a peak that one sees.
    hottest = max(r.busiest_over_mean for r in (batch_report(story, b) for b in range(7777, 7780)))
    page.locator("#ratio").scroll_into_view_if_needed()
    assert max(plotted(page, "ratio", 1)["y"]) == pytest.approx(hottest, rel=1e-3)


@pytest.mark.slow
def test_a_thousand_instances(opened: Opened, tmp_path: Path) -> None:
    story = Story(instances=1000, slots_each=4, hot_from=4, split_after=10)
    checkpoint(tmp_path, story, 30)
    page = opened(tmp_path)
    draw_all(page)
    assert page.evaluate("document.querySelector('#heat .chart').data[0].y.length") == 125
    assert page.evaluate("document.querySelector('#instances .chart').data[0].x.length") == 1000


def test_keys_are_text(opened: Opened, tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(hot=EVIL, hot_from=2, split_after=5), 12)
    page = opened(tmp_path)
    draw_all(page)
    button = page.locator("#keys-table button").first
    assert button.inner_text() == EVIL
    button.click()
    says(page, "#found", "instances 2, 3, 4, 5, split")
    assert EVIL in page.locator("#found").inner_text()
    assert f"key {EVIL}"[:60] in page.locator("#decisions-table").inner_text()
    drawn = page.locator("#shares .legendtext").first
    assert drawn.text_content().startswith("<script>window.hacked=1</script>")
    page.locator("#timeline .chart").hover()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img").count() == 0


def test_a_token_is_asked_for(
    browser: Any, opened: Opened, tmp_path: Path, complaints: Complaints
) -> None:
    checkpoint(tmp_path, STORY, 5)
    shown = Dashboard([str(tmp_path)], "127.0.0.1", 0, token="a-token-to-guess").start()
    try:
        stranger = browser.new_page()
        answer = stranger.goto(shown.url.partition("?")[0])
        assert answer.status == 401 and "token" in stranger.content()
        stranger.close()
        page = opened(url=shown.url)
        assert "token" not in page.url
        draw_all(page)
        page.close()
    finally:
        shown.stop()


@pytest.mark.slow
def test_it_says_when_the_dashboard_is_gone(browser: Any, tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 5)
    shown = Dashboard([str(tmp_path)], "127.0.0.1", 0).start()
    page = browser.new_page()
    page.goto(shown.url)
    page.locator("#throughput .chart .main-svg").first.wait_for()
    shown.stop()
    says(page, "#banner", "does not answer")
    page.close()


@pytest.mark.slow
def test_many_queries_and_their_operators(opened: Opened, tmp_path: Path) -> None:
    checkpoint(tmp_path / "one", STORY, 10)
    composed_checkpoint(tmp_path / "two", 12)
    page = opened(tmp_path / "one", tmp_path / "two")
    says(page, "#all-table", "join-1 → aggregate-2")
    assert page.locator("#operator-control").is_hidden()
    page.locator("#all-table button", has_text="two").click()
    says(page, "#where", "batch 11")
    page.locator("#operator").select_option("aggregate-2")
    until(page, "document.querySelector('#tiles').textContent.includes('4 instances')")
    draw_all(page)
    says(page, "#instances", "does not place its work by slots")
    page.locator("#query").select_option("0")
    says(page, "#where", "batch 9")


@pytest.mark.slow
def test_by_keyboard_alone(opened: Opened, tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 30)
    page = opened(tmp_path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the figures"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        where = page.evaluate("document.activeElement.id || document.activeElement.tagName")
        reached.add(where)
        if where == "key":
            break
    assert {"key", "A", "SUMMARY"} <= reached
    page.keyboard.type("42")
    page.keyboard.press("Enter")
    says(page, "#found", "after batch 25")
    page.locator("#pause").focus()
    page.keyboard.press("Space")
    says(page, "#pulse", "paused")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, {"viewport": NARROW}],
    ids=["light", "dark", "narrow"],
)
def test_it_is_accessible(opened: Opened, tmp_path: Path, options: dict[str, Any]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    checkpoint(tmp_path / "one", Story(hot_from=4, split_after=8, hosts=("w-1", "w-2")), 30)
    composed_checkpoint(tmp_path / "two", 12)
    page = opened(tmp_path / "one", tmp_path / "two", **options)
    draw_all(page)
    page.locator("#latency summary").click()
    page.locator("#keys-table button").first.click()
    says(page, "#found", "after batch 8")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.slow
def test_it_fits_a_narrow_screen(opened: Opened, tmp_path: Path) -> None:
    long = "a-key-" * 40
    checkpoint(tmp_path, Story(hot=long, hot_from=2, split_after=5), 12)
    page = opened(tmp_path, viewport=NARROW)
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


@pytest.mark.slow
def test_ranges_of_batches(opened: Opened, tmp_path: Path) -> None:
    checkpoint(tmp_path, Story(figures=False), 300)
    page = opened(tmp_path)
    page.locator("#range").select_option("100")
    until(page, "document.querySelector('#throughput .chart').data[0].x[0] == 200")
    assert plotted(page, "throughput")["x"] == list(range(200, 300))


@pytest.mark.slow
def test_the_page_of_a_run_needs_no_server(
    opened: Opened, tmp_path: Path, complaints: Complaints
) -> None:
    composed_checkpoint(tmp_path / "ckpt", 60)
    file = tmp_path / "report.html"
    write_page(str(tmp_path / "ckpt"), file)
    page = opened(url=file.as_uri())
    draw_all(page)
    assert all(url.startswith(("file:", "data:", "blob:")) for url in complaints.asked)
    page.locator("#operator").select_option("join-1")
    until(page, "document.querySelector('#tiles').textContent.includes('8 instances')")
    draw_all(page)
    for name in FIGURES:
        if name not in ("traffic",):
            assert page.locator(f"#{name} .chart").count() == 1, name
            if name != "timeline":  # whose table stands below it
                assert page.locator(f"#{name} details.data").count() == 1, f"{name} as a table"
    page.locator("#key").fill("42")
    page.keyboard.press("Enter")
    says(page, "#found", "after batch 55")
    page.locator("#key").fill("toString")
    page.keyboard.press("Enter")
    says(page, "#found", "knows only the keys")
    assert page.locator("#range").is_hidden() and page.locator("#pause").is_hidden()
