"""An S3 server on loopback, in this process, for tests of remote folders."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from skewless.state.files import Folder
from skewless.state.stores.settings import Settings

BUCKET = "bucket"
SECRET = "the-secret-key-nobody-may-see"


@dataclass(frozen=True)
class S3Server:
    """Where it listens, with a client of another make to look behind the scenes."""

    endpoint: str
    client: Any

    @property
    def hadoop(self) -> dict[str, str]:
        """Hadoop's settings that reach it."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": "test",
            "fs.s3a.secret.key": SECRET,
            "fs.s3a.path.style.access": "true",
        }

    def folder(self, name: str | None = None) -> Folder:
        """A folder, a new one if none is named."""
        name = name or f"test {uuid.uuid4().hex}"
        return Folder(f"s3://{BUCKET}/{name}", settings=Settings.of(self.hadoop))

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    try:
        yield S3Server(endpoint, client)
    finally:
        server.stop()
