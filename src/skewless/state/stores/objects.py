"""Folders in an object store: S3, Google Cloud Storage, Azure.

An object is seen when its upload is complete, so that every write is atomic. There are no folders:
a name with slashes is all that there is to one.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from skewless.state.stores.ahead import ahead
from skewless.state.stores.clients import said
from skewless.state.stores.remote import RemoteStore
from skewless.state.stores.store import Data, Store
from skewless.state.stores.traffic import TRAFFIC

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

Clients = Callable[[int | None], "Client"]

QUICK_RETRIES = 2
PART_BYTES = 16 << 20  # of an upload in parts, and of a download
PARTS_AT_A_TIME = 4
COPY_BYTES_MAX = 5 << 30  # S3 copies no more by one request
PARTS_MAX = 10_000  # of one upload; so larger objects have larger parts
LIST_NAMES = 1000  # per request
TRIES, WAIT_S = 6, 0.5  # of requests that the client must not repeat by itself


class ObjectStore(RemoteStore):
    """Objects whose names begin with a prefix. `clients` gives a client that makes so many retries.
    Two folders of one client can move objects without their content coming here."""

    def __init__(self, clients: Clients, uri: str, prefix: str, retries: int | None = None) -> None:
        self._clients, self._uri, self._prefix = clients, uri, prefix
        self._client, self._once = clients(retries), clients(0)

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    def make(self, name: str) -> None:
        pass

    def write(self, name: str, data: Data, *, durable: bool = True) -> None:
        view = memoryview(data).cast("B")
        with _errors(1 + len(view) // PART_BYTES):
            obstore.put(
                self._client,
                self._key(name),
                view,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_A_TIME,
            )
        TRAFFIC.add(written_bytes=len(view))

    def write_atomically(self, name: str, pieces: Iterable[Data], *, durable: bool = True) -> None:
        found = iter(pieces)
        first, second = next(found, b""), next(found, None)
        if second is None:
            self.write(name, first)
        else:
            self._write_parts(name, chain((first, second), found), PART_BYTES)

    def _write_parts(self, name: str, pieces: Iterable[Data], part_bytes: int) -> None:
        written = 0
        with _errors(), ahead(pieces) as found:

            def counted() -> Iterator[memoryview]:
                nonlocal written
                for piece in found:
                    view = memoryview(piece).cast("B")
                    written += len(view)
                    yield view

            obstore.put(
                self._client,
                self._key(name),
                counted(),
                chunk_size=part_bytes,
                max_concurrency=PARTS_AT_A_TIME,
            )
        TRAFFIC.add(written_bytes=written, requests=written // part_bytes)

    def create(self, name: str, data: bytes) -> bool:
        """Retried here and not by the client: the answer to a request that did create the object
        may be lost, and the next one is told that there is one. Then its content tells whose."""
        for unsure, last in ((n > 0, n == TRIES - 1) for n in range(TRIES)):
            try:
                with _errors():
                    obstore.put(self._once, self._key(name), data, mode="create")
                TRAFFIC.add(written_bytes=len(data))
                break
            except FileExistsError:
                return unsure and self.read(name) == data
            except OSError as error:
                if last or isinstance(error, PermissionError | FileNotFoundError):
                    raise
                time.sleep(WAIT_S)
        return True

    def quick(self) -> Store:
        return ObjectStore(self._clients, self._uri, self._prefix, QUICK_RETRIES)

    def pieces(self, name: str) -> Iterator[bytes]:
        with _errors():
            for piece in obstore.get(self._client, self._key(name)).stream(PART_BYTES):
                TRAFFIC.add(fetched_bytes=len(piece))
                yield piece

    def size(self, name: str) -> int | None:
        return self._size(self._key(name))

    def _size(self, key: str) -> int | None:
        try:
            with _errors():
                return int(obstore.head(self._client, key)["size"])
        except FileNotFoundError:
            return None

    def list(self, name: str) -> list[str]:
        top = self._key(name)
        start = len(top) + 1 if top else 0
        # Hadoop stands empty objects in for folders: they are listed by the name of the folder,
        # but there is no object of just that name.
        return sorted(
            key[start:]
            for key, size in self._below(top)
            if len(key) > start and (size or self._size(key) is not None)
        )

    def _below(self, top: str) -> Iterator[tuple[str, int]]:
        with _errors():
            for found in obstore.list(self._client, top or None, chunk_size=LIST_NAMES):
                TRAFFIC.add(requests=1)
                yield from ((item["path"], item["size"]) for item in found)

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), _errors():
            obstore.delete(self._client, self._key(name))

    def delete_folder(self, name: str) -> None:
        keys = [key for key, _ in self._below(self._key(name))]
        try:
            with _errors(1 + len(keys) // LIST_NAMES):
                obstore.delete(self._client, keys)
        except FileNotFoundError:  # others delete, too, and not every store takes that for done
            for key in keys:
                with contextlib.suppress(FileNotFoundError), _errors():
                    obstore.delete(self._client, key)

    def uri(self, name: str) -> str:
        return f"{self._uri}/{self._key(name)}"

    def part(self, name: str, offset: int, length: int) -> Data:
        with _errors():
            found = obstore.get_range(self._client, self._key(name), start=offset, length=length)
        TRAFFIC.add(fetched_bytes=len(found))
        return bytes(found)

    def take(self, source: Store, name: str, target: str) -> bool:
        if not isinstance(source, ObjectStore) or source._client is not self._client:
            return False
        size = source.size(name)
        if size is None:
            raise FileNotFoundError(errno.ENOENT, "No such object", source._key(name))
        if size < COPY_BYTES_MAX:
            with _errors():
                obstore.copy(self._client, source._key(name), self._key(target))
        else:
            part_bytes = max(PART_BYTES, -(-size // PARTS_MAX))
            self._write_parts(target, source.pieces(name), part_bytes)
        source.delete(name)
        return True


@contextlib.contextmanager
def _errors(requests: int = 1) -> Iterator[None]:
    """Count requests, and tell what goes wrong as an OSError, in its first lines: what follows them
    are the client's insides."""
    TRAFFIC.add(requests=requests)
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, said(error)) from None
    except (AlreadyExistsError, PreconditionError) as error:
        raise FileExistsError(errno.EEXIST, said(error)) from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, said(error)) from None
    except BaseError as error:
        raise OSError(errno.EIO, said(error)) from None
