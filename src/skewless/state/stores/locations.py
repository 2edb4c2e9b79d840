"""Locations as Spark writes them: a path, or a URI of a store."""

from __future__ import annotations

import os
import re

from skewless.errors import ArgumentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # one letter is a Windows drive
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}  # schemes that name one store in several ways
DBFS = "/dbfs"  # where Databricks mounts what it calls dbfs:
VOLUMES = "/Volumes/"  # mounted everywhere, whatever the default file system is
_MOUNTED = {"file": "", "dbfs": DBFS}  # schemes of folders of this machine, and where they are

S3, GCS, AZURE, HDFS = "s3", "gs", ("abfss", "abfs", "wasbs", "wasb"), ("hdfs", "viewfs")
REMOTE = (S3, GCS, *AZURE, *HDFS)
ACCEPTED = (
    "a local path, or a URI that begins with file:, dbfs:, hdfs:, viewfs:, s3a:, s3:, s3n:, gs:, "
    "abfss:, abfs:, wasbs: or wasb:"
)
_PATH = "a path that Spark takes for one: absolute, or with ./ before a name that has a colon"
_ABSOLUTE = {
    "file": "a path, or a URI of an absolute one without a host, such as file:///data/ckpt",
    "dbfs": "a path, or a URI of an absolute one without a host, such as dbfs:/data/ckpt",
    "hdfs": "a URI of an absolute path, such as hdfs://names:8020/data/ckpt or hdfs:/data/ckpt",
    "viewfs": "a URI of an absolute path, such as viewfs://cluster/data/ckpt or viewfs:/data/ckpt",
}


def scheme_of(location: str) -> str:
    """The scheme of a URI, "" of a path.

    >>> scheme_of("s3a://bucket/ckpt"), scheme_of("/data/12:30/ckpt")
    ('s3a', '')
    """
    found = _SCHEME.fullmatch(location)
    return found[1].lower() if found else ""


def qualify(location: str, default: str = "") -> str:
    """A location as an absolute local path, or as a URI that says the same in one way only.
    `default` is Hadoop's ``fs.defaultFS``. Nothing in a path is escaped, as Hadoop reads it.

    >>> qualify("file:///data/ckpt"), qualify("s3a://bucket/ckpt"), qualify("dbfs:/ckpt")
    ('/data/ckpt', 's3://bucket/ckpt', '/dbfs/ckpt')
    >>> qualify("/ckpt", "hdfs://names:8020"), qualify("hdfs:///ckpt", "hdfs://names:8020")
    ('hdfs://names:8020/ckpt', 'hdfs://names:8020/ckpt')
    """
    scheme = scheme_of(location)
    if not scheme:
        return _without_scheme(location, default)
    rest = location.partition(":")[2]
    if scheme in _MOUNTED:
        check_location("location", location)
        return os.path.abspath(f"{_MOUNTED[scheme]}/{rest.lstrip('/')}")
    if scheme in HDFS and not rest.removeprefix("//").split("/")[0] and scheme_of(default) in HDFS:
        return f"{_end_of(default)}/{rest.lstrip('/')}"
    return f"{_SAME.get(scheme, scheme)}:{rest}"


def _without_scheme(path: str, default: str) -> str:
    if scheme_of(default) in ("", "file") or path.startswith(VOLUMES):
        return os.path.abspath(path)
    if not path.startswith("/"):
        accepted = f"a URI or an absolute path, since `fs.defaultFS` is {default}"
        raise ArgumentError("location", path, accepted)
    return qualify(f"{_end_of(default)}{path}")


def _end_of(default: str) -> str:
    """The default file system, to be followed by an absolute path."""
    return default.rstrip("/") if "//" in default.rstrip("/") else default.partition(":")[0] + ":"


def split(uri: str) -> tuple[str, str, str]:
    """Scheme, authority and path of a URI, the path without slashes around it.

    >>> split("abfss://box@account.dfs.core.windows.net/a/b/")
    ('abfss', 'box@account.dfs.core.windows.net', 'a/b')
    """
    scheme, _, rest = uri.partition(":")
    authority, _, path = rest.removeprefix("//").partition("/")
    return scheme, authority, path.strip("/")


def check_location(argument: str, location: str) -> None:
    """Refuse what no store is known for."""
    scheme = scheme_of(location)
    if scheme == "adl":
        raise ArgumentError(argument, location, "on another store: adl: was shut down in 2024")
    if scheme and scheme not in (*REMOTE, *_SAME, *_MOUNTED):
        raise ArgumentError(argument, location, ACCEPTED)
    accepted = _form_of(scheme, location)
    if accepted:
        raise ArgumentError(argument, location, accepted)


def _form_of(scheme: str, location: str) -> str:
    """What a location of its scheme has to be like, "" if it is."""
    rest, authority = location.partition(":")[2], split(location)[1]
    if not scheme:
        return _PATH if _is_uri_to_spark(location) else ""
    if scheme in _MOUNTED:
        # Whose machine a name before the path means nobody asks: Hadoop refuses even localhost.
        return "" if rest.startswith("/") and not authority else _ABSOLUTE[scheme]
    if scheme in HDFS:
        return "" if rest.startswith("/") else _ABSOLUTE[scheme]
    if not rest.startswith("//") or not authority:
        return "a URI with a bucket: scheme://bucket/folder"
    if scheme in AZURE and not all(account_of(authority)):
        return "such as abfss://container@account.dfs.core.windows.net/folder"
    return ""


def _is_uri_to_spark(path: str) -> bool:
    """Whether Hadoop takes what is before the first colon for a scheme, and no store has that."""
    return ":" in path.partition("/")[0] and not os.path.isabs(path)  # as a Windows drive is


def account_of(authority: str) -> tuple[str, str, str]:
    """Container, account and the rest of the host of a location in Azure; "" for what is missing.

    >>> account_of("box@account.dfs.core.windows.net")
    ('box', 'account', 'core.windows.net')
    """
    container, _, host = authority.partition("@")
    account, _, rest = host.partition(".")
    return container, account, rest.partition(".")[2]
