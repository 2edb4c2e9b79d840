"""Deletes files that nobody needs any more, out of the way of the batches.

Names are used once, so that what no commit refers to may be deleted at any later time. A sweep
looks for files that nobody has told of, such as those of repeated tasks: what was there before a
commit was written, and no commit refers to, never counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from skewless.state.files import Folder
from skewless.state.parallel import each

log = logging.getLogger("skewless")


class Janitor:
    """Of one state folder, on the driver."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._pool: ThreadPoolExecutor | None = None
        self._deleting: Future[None] | None = None
        self._listing: Future[list[str]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_folder": self._folder, "_pool": None, "_deleting": None, "_listing": None}

    def delete(self, names: Collection[str]) -> None:
        """Remove files. A remote store is asked while the next batch runs, one batch's files after
        the other's; a local disk does it before that could begin."""
        if self._folder.is_local:
            self._delete(names)
        elif names:
            self.wait()
            self._deleting = self._background(self._delete, names)

    def _delete(self, names: Collection[str]) -> None:
        try:
            each(self._folder, self._folder.delete, names)
        except OSError as error:
            log.warning("could not delete what is not needed any more: %s", error)

    def wait(self) -> None:
        """Return when all is deleted that was asked for."""
        if self._deleting is not None:
            self._deleting.result()
            self._deleting = None

    def found(
        self, places: Iterable[str], wanted: Callable[[str], bool] = lambda name: True
    ) -> list[str]:
        """The files in some places, those with a wanted name."""
        return [
            f"{place}/{name}"
            for place in places
            for name in self._folder.list(place)
            if wanted(name)
        ]

    def begin_sweep(
        self, places: Iterable[str], wanted: Callable[[str], bool] = lambda name: True
    ) -> None:
        """Begin to look for what is in some places and may be removed."""
        if self._listing is None:
            self._listing = self._background(self.found, tuple(places), wanted)

    def end_sweep(self, referred: Callable[[], set[str]]) -> None:
        """Remove what was there and is not referred to, if that is known by now. A batch has been
        committed since, so that all that was written before is referred to, or never will be."""
        if self._listing is None or not self._listing.done():
            return
        listing, self._listing = self._listing, None
        self.wait()
        self._deleting = self._background(lambda: self._delete(set(listing.result()) - referred()))

    def _background(self, do: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="skewless-janitor")
        return self._pool.submit(do, *arguments)
