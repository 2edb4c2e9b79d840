"""Locations as Spark writes them: a path, or a URI of a store."""

from __future__ import annotations

import os
import re

from skewless.errors import ArgumentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # one letter is a Windows drive
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}  # schemes that name one store in several ways
DBFS = "/dbfs"  # where Databricks mounts what it calls dbfs:
VOLUMES = "/Volumes/"  # mounted everywhere, whatever the default file system is

S3, GCS, AZURE, HDFS = "s3", "gs", ("abfss", "abfs", "wasbs", "wasb"), ("hdfs", "viewfs")
REMOTE = (S3, GCS, *AZURE, *HDFS)
ACCEPTED = (
    "a local path, or a URI that begins with file:, dbfs:, hdfs:, viewfs:, s3a:, s3:, s3n:, gs:, "
    "abfss:, abfs:, wasbs: or wasb:"
)


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
    if scheme == "file":
        return os.path.abspath("/" + rest.lstrip("/"))
    if scheme == "dbfs":
        return os.path.abspath(f"{DBFS}/{rest.lstrip('/')}")
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
    if scheme and scheme not in (*REMOTE, *_SAME, "file", "dbfs"):
        raise ArgumentError(argument, location, ACCEPTED)
    if scheme in ("file", "dbfs") and not location.partition(":")[2].startswith("/"):
        accepted = f"a path, or a URI with an absolute one, such as {scheme}:///data/ckpt"
        raise ArgumentError(argument, location, accepted)
    if scheme in (S3, *_SAME, GCS, *AZURE) and not split(location)[1]:
        raise ArgumentError(argument, location, "a URI with a bucket: scheme://bucket/folder")
