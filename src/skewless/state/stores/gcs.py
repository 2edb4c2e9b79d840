"""Google Cloud Storage: Hadoop's ``fs.gs.*`` settings as a client understands them."""

from __future__ import annotations

import json
from typing import Any

from skewless.state.stores.settings import Settings

EMAIL = "fs.gs.auth.service.account.email"
KEY, KEY_ID = (
    "fs.gs.auth.service.account.private.key",
    "fs.gs.auth.service.account.private.key.id",
)
KEY_FILE = "fs.gs.auth.service.account.json.keyfile"
TYPE, NO_AUTH, URL = "fs.gs.auth.type", "fs.gs.auth.null.enable", "fs.gs.storage.root.url"
NAMES = (EMAIL, KEY, KEY_ID, KEY_FILE, TYPE, NO_AUTH, URL)


def config(settings: Settings) -> dict[str, Any]:
    """Settings as arguments of `obstore.store.GCSStore`. Without any, credentials are Google's
    application defaults: a file that the environment names, or the machine's own."""
    found: dict[str, Any] = {}
    if url := settings.url(URL):
        found["base_url"] = url
    if settings.is_set(NO_AUTH) or settings.get(TYPE) == "UNAUTHENTICATED":
        return found | {"skip_signature": True}
    if settings.get(EMAIL) and settings.get(KEY):
        # Settings have no line breaks; keys do.
        key = (settings.get(KEY) or "").replace("\\n", "\n")
        account = {
            "type": "service_account",
            "client_email": settings.get(EMAIL),
            "private_key": key,
            "private_key_id": settings.get(KEY_ID) or "",
        }
        return found | {"service_account_key": json.dumps(account)}
    if path := settings.get(KEY_FILE):
        found["service_account"] = path
    return found
