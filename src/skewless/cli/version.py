"""`skewless version`: what is installed here."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from skewless import __version__

PACKAGES = ("pyspark", "pyarrow", "numpy", "numba")


def versions() -> dict[str, str | None]:
    """Versions by name, None for what is not there. Nothing is imported for it. Of skewless it is
    the code that runs, whatever was installed before a source tree was put in front of it."""
    found: dict[str, str | None] = {"skewless": __version__}
    found |= {name: _package(name) for name in PACKAGES}
    return found | {"python": platform.python_version(), "java": java_version()}


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def java_version() -> str | None:
    """The version of the Java that Spark would take: of JAVA_HOME, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=20, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    quoted = re.search(r'version "([^"]+)"', answer)
    return quoted.group(1) if quoted else None
