"""Clients of object stores. They keep connections open: folders of one bucket share one."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from skewless.errors import StateAccessError
from skewless.state.stores import azure, gcs, s3
from skewless.state.stores.locations import GCS, S3, account_of
from skewless.state.stores.settings import Settings

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

TIMEOUT, CONNECT_TIMEOUT = timedelta(seconds=120), timedelta(seconds=5)


@functools.lru_cache(maxsize=64)
def client(scheme: str, authority: str, settings: Settings, retries: int | None = None) -> Client:
    """The client of a bucket or container, with as many retries as it likes if none are said.
    Nothing is asked of it yet."""
    retry = {} if retries is None else {"max_retries": retries}
    try:
        return _made(scheme, authority, settings, retry)
    except BaseError as error:
        raise StateAccessError(
            f"cannot open {scheme}://{authority} with {settings!r}: {said(error)}"
        ) from None


def _made(scheme: str, authority: str, settings: Settings, retry: Any) -> Client:
    options: Any = {"timeout": TIMEOUT, "connect_timeout": CONNECT_TIMEOUT}
    config: Any
    if scheme == S3:
        config = s3.config(authority, settings)
        if config.get("endpoint", "").startswith("http:"):
            options["allow_http"] = True
        return S3Store(authority, config=config, client_options=options, retry_config=retry)
    if scheme == GCS:
        config = gcs.config(settings)
        if config.get("base_url", "").startswith("http:"):
            options["allow_http"] = True
        return GCSStore(authority, config=config, client_options=options, retry_config=retry)
    config = azure.config(authority, settings)
    container, _, _ = account_of(authority)
    return AzureStore(container, config=config, client_options=options, retry_config=retry)


def said(error: Exception) -> str:
    """What a client says of an error. What follows its first lines are the client's insides."""
    return " ".join(str(error).partition("Debug source:")[0].split())
