"""What a driver and the tool call: `sk.dashboard`, `sk.metrics`. What they need is loaded by then,
and looked for before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skewless.errors import ArgumentError
from skewless.monitor.extras import METRICS, SERVER, need
from skewless.state.files import STATE_FOLDER
from skewless.state.owner import held_here

if TYPE_CHECKING:
    from skewless.monitor.metrics import MetricsServer
    from skewless.monitor.server import Dashboard

PORT = 7575
METRICS_PORT = 7576
HOST = "127.0.0.1"
TOKEN_LEAST = 8

_TOKEN = re.compile(rf"[A-Za-z0-9._~-]{{{TOKEN_LEAST},}}")


def dashboard(
    *checkpoints: str,
    port: int = PORT,
    host: str = HOST,
    token: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Dashboard:
    """Show the queries of some checkpoints on a local web page, live, whether or not they run. With
    no checkpoint, those that run in this process now.

    `port` 0 takes any that is free. It is reachable from this machine only, unless `host` says
    otherwise; then a `token` is needed to see it, which is made if none is given. `settings` are
    Hadoop's, as in `history`, for stores that take more to be reached than the environment says.
    Returns an object with `.url` and `.stop()`.

    >>> shown = sk.dashboard("ckpt")                                       # doctest: +SKIP
    >>> print(shown.url)                                                   # doctest: +SKIP
    """
    if not checkpoints:
        checkpoints = tuple(folder.removesuffix(f"/{STATE_FOLDER}") for folder in held_here())
    if not checkpoints:
        accepted = "one checkpoint location or more, as no query runs in this process"
        raise ArgumentError("checkpoints", checkpoints, accepted)
    if token is not None and _TOKEN.fullmatch(token) is None:
        accepted = f"None, or at least {TOKEN_LEAST} letters, digits and any of -._~"
        raise ArgumentError("token", "…", accepted)  # it need not stand in logs
    need("dashboard", SERVER)
    from skewless.monitor.server import Dashboard

    return Dashboard([str(one) for one in checkpoints], host, port, token, settings).start()


def metrics(port: int = METRICS_PORT, host: str = HOST) -> MetricsServer:
    """Tell Prometheus of every batch that this process commits from now on, at
    `http://host:port/metrics`. Returns an object with `.url` and `.stop()`.

    >>> told = sk.metrics(port=9100)                                       # doctest: +SKIP
    """
    need("metrics", METRICS)
    from skewless.monitor.metrics import metrics_of_this_process

    return metrics_of_this_process(host, port)


def metrics_of_checkpoints(checkpoints: Sequence[str], host: str, port: int) -> MetricsServer:
    """The same of the queries of some checkpoints, in whatever process they run."""
    need("metrics", METRICS)
    from skewless.monitor.metrics import metrics_of

    return metrics_of(checkpoints, host, port)


def report(checkpoint: str, path: Path) -> int:
    """Write the page of a run; how many batches it shows is returned."""
    from skewless.monitor.page import write_page

    return len(write_page(checkpoint, path).whole.ids)
