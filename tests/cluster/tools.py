"""What a cluster on one machine is made of: found, or fetched once into a folder outside git.

The S3 server is versitygw, built by Go; Spark reaches it by Hadoop's `hadoop-aws` and the AWS SDK,
in the versions that belong to the Hadoop that pyspark brings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pyspark

CACHE = Path(os.environ.get("SKEWLESS_CLUSTER_CACHE", Path.home() / ".cache" / "skewless-cluster"))
SERVER = "github.com/versity/versitygw/cmd/versitygw@latest"
MAVEN = "https://repo1.maven.org/maven2"
SPARK = Path(pyspark.__path__[0])
COMMANDS = {"ip": "iproute2", "setpriv": "util-linux", "java": "Java 17"}
LIBRARIES = (  # with the place of their version in Hadoop's list
    ("org/apache/hadoop", "hadoop-aws", r"<version>([\d.]+)</version>"),
    ("software/amazon/awssdk", "bundle", r"<aws-java-sdk-v2\.version>([^<]+)<"),
    (
        "software/amazon/s3/analyticsaccelerator",
        "analyticsaccelerator-s3",
        r"<amazon-s3-analyticsaccelerator-s3\.version>([^<]+)<",
    ),
)
GO_PLACES = os.pathsep.join(["/usr/local/go/bin", "/usr/lib/go/bin"])


def missing() -> str | None:
    """Why no cluster can be set up here, None if one can."""
    if os.geteuid() != 0:
        return "needs root: hosts are network namespaces"
    for command, package in COMMANDS.items():
        if shutil.which(command) is None:
            return f"needs the command `{command}` ({package})"
    if not server_path().exists() and _go() is None:
        return "needs Go to build the S3 server, or SKEWLESS_CLUSTER_CACHE with bin/versitygw"
    return None


def _go() -> str | None:
    return shutil.which("go") or shutil.which("go", path=GO_PLACES)


def server_path() -> Path:
    return CACHE / "bin" / "versitygw"


def server() -> Path:
    """The S3 server; the first time it is built, which takes some minutes."""
    built, go = server_path(), _go()
    if not built.exists():
        assert go is not None
        environment = os.environ | {"GOBIN": str(built.parent)}
        subprocess.run([go, "install", SERVER], check=True, env=environment)
    return built


def jars() -> list[Path]:
    """`hadoop-aws` and what it needs; the first time, 660 MB are fetched."""
    hadoop = _hadoop_version()
    have = CACHE / "jars" / hadoop
    if not have.exists():
        partial = have.with_name(f".{hadoop}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        project = _project(hadoop)
        for group, name, version in LIBRARIES:
            if number := re.search(version, project):
                _fetch(group, name, number[1], partial)
        partial.rename(have)
    return sorted(have.glob("*.jar"))


def _project(hadoop: str) -> str:
    """Hadoop's own list of the versions that it goes with."""
    name = f"hadoop-project/{hadoop}/hadoop-project-{hadoop}.pom"
    with urllib.request.urlopen(f"{MAVEN}/org/apache/hadoop/{name}") as answer:
        text: str = answer.read().decode()
    return text


def _hadoop_version() -> str:
    jar = next((SPARK / "jars").glob("hadoop-client-api-*.jar"))
    return jar.stem.removeprefix("hadoop-client-api-")


def _fetch(group: str, name: str, version: str, folder: Path) -> None:
    jar = f"{name}-{version}.jar"
    with (
        urllib.request.urlopen(f"{MAVEN}/{group}/{name}/{version}/{jar}") as answer,
        (folder / jar).open("wb") as out,
    ):
        shutil.copyfileobj(answer, out, 1 << 20)
