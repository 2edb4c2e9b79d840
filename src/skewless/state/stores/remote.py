"""What all remote stores share: content is mapped from a cache on this machine's disk."""

from __future__ import annotations

from abc import abstractmethod

from skewless.state.stores.cache import FILES
from skewless.state.stores.store import Check, Data, Store


class RemoteStore(Store):
    """A folder that is not on this machine."""

    @abstractmethod
    def uri(self, name: str) -> str:
        """A name that no other file of any store has."""

    @abstractmethod
    def part(self, name: str, offset: int, length: int) -> Data:
        """Some bytes of a file; fewer if it ends before."""

    def keep(self, name: str, data: Data) -> None:
        FILES.keep(self.uri(name), data)

    def local_path(self, name: str, check: Check | None) -> str:
        return FILES.path(self.uri(name), lambda: self.pieces(name), check)

    def local_part(self, name: str, offset: int, length: int) -> tuple[str, int]:
        whole = FILES.held(self.uri(name))
        if whole is not None:
            return whole, offset
        uri = f"{self.uri(name)}#{offset}+{length}"
        return FILES.path(uri, lambda: [self.part(name, offset, length)]), 0

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        return bytes(memoryview(self.part(name, offset, length)))
