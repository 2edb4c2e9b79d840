"""What the dashboard answers, to whom, and what it never does."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import skewless as sk
from skewless.errors import ArgumentError, MissingPackageError
from skewless.monitor import extras
from skewless.monitor.following import Follower, models_of
from skewless.monitor.server import Dashboard, is_loopback, make_app
from skewless.state.owner import CheckpointLock
from tests.monitor.histories import Story, Written, checkpoint, composed_checkpoint

STORY = Story(hot="<script>alert(1)</script>", hot_from=4, split_after=8)
HERE = "http://127.0.0.1:7575"


def follower_of(*roots: Path) -> Follower:
    """One that is refreshed by hand."""
    follower = Follower(models_of([str(root) for root in roots]))
    for model in follower.models:
        model.refresh(budget_s=10)
    return follower


def client_of(*roots: Path, token: str | None = None) -> TestClient:
    return TestClient(make_app(follower_of(*roots), token), base_url=HERE)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    root = tmp_path_factory.mktemp("asked")
    checkpoint(root / "one", STORY, 20)
    composed_checkpoint(root / "two", 12)
    with client_of(root / "one", root / "two") as client:
        yield client


def state(client: TestClient, **params: Any) -> Any:
    answer = client.get("/api/state", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


# What is answered


def test_all_queries_in_a_few_figures(asked: TestClient) -> None:
    queries = state(asked)["queries"]
    assert [q["name"] for q in queries] == ["join", "join-1 → aggregate-2"]
    assert [q["last_batch"] for q in queries] == [19, 11]
    assert queries[1]["operators"] == ["join-1", "aggregate-2"]
    assert state(asked)["views"] == {}


def test_views_of_one_query_and_operator(asked: TestClient) -> None:
    told = state(asked, query=1, operator="aggregate-2", want="heat,series")["views"]
    assert list(told) == ["heat", "series"]
    assert len(told["heat"]["work_ms"]) == 4


def test_only_what_is_new_is_sent(tmp_path: Path) -> None:
    written = checkpoint(tmp_path, STORY, 20)
    follower = follower_of(tmp_path)
    client = TestClient(make_app(follower), base_url=HERE)
    first = state(client, want="series,decisions")
    has = {k: first["queries"][0][k] for k in ("generation", "version")}
    assert state(client, want="series:19,decisions:0", **has)["views"] == {}
    written.run(STORY, range(20, 22))
    follower.models[0].refresh()
    new = state(client, want="series:19,decisions:0", **has)["views"]["series"]
    assert (new["at"], new["whole"]) == ([20, 21], False)
    assert new["columns"]["ms"]["mean"] == state(client, want="series")["views"]["series"][
        "columns"]["ms"]["mean"][-2:]  # fmt: skip
    other = state(
        client, want="series:19", version=has["version"], generation=has["generation"] - 1
    )
    assert other["views"]["series"]["whole"] is True


def test_a_page_of_an_earlier_dashboard_gets_all(tmp_path: Path) -> None:
    for name in ("one", "two"):
        checkpoint(tmp_path / name, STORY, 20)
    first = state(TestClient(make_app(follower_of(tmp_path / "one")), base_url=HERE), want="series")
    has = {k: first["queries"][0][k] for k in ("generation", "version")}
    other = TestClient(make_app(follower_of(tmp_path / "two")), base_url=HERE)
    assert state(other, want="series:19", **has)["views"]["series"]["whole"] is True


def test_a_key_is_looked_up(asked: TestClient) -> None:
    told = asked.get("/api/key", params={"value": STORY.hot}).json()
    assert (told["key"], told["instances"]) == (STORY.hot, list(STORY.sharing))


def test_the_query_is_described(asked: TestClient) -> None:
    assert asked.get("/api/about").json()["facts"]["within"] == "-1 minute to 1 minute"


def test_json_is_json_and_nothing_else(asked: TestClient) -> None:
    for path in ("/api/state?want=keys,decisions,placement", "/api/key?value=%3Cscript%3E"):
        answer = asked.get(path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        json.loads(answer.text)


def test_the_page_has_all_its_files_and_asks_nobody_else(asked: TestClient) -> None:
    page = asked.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    for name in ("style.css", "format.js", "data.js", "charts.js", "sections.js", "app.js"):
        assert f"assets/{name}" in page.text
        found = asked.get(f"/assets/{name}")
        assert found.status_code == 200
        assert "://" not in found.text.replace("http://www.w3.org/2000/svg", "")
        tag = {"if-none-match": found.headers["etag"]}
        assert asked.get(f"/assets/{name}", headers=tag).status_code == 304
    assert "://" not in page.text
    charts = asked.get("/assets/plotly.js").content
    # The parts of it that are used: a browser takes three times as long to load all of it.
    assert b"plotly.js (cartesian" in charts[:100] and 1_000_000 < len(charts) < 2_000_000


@pytest.mark.parametrize(
    "path",
    [
        "/api/state?query=2", "/api/state?query=-1", "/api/state?query=x", "/api/state?points=3",
        "/api/state?points=100000", "/api/state?want=everything", "/api/state?want=series:x",
        "/api/state?batches=-1", "/api/key", "/api/key?value=",
    ],
)  # fmt: skip
def test_bad_questions_are_refused(asked: TestClient, path: str) -> None:
    answer = asked.get(path)
    assert answer.status_code == 400
    assert "must" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/assets/..%2f..%2fserver.py", "/assets/%2e%2e/server.py", "/assets//etc/passwd",
        "/assets/index.html", "/api/state/../../etc/passwd", "/tmp", "/api",
    ],
)  # fmt: skip
def test_no_path_is_taken_from_a_request(asked: TestClient, path: str) -> None:
    assert asked.get(path).status_code in (404, 405)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(asked: TestClient, method: str) -> None:
    for path in ("/", "/api/state", "/api/key", "/assets/app.js"):
        assert asked.request(method, path).status_code == 405


def test_pages_of_several_queries_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Whoever held one query's lock and waited for another's could wait for ever."""
    for name in ("one", "two"):
        checkpoint(tmp_path / name, STORY, 3)
    follower, held = follower_of(tmp_path / "one", tmp_path / "two"), list[str]()

    class Lock:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            assert set(held) <= {self.name}, "two at once"
            held.append(self.name)

        def __exit__(self, *_: object) -> None:
            held.remove(self.name)

    for model in follower.models:
        model.lock = Lock(model.location)  # type: ignore[assignment]
    client = TestClient(make_app(follower), base_url=HERE)
    for query in (0, 1):
        told = state(client, query=query, want="series")
        assert [q["last_batch"] for q in told["queries"]] == [2, 2]


# Who is let in


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7575", "10.0.0.3", "[::1", "localhost:x", ""]
)
def test_a_name_that_points_here_is_not_enough(asked: TestClient, host: str) -> None:
    answer = asked.get("/api/state", headers={"host": host})
    assert answer.status_code == 400
    assert "queries" not in answer.text


@pytest.mark.parametrize("host", ["localhost:7575", "127.0.0.1", "[::1]:7575"])
def test_this_machine_goes_by_its_names(asked: TestClient, host: str) -> None:
    assert asked.get("/api/state", headers={"host": host}).status_code == 200


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    root = tmp_path_factory.mktemp("guarded")
    checkpoint(root, STORY, 2)
    return client_of(root, token="s3cret-token")


@pytest.mark.parametrize("path", ["/", "/api/state", "/api/about", "/api/key?value=1",
                                  "/assets/app.js", "/assets/plotly.js", "/nowhere"])  # fmt: skip
@pytest.mark.parametrize("told", ["", "?token=", "?token=s3cret", "?token=s3cret-tokenx"])
def test_without_the_token_nothing_is_told(guarded: TestClient, path: str, told: str) -> None:
    answer = guarded.get(path + told.replace("?", "&" if "?" in path else "?"))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "s3cret" not in answer.text and "join" not in answer.text


def test_with_the_token_it_is_all_there(guarded: TestClient) -> None:
    entered = guarded.get("/", params={"token": "s3cret-token"}, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    guarded.cookies.clear()
    bearer = {"authorization": "Bearer s3cret-token"}
    assert guarded.get("/api/state", headers=bearer).status_code == 200
    assert guarded.get("/api/state", headers={"authorization": "Bearer no"}).status_code == 401
    assert guarded.get("/api/state", headers={"authorization": "Basic s3cret"}).status_code == 401


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.1.2.3", False), ("example", False)],
)  # fmt: skip
def test_what_only_this_machine_reaches(host: str, is_it: bool) -> None:
    assert is_loopback(host) == is_it


# As a driver starts it


def fetched(url: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        with opener.open(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_from_a_driver(tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 3)
    with sk.dashboard(str(tmp_path), port=0) as shown:
        assert shown.url.startswith("http://127.0.0.1:") and shown.token is None
        assert fetched(shown.url)[0] == 200
        assert fetched(f"{shown.url}api/state")[0] == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(shown.url, timeout=2)
    shown.stop()


def test_of_all_queries_of_a_driver(tmp_path: Path) -> None:
    class Running:
        isActive = True

        def __init__(self) -> None:
            self.ended = threading.Event()

        def awaitTermination(self) -> None:
            self.ended.wait()

    (tmp_path / "skewless").mkdir()
    query, closed = Running(), threading.Event()
    lock = CheckpointLock(Written(tmp_path).folder)
    lock.acquire()
    lock.release_after(query, closed.set)
    checkpoint(tmp_path, STORY, 3)
    with sk.dashboard(port=0) as shown:
        told = json.loads(fetched(f"{shown.url}api/state")[1])
    assert [q["checkpoint"] for q in told["queries"]] == [str(tmp_path)]
    query.ended.set()
    closed.wait(10)


def test_where_others_can_reach_it_a_token_is_made(tmp_path: Path) -> None:
    checkpoint(tmp_path, STORY, 3)
    with sk.dashboard(str(tmp_path), port=0, host="0.0.0.0") as shown:
        assert shown.token and len(shown.token) >= 32
        address = shown.url.partition("?")[0].replace("0.0.0.0", "127.0.0.1")
        assert fetched(address)[0] == 401
        assert fetched(f"{address}?token=no")[0] == 401
        assert fetched(shown.url.replace("0.0.0.0", "127.0.0.1"))[0] == 200
        assert shown.token not in repr(shown)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with sk.dashboard(str(tmp_path), port=0) as shown:
        port = int(shown.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(ArgumentError, match=rf"`port` must be .* received '127.0.0.1:{port}'"):
            sk.dashboard(str(tmp_path), port=port)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"port": -1}, "port"),
        ({"port": 70_000}, "port"),
        ({"port": True}, "port"),
        ({"token": ""}, "token"),
        ({"token": "short"}, "token"),
        ({"token": "a" * 20 + "ä"}, "token"),
        ({"host": "no.such.host.invalid"}, "host"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{named}` must be"):
        sk.dashboard(str(tmp_path), **({"port": 0} | arguments))


def test_there_must_be_a_checkpoint() -> None:
    with pytest.raises(ArgumentError, match="`checkpoints` must be one"):
        sk.dashboard()


@pytest.mark.parametrize(
    ("missing", "extra"),
    [("starlette", "dashboard"), ("uvicorn", "dashboard"), ("prometheus_client", "metrics")],
)
def test_what_is_not_installed_is_named(
    missing: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda n: None if n == missing else real(n))
    with pytest.raises(MissingPackageError, match=rf'{missing} is not.*"skewless\[{extra}\]"'):
        if extra == "metrics":
            sk.metrics(port=0)
        else:
            sk.dashboard("x", port=0)


def test_while_nobody_looks_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(tmp_path, STORY, 2)
    follower = follower_of(tmp_path)
    assert not follower._is_nobody_there()
    monkeypatch.setattr("skewless.monitor.following.LOOKED_AT_S", -1.0)
    assert follower._is_nobody_there()
    follower.asked()
    assert follower._wake.is_set()


def test_a_dashboard_says_where_it_is(tmp_path: Path) -> None:
    made = Dashboard([str(tmp_path)], "127.0.0.1", 0)
    assert repr(made) == f"Dashboard({made.url})"
    made.stop()
