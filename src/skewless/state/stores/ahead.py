"""Pieces that are fetched while others are on their way."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator

from skewless.state.stores.store import Data

AHEAD = 2  # pieces
WAIT_S = 0.1
_Item = tuple[Data | None, BaseException | None]  # a piece, or what went wrong; neither at the end


@contextlib.contextmanager
def ahead(pieces: Iterable[Data]) -> Iterator[Iterator[Data]]:
    """The same pieces, asked for by a thread: a client that is writing cannot be asked to read."""
    items: queue.Queue[_Item] = queue.Queue(AHEAD)
    stop = threading.Event()

    def put(item: _Item) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                items.put(item, timeout=WAIT_S)
                return

    def feed() -> None:
        try:
            for piece in pieces:
                put((piece, None))
                if stop.is_set():
                    return
            put((None, None))
        except BaseException as error:
            put((None, error))

    def fed() -> Iterator[Data]:
        while True:
            piece, error = items.get()
            if error is not None:
                raise error
            if piece is None:
                return
            yield piece

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield fed()
    finally:
        stop.set()
        thread.join()
