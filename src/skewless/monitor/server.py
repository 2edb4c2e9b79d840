"""The dashboard as a small web server: it answers questions about the checkpoints that it was
started with, and nothing else. It writes nothing."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skewless.monitor.assets import PAGE, assets, text_of
from skewless.monitor.following import EVERY_S, Follower, models_of
from skewless.monitor.lookup import look_up
from skewless.monitor.model import QueryModel
from skewless.monitor.serving import Serving, check_port, in_address, not_free
from skewless.monitor.views import POINTS, POINTS_MAX, VIEWS, Window, about, overview

KEY_MAX = 10_000  # characters of a key that is looked up

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\[\]:]+))(?::\d+)?")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-elem 'self' "
        "'unsafe-inline'; style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets nobody in who does not know the token, if there is one; without one, nobody who came by
    another name than this machine's own: a page elsewhere could have its name point here."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                told = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *told]}
            await send(message)

        refusal = self._refusal(HTTPConnection(scope))
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refusal(self, connection: HTTPConnection) -> Response | None:
        if self._token is None:
            asked = _HOST.fullmatch(connection.headers.get("host", ""))
            if asked and is_loopback(asked["address"] or asked["name"]):
                return None
            return PlainTextResponse("This dashboard goes by another name.\n", 400)
        given = connection.query_params.get("token")
        if given is not None and self._is_token(given):
            if connection.url.path != "/":
                return None
            # From here on a cookie has it, and addresses that are shown or sent around do not.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(_cookie(connection), given, httponly=True, samesite="strict")
            return answer
        if self._is_token(_told_token(connection)):
            return None
        return PlainTextResponse(
            "This dashboard asks for its token: open the address that was printed when it was "
            "started, or send the header `Authorization: Bearer TOKEN`.\n",
            401,
            {"www-authenticate": "Bearer"},
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self._token or "").encode())


def _cookie(connection: HTTPConnection) -> str:
    """A name per port: a browser does not tell the cookies of two ports apart."""
    return f"skewless-{connection.url.port or 80}"


def _told_token(connection: HTTPConnection) -> str:
    scheme, _, given = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    return connection.cookies.get(_cookie(connection), "")


def _json(content: Any) -> Response:
    body = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(body, media_type="application/json", headers={"cache-control": "no-store"})


def _number(request: Request, name: str, default: int, least: int, most: int) -> int:
    told = request.query_params.get(name, str(default))
    try:
        number = int(told)
    except ValueError:
        raise HTTPException(400, f"{name} must be a number") from None
    if not least <= number <= most:
        raise HTTPException(400, f"{name} must be from {least} to {most}")
    return number


class Answers:
    """What is asked and answered. Checkpoints go by their number: no path is ever taken from a
    request."""

    def __init__(self, follower: Follower) -> None:
        self._follower, self._models = follower, follower.models

    def routes(self) -> list[Route]:
        asked: dict[str, Callable[[Request], Response]] = {
            "/": self.page,
            "/assets/{name}": self.asset,
            "/api/state": self.state,
            "/api/about": self.about,
            "/api/key": self.key,
        }
        return [Route(path, answer, methods=["GET"]) for path, answer in asked.items()]

    def page(self, request: Request) -> Response:
        return Response(
            text_of(PAGE), media_type="text/html", headers={"cache-control": "no-cache"}
        )

    def asset(self, request: Request) -> Response:
        found = assets().get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "there is no such file")
        headers = {"etag": f'"{found.tag}"', "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.type, headers=headers)

    def _model(self, request: Request) -> QueryModel:
        return self._models[_number(request, "query", 0, 0, len(self._models) - 1)]

    def state(self, request: Request) -> Response:
        """All queries in a few figures; and of one, the views that are wanted, as far as they are
        new: `want=series:41,keys` is for who has the series up to batch 41."""
        self._follower.asked()
        chosen = self._model(request)
        window = Window(
            request.query_params.get("operator", ""),
            _number(request, "batches", 0, 0, 1 << 40),
            _number(request, "points", POINTS, 10, POINTS_MAX),
        )
        told: dict[str, Any] = {"queries": [], "views": {}}
        for model in self._models:
            # One lock at a time: another page may be asking for another query.
            told["queries"].append({} if model is chosen else _in_short(model))
        with chosen.lock:  # what is told of it is of one moment
            told["queries"][self._models.index(chosen)] = overview(chosen, window)
            has_older = _number(request, "generation", -1, -1, 1 << 40) != chosen.generation
            has_all = _number(request, "version", -1, -1, 1 << 40) == chosen.version
            for view, since in _wanted(request):
                if since >= 0 and has_all and not has_older:
                    continue
                asked = replace(window, since=-1 if has_older else since)
                told["views"][view] = VIEWS[view](chosen, asked) | {"whole": asked.since < 0}
        return _json(told)

    def about(self, request: Request) -> Response:
        model = self._model(request)
        with model.lock:
            return _json(about(model))

    def key(self, request: Request) -> Response:
        model, value = self._model(request), request.query_params.get("value", "")
        if not value or len(value) > KEY_MAX:
            raise HTTPException(400, f"value must be a key of at most {KEY_MAX} characters")
        with model.lock:
            return _json(look_up(model, request.query_params.get("operator", ""), value))


def _in_short(model: QueryModel) -> dict[str, Any]:
    with model.lock:
        return overview(model)


def _wanted(request: Request) -> list[tuple[str, int]]:
    wanted = []
    for one in filter(None, request.query_params.get("want", "").split(",")):
        name, _, since = one.partition(":")
        if name not in VIEWS or not (since or "0").lstrip("-").isdigit():
            raise HTTPException(400, f"want must name some of {', '.join(VIEWS)}")
        wanted.append((name, int(since or -1)))
    return wanted


def make_app(follower: Follower, token: str | None = None) -> Starlette:
    """The application: a page, its files and what it asks."""
    return Starlette(routes=Answers(follower).routes(), middleware=[Middleware(Guard, token=token)])


def _bound(host: str, port: int) -> socket.socket:
    """A socket that waits for callers, or an error that says what to change."""
    check_port(port)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        raise not_free(host, port, error) from None
    return made


class Dashboard(Serving):
    """A dashboard that runs in threads of this process, until it is stopped."""

    def __init__(
        self,
        checkpoints: Sequence[str],
        host: str,
        port: int,
        token: str | None = None,
        settings: Mapping[str, str] | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe(24)
        assets()  # what is missing is missed now
        self.token = token
        self._follower = Follower(models_of(checkpoints, settings), every_s)
        self._socket = _bound(host, port)
        config = uvicorn.Config(
            make_app(self._follower, token), log_level="warning", access_log=False, lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="skewless-http", daemon=True
        )
        shown = in_address(host)
        self._address = f"http://{shown}:{self._socket.getsockname()[1]}/"

    @property
    def url(self) -> str:
        """Where it is, with the token if there is one."""
        return self._address + (f"?token={quote(self.token)}" if self.token else "")

    def start(self) -> Self:
        self._socket.listen(128)  # who calls from now on is answered
        self._follower.start()
        self._thread.start()
        return self

    def stop(self) -> None:
        """End it. Stopping it again does nothing."""
        if self._thread.is_alive():
            self._server.should_exit = True
            self._thread.join()
            self._follower.stop()
        self._socket.close()

    def __repr__(self) -> str:
        return f"Dashboard({self._address})"
