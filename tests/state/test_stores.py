"""Kinds of stores: how Hadoop's settings reach their clients, and what HDFS does its own way."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.fs as pafs
import pytest

from skewless.errors import ArgumentError, StateAccessError
from skewless.state.files import Folder
from skewless.state.stores import azure, gcs, objects, s3, settings_for
from skewless.state.stores.clients import client
from skewless.state.stores.hdfs import HdfsStore
from skewless.state.stores.settings import Settings
from skewless.state.stores.store import move

KEYS = {"access.key": "id", "secret.key": "key"}


def s3a(**given: str) -> Settings:
    return Settings.of({f"fs.s3a.{name}": value for name, value in given.items()})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        (KEYS, {"access_key_id": "id", "secret_access_key": "key"}),
        (KEYS | {"session.token": "t"},
         {"access_key_id": "id", "secret_access_key": "key", "session_token": "t"}),
        ({"endpoint": ""}, {}),
        ({"endpoint": "s3.amazonaws.com"}, {}),
        ({"endpoint": "s3.eu-central-1.amazonaws.com"}, {"region": "eu-central-1"}),
        ({"endpoint": "https://s3-eu-west-1.amazonaws.com"}, {"region": "eu-west-1"}),
        ({"endpoint.region": "eu-north-1"}, {"region": "eu-north-1"}),
        ({"endpoint": "http://10.0.0.1:9000"}, {"endpoint": "http://10.0.0.1:9000"}),
        ({"endpoint": "10.0.0.1:9000", "connection.ssl.enabled": "false"},
         {"endpoint": "http://10.0.0.1:9000"}),
        ({"endpoint": "store:9000", "path.style.access": "true"},
         {"endpoint": "https://store:9000"}),
        ({"endpoint": "http://store:9000/"},
         {"endpoint": "http://box.store:9000", "virtual_hosted_style_request": True}),
        ({"aws.credentials.provider":
          "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
         {"skip_signature": True}),
        ({"aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,\n"
          " software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"}, {}),
        ({"bucket.box.endpoint": "http://10.0.0.2", "endpoint": "http://10.0.0.1"},
         {"endpoint": "http://10.0.0.2"}),
        ({"bucket.other.endpoint": "http://10.0.0.2"}, {}),
        ({"encryption.algorithm": "SSE-KMS", "encryption.key": "arn"},
         {"server_side_encryption": "aws:kms", "sse_kms_key_id": "arn"}),
        ({"encryption.algorithm": "SSE-S3"}, {"server_side_encryption": "AES256"}),
        ({"requester.pays.enabled": "true"}, {"request_payer": True}),
    ],
)  # fmt: skip
def test_s3(given: dict[str, str], expected: dict[str, Any]) -> None:
    settings = s3a(**given)
    assert s3.config("box", settings) == expected
    assert client("s3", "box", settings) is not None
    asked = settings_for(["s3://box/ckpt", "/local"], dict(settings.values).get)
    assert s3.config("box", asked) == expected


def test_java_classes_of_others_cannot_be_asked_for_keys() -> None:
    custom = s3a(**{"aws.credentials.provider": "com.example.Vault"})
    with pytest.raises(ArgumentError, match=r"`fs.s3a.aws.credentials.provider`.*skewless.store"):
        s3.config("box", custom)
    assert s3.config("box", custom | s3a(**KEYS))["access_key_id"] == "id"


AUTHORITY = "box@account.dfs.core.windows.net"
KEY = "c2VjcmV0"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"account.key.account.dfs.core.windows.net": KEY}, {"account_key": KEY}),
        ({"account.key.account.blob.core.windows.net": KEY}, {"account_key": KEY}),
        ({"account.key": KEY}, {"account_key": KEY}),
        ({"account.key.other.dfs.core.windows.net": KEY}, {}),
        ({"sas.fixed.token.account.dfs.core.windows.net": "?sv=1&sig=x"},
         {"sas_key": "sv=1&sig=x"}),
        ({"sas.box.account.blob.core.windows.net": "sv=1&sig=x"}, {"sas_key": "sv=1&sig=x"}),
        ({"account.auth.type.account.dfs.core.windows.net": "OAuth",
          "account.oauth2.client.id": "me", "account.oauth2.client.secret": "s",
          "account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token"},
         {"client_id": "me", "client_secret": "s", "tenant_id": "tenant",
          "authority_host": "https://login.microsoftonline.com"}),
        ({"account.auth.type": "OAuth", "account.oauth2.client.id": "me",
          "account.oauth2.msi.tenant": "tenant", "account.oauth2.token.file": "/var/token"},
         {"client_id": "me", "tenant_id": "tenant", "federated_token_file": "/var/token"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["abfss", "wasbs"])
def test_azure(scheme: str, given: dict[str, str], expected: dict[str, Any]) -> None:
    authority = AUTHORITY if scheme == "abfss" else AUTHORITY.replace("dfs", "blob")
    settings = Settings.of({f"fs.azure.{name}": value for name, value in given.items()})
    assert azure.config(authority, settings) == {"account_name": "account"} | expected
    assert client(scheme, authority, settings) is not None
    asked = settings_for([f"{scheme}://{authority}/ckpt"], dict(settings.values).get)
    assert asked == settings if expected else not asked.values


def test_azure_elsewhere() -> None:
    found = azure.config("box@account.dfs.core.chinacloudapi.cn", Settings())
    assert found["endpoint"] == "https://account.blob.core.chinacloudapi.cn"
    with pytest.raises(ArgumentError, match=r"abfss://container@account"):
        Folder("abfss://container/x").list()
    custom = Settings.of({"fs.azure.account.auth.type": "Custom"})
    with pytest.raises(ArgumentError, match=r"fs.azure.account.auth.type"):
        azure.config(AUTHORITY, custom)
    bad = Settings.of({"fs.azure.account.key": "not base 64!"})
    with pytest.raises(StateAccessError, match=r"cannot open abfss://box@account") as raised:
        Folder(f"abfss://{AUTHORITY}/x", settings=bad).list()
    assert "not base 64!" not in str(raised.value)


def test_gcs() -> None:
    def config(**given: str) -> dict[str, Any]:
        settings = Settings.of({f"fs.gs.{k.replace('_', '.')}": v for k, v in given.items()})
        asked = settings_for(["gs://box/ckpt"], dict(settings.values).get)
        assert asked == settings
        return gcs.config(settings)

    assert config() == {}
    keyfile = {"service_account": "/etc/key.json"}
    assert config(auth_service_account_json_keyfile="/etc/key.json") == keyfile
    assert config(auth_type="UNAUTHENTICATED") == {"skip_signature": True}
    assert config(auth_null_enable="true", storage_root_url="http://10.0.0.1:4443/") == {
        "skip_signature": True,
        "base_url": "http://10.0.0.1:4443",
    }
    found = config(
        auth_service_account_email="me@project",
        auth_service_account_private_key="-----BEGIN\\nx\\n-----END",
    )
    account = json.loads(found["service_account_key"])
    assert account["client_email"] == "me@project"
    assert account["private_key"] == "-----BEGIN\nx\n-----END"


def test_only_what_is_needed_is_asked_for() -> None:
    asked: list[str] = []
    settings_for(["/local", "hdfs://names/x"], asked.append)
    assert asked == []
    settings_for(["gs://box/x"], asked.append)
    assert {name.split(".")[1] for name in asked} == {"gs"}


# A store that loses its answers.


class Forgetful(BaseHTTPRequestHandler):
    """Takes conditional writes; every other answer is that something went wrong."""

    stored: dict[str, bytes]
    requests: int
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        kind = type(self)
        content = self.rfile.read(int(self.headers["content-length"]))
        kind.requests += 1
        status = 412 if self.path in kind.stored else 200
        kind.stored.setdefault(self.path, content)
        self._answer(500 if kind.requests % 2 else status)

    def do_GET(self) -> None:
        self._answer(200, type(self).stored[self.path])

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.send_header("etag", '"1"')
        self.send_header("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.setattr(objects, "WAIT_S", 0.01)
    handler = type("Handler", (Forgetful,), {"stored": {}, "requests": 0})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    settings = s3a(**KEYS, endpoint=endpoint)
    yield Folder("s3://bucket/x", settings=settings)
    server.shutdown()
    server.server_close()


def test_who_creates_a_file_learns_so_even_if_the_answer_is_lost(forgetful: Folder) -> None:
    assert forgetful.create("owner.json", b"mine")
    assert not forgetful.create("owner.json", b"theirs")
    assert forgetful.read("owner.json") == b"mine"


# HDFS: a fake that renames as HDFS does, and pyarrow on top of it.


class FakeHdfs:
    """A local folder in which renaming is HDFS's: a folder that has the name takes the other one
    in, and pyarrow removes a file in the way of another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fs = pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem())
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def equals(self, other: FakeHdfs) -> bool:
        return other is self

    def open_output_stream(self, path: str) -> Any:
        (self._folder / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        return self._fs.open_output_stream(path)

    def move(self, source: str, target: str) -> None:
        a, b = (self._folder / path.lstrip("/") for path in (source, target))
        if not self._rename(a, b):
            if not (a.is_file() and b.is_file()):
                raise OSError(f"cannot rename {source} to {target}")
            b.unlink(missing_ok=True)
            if not self._rename(a, b):
                raise OSError(f"cannot rename {source} to {target}")

    def _rename(self, source: Path, target: Path) -> bool:
        with self._lock:
            if not source.exists():
                return False
            if target.is_dir():
                target /= source.name
            if target.exists() or not target.parent.is_dir():
                return False
            os.rename(source, target)
            return True


@pytest.fixture
def hdfs(tmp_path: Path, cache_folder: Path) -> HdfsStore:
    (tmp_path / "hdfs").mkdir()
    return HdfsStore(FakeHdfs(tmp_path / "hdfs"), "hdfs://names", "/user/me/ckpt")


def test_hdfs_reads_and_writes(hdfs: HdfsStore) -> None:
    hdfs.make("a")
    hdfs.write("a/x", b"123")
    hdfs.write_atomically("a/y", [b"4", b"56"])
    hdfs.write_atomically("a/y", [b"again"])
    assert hdfs.list("") == ["a/x", "a/y"]
    assert (hdfs.list("a"), hdfs.list("none")) == (["x", "y"], [])
    assert (hdfs.read("a/x"), hdfs.read("a/y")) == (b"123", b"again")
    assert (hdfs.size("a/x"), hdfs.size("a"), hdfs.size("none")) == (3, None, None)
    assert Path(hdfs.local_path("a/x", None)).read_bytes() == b"123"
    hdfs.delete("a/x")
    hdfs.delete("a/x")
    hdfs.delete_folder("a")
    hdfs.delete_folder("a")
    assert hdfs.list("") == []


def test_hdfs_shows_no_half_file(hdfs: HdfsStore) -> None:
    hdfs.make("")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        assert hdfs.size("x") is None
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        hdfs.write_atomically("x", pieces())
    assert hdfs.list("") == []


def test_hdfs_lets_one_create(hdfs: HdfsStore) -> None:
    hdfs.make("commits")
    for name in ("owner.json", "commits/1.json"):
        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(lambda i, name=name: hdfs.create(name, b"%d" % i), range(32)))
        assert won.count(True) == 1
        assert hdfs.read(name) == b"%d" % won.index(True)
    assert hdfs.list("") == ["commits/1.json", "owner.json"]
    hdfs.delete("owner.json")
    assert hdfs.create("owner.json", b"anew")
    assert hdfs.read("owner.json") == b"anew"


def test_hdfs_creations_get_in_each_others_way(hdfs: HdfsStore) -> None:
    hdfs.make("")
    move = FakeHdfs.move
    failed: list[str] = []

    def hindered(fake: FakeHdfs, source: str, target: str) -> None:
        """Others show the file, and remove it again, between pyarrow's two steps."""
        if target.endswith("ckpt/owner.json") and len(failed) < 3:
            failed.append(target)
            raise OSError(f"cannot rename {source} to {target}")
        move(fake, source, target)

    with mock.patch.object(FakeHdfs, "move", hindered):
        assert hdfs.create("owner.json", b"mine")
    assert len(failed) == 3
    assert hdfs.list("") == ["owner.json"]
    assert hdfs.read("owner.json") == b"mine"
    always = mock.patch.object(FakeHdfs, "move", side_effect=OSError("no rights"))
    with always, pytest.raises(OSError, match="no rights"):
        hdfs.create("other.json", b"mine")


def test_hdfs_finishes_what_a_crash_left_of_a_creation(hdfs: HdfsStore) -> None:
    hdfs.make("")
    broken = mock.patch.object(HdfsStore, "write_atomically", side_effect=KeyboardInterrupt)
    with broken, pytest.raises(KeyboardInterrupt):
        hdfs.create("owner.json", b"first")
    assert hdfs.size("owner.json") is None
    assert not hdfs.create("owner.json", b"second")
    assert hdfs.read("owner.json") == b"first"


def test_hdfs_moves_within_and_out(hdfs: HdfsStore, tmp_path: Path) -> None:
    hdfs.make("staged")
    hdfs.write("staged/x", b"1")
    out = HdfsStore(hdfs._fs, "hdfs://names", "/out")
    move(hdfs, "staged/x", out, "p=a%2Fb/x")
    assert (hdfs.list(""), out.list("")) == ([], ["p=a%2Fb/x"])
    local = Folder(str(tmp_path / "local"))
    move(out, "p=a%2Fb/x", local._store, "p=a%2Fb/x")
    assert (out.list(""), local.list(), local.read("p=a%2Fb/x")) == ([], ["p=a%2Fb/x"], b"1")


def test_hdfs_that_cannot_be_opened_is_told() -> None:
    with pytest.raises(ArgumentError, match=r"HADOOP_HOME or ARROW_LIBHDFS_DIR"):
        Folder("hdfs://names:8020/x").list()
