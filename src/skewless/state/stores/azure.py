"""Azure storage: Hadoop's ``fs.azure.*`` settings as a client understands them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from skewless.errors import ArgumentError
from skewless.state.stores.locations import account_of
from skewless.state.stores.settings import Settings

# With the account's host behind them, or without for all accounts.
OF_ACCOUNT = (
    "fs.azure.account.key",
    "fs.azure.account.auth.type",
    "fs.azure.sas.fixed.token",
    "fs.azure.account.oauth.provider.type",
    "fs.azure.account.oauth2.client.id",
    "fs.azure.account.oauth2.client.secret",
    "fs.azure.account.oauth2.client.endpoint",
    "fs.azure.account.oauth2.msi.tenant",
    "fs.azure.account.oauth2.token.file",
)
PUBLIC = "core.windows.net"


def names(authority: str) -> list[str]:
    """The settings that matter to a container."""
    container, _, _ = account_of(authority)
    hosts = _hosts(authority)
    return [
        *(f"{name}.{host}" for name in OF_ACCOUNT for host in hosts),
        *OF_ACCOUNT,
        *(f"fs.azure.sas.{container}.{host}" for host in hosts),
    ]


def _hosts(authority: str) -> tuple[str, str]:
    """An account has two hosts, and settings may name either."""
    _, account, suffix = account_of(authority)
    return f"{account}.dfs.{suffix}", f"{account}.blob.{suffix}"


def config(authority: str, settings: Settings) -> dict[str, Any]:
    """Settings of a container as arguments of `obstore.store.AzureStore`."""
    container, account, suffix = account_of(authority)
    hosts = _hosts(authority)

    def get(name: str) -> str | None:
        found = (settings.get(f"{name}.{host}") for host in hosts)
        return next(filter(None, found), None) or settings.get(name)

    of_container = (settings.get(f"fs.azure.sas.{container}.{host}") for host in hosts)
    token = get("fs.azure.sas.fixed.token") or next(filter(None, of_container), None)
    found: dict[str, Any] = {"account_name": account}
    if suffix != PUBLIC:
        found["endpoint"] = f"https://{account}.blob.{suffix}"
    kind = (get("fs.azure.account.auth.type") or "").lower()
    if kind == "oauth":
        return found | _oauth(get)
    if token and kind in ("", "sas"):
        return found | {"sas_key": token.lstrip("?")}
    if key := get("fs.azure.account.key"):
        return found | {"account_key": key}
    if kind == "custom":
        accepted = "OAuth, SAS or SharedKey: a custom one is Java code that only Spark can run"
        raise ArgumentError("fs.azure.account.auth.type", "Custom", accepted)
    return found


def _oauth(get: Any) -> dict[str, Any]:
    endpoint = urlsplit(get("fs.azure.account.oauth2.client.endpoint") or "")
    tenant = endpoint.path.strip("/").split("/")[0]
    found = {
        "client_id": get("fs.azure.account.oauth2.client.id"),
        "client_secret": get("fs.azure.account.oauth2.client.secret"),
        "tenant_id": tenant or get("fs.azure.account.oauth2.msi.tenant"),
        "authority_host": f"https://{endpoint.netloc}" if endpoint.netloc else None,
        "federated_token_file": get("fs.azure.account.oauth2.token.file"),
    }
    return {name: value for name, value in found.items() if value}
