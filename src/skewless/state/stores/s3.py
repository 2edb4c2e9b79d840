"""S3, and what speaks its language: Hadoop's ``fs.s3a.*`` settings as a client understands them."""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

from skewless.errors import ArgumentError
from skewless.state.stores.settings import Settings, checked_url

PROVIDER = "aws.credentials.provider"
NAMES = (
    "endpoint",
    "endpoint.region",
    "access.key",
    "secret.key",
    "session.token",
    "path.style.access",
    "connection.ssl.enabled",
    PROVIDER,
    "requester.pays.enabled",
    "encryption.algorithm",
    "encryption.key",
)
# Java classes that say where credentials are; those that look where the client does by itself.
ANONYMOUS = "AnonymousAWSCredentialsProvider"
KNOWN_PROVIDERS = (
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ContainerCredentialsProvider",
    "WebIdentityTokenCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
    "DefaultCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
)
_AWS_HOST = re.compile(r"s3[.-](?:([a-z0-9-]+)\.)?amazonaws\.com(?:\.cn)?")
_ENCRYPTION = {
    "SSE-S3": "AES256",
    "AES256": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
}


def names(bucket: str) -> list[str]:
    """The settings that matter to a bucket, its own ones first."""
    return [f"fs.s3a.{of}{name}" for name in NAMES for of in (f"bucket.{bucket}.", "")]


def config(bucket: str, settings: Settings) -> dict[str, Any]:
    """Settings of a bucket as arguments of `obstore.store.S3Store`."""

    def get(name: str) -> str | None:
        own = settings.get(f"fs.s3a.bucket.{bucket}.{name}")
        return own or settings.get(f"fs.s3a.{name}")

    found: dict[str, Any] = {
        "access_key_id": get("access.key"),
        "secret_access_key": get("secret.key"),
        "session_token": get("session.token"),
        "region": get("endpoint.region"),
        "server_side_encryption": _ENCRYPTION.get((get("encryption.algorithm") or "").upper()),
    }
    if (found["server_side_encryption"] or "").startswith("aws:"):
        found["sse_kms_key_id"] = get("encryption.key")
    if get("requester.pays.enabled") == "true":
        found["request_payer"] = True
    found |= _endpoint(
        bucket, get("endpoint"), get("connection.ssl.enabled"), get("path.style.access")
    )
    if not found["access_key_id"]:
        found |= _without_keys(get(PROVIDER))
    return {name: value for name, value in found.items() if value is not None}


def _endpoint(
    bucket: str, endpoint: str | None, with_ssl: str | None, path_style: str | None
) -> dict[str, Any]:
    if endpoint is None:
        return {}
    if "://" not in endpoint:
        endpoint = f"{'http' if (with_ssl or '').lower() == 'false' else 'https'}://{endpoint}"
    endpoint = checked_url("fs.s3a.endpoint", endpoint) or ""
    url = urlsplit(endpoint)
    aws = _AWS_HOST.fullmatch(url.hostname or "")
    if aws:  # the client knows these by their region
        return {"region": aws[1]} if aws[1] else {}
    if (path_style or "").lower() == "true" or _is_address(url.hostname or ""):
        return {"endpoint": endpoint}
    of_bucket = f"{url.scheme}://{bucket}.{url.netloc}{url.path}"
    return {"endpoint": of_bucket, "virtual_hosted_style_request": True}


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _without_keys(providers: str | None) -> dict[str, Any]:
    """Where credentials come from that are not given: the environment, the container, the machine.
    Java classes of others cannot be asked."""
    classes = [name.strip().rpartition(".")[2] for name in (providers or "").split(",")]
    if classes == [ANONYMOUS]:
        return {"skip_signature": True}
    if any(classes) and not any(name in KNOWN_PROVIDERS for name in classes):
        accepted = (
            f"one of: {', '.join((*KNOWN_PROVIDERS, ANONYMOUS))}. Others are Java code that only "
            "Spark can run: give the keys in fs.s3a.access.key and fs.s3a.secret.key, or as "
            "options skewless.store.fs.s3a.access.key and skewless.store.fs.s3a.secret.key"
        )
        raise ArgumentError(f"fs.s3a.{PROVIDER}", providers, accepted)
    return {}
