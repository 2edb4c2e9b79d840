"""Who wants to know of every batch that this process commits: `sk.on_batch`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from skewless.engine.report import BatchReport
from skewless.errors import ArgumentError
from skewless.state.files import STATE_FOLDER, Folder

log = logging.getLogger("skewless")

Listener = Callable[[str, BatchReport], object]

_lock = threading.Lock()
_subscriptions: list[Subscription] = []


class Subscription:
    """A function that is called after each batch, until it is removed."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def remove(self) -> None:
        """Call the function no more. Removing it again does nothing."""
        with _lock:
            if self in _subscriptions:
                _subscriptions.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()


def on_batch(listener: Listener) -> Subscription:
    """Call `listener(checkpoint, report)` after each batch that any query of this process commits,
    from now on. It is called in the query's thread: what takes long holds the next batch up. What
    it raises is logged, and never stops a query.

    >>> def tell(checkpoint, report):
    ...     print(checkpoint, report)
    >>> subscription = on_batch(tell)
    >>> subscription.remove()
    """
    if not callable(listener):
        raise ArgumentError("listener", listener, "a function of a checkpoint and a BatchReport")
    subscription = Subscription(listener)
    with _lock:
        _subscriptions.append(subscription)
    return subscription


def checkpoint_of(folder: Folder) -> str:
    """The checkpoint location that a state folder is in."""
    return folder.root.removesuffix(f"/{STATE_FOLDER}")


def tell_listeners(folder: Folder, report: BatchReport) -> None:
    """Call everybody who wants to know of a batch."""
    with _lock:
        listening = tuple(_subscriptions)
    for subscription in listening:
        try:
            subscription.listener(checkpoint_of(folder), report)
        except Exception:
            log.exception(
                "a listener failed on batch %d of %s; the query goes on",
                report.batch_id,
                checkpoint_of(folder),
            )
