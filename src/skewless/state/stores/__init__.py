"""Stores: local disks, HDFS, S3, Google Cloud Storage, Azure. One file per kind; only what a
location needs is loaded."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

from skewless.state.stores.local import LocalStore
from skewless.state.stores.locations import AZURE, GCS, HDFS, S3, check_location, split
from skewless.state.stores.settings import Lookup, Settings
from skewless.state.stores.store import Store


def open_store(root: str, settings: Settings) -> Store:
    """The store of a folder, by its absolute path or URI. Nothing is asked of it yet."""
    if os.path.isabs(root):
        return LocalStore(root)
    check_location("location", root)
    scheme, authority, path = split(root)
    if scheme in HDFS:
        from skewless.state.stores.hdfs import HdfsStore, hadoop

        return HdfsStore(hadoop(scheme, authority), f"{scheme}://{authority}", f"/{path}")
    from skewless.state.stores.clients import client
    from skewless.state.stores.objects import ObjectStore

    clients = functools.partial(client, scheme, authority, settings)
    return ObjectStore(clients, f"{scheme}://{authority}", path)


def settings_for(locations: Iterable[str], get: Lookup) -> Settings:
    """Those settings that the stores of some locations need, and no others."""
    from skewless.state.stores import azure, gcs, s3

    found = Settings()
    for scheme, authority, _ in (split(one) for one in locations if not os.path.isabs(one)):
        if scheme == S3:
            found |= Settings.asked(s3.names(authority), get)
        elif scheme == GCS:
            found |= Settings.asked(gcs.NAMES, get)
        elif scheme in AZURE:
            found |= Settings.asked(azure.names(authority), get)
    return found
