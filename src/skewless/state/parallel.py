"""Many requests to a store at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from skewless.state.files import Folder

REQUESTS = 32  # at a time: most of one is waiting

Item = TypeVar("Item")
Found = TypeVar("Found")


def each(folder: Folder, do: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """What a function that asks a folder gives for each item, in their order. A local disk answers
    before a thread has begun, so there one is asked after the other."""
    wanted = list(items)
    if folder.is_local or len(wanted) < 2:
        return [do(item) for item in wanted]
    with ThreadPoolExecutor(min(REQUESTS, len(wanted))) as pool:
        return list(pool.map(do, wanted))
