"""What `pip install "skewless[dashboard]"` brings along, looked for before anything starts."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from skewless.errors import MissingPackageError

SERVER = ("starlette", "uvicorn")
METRICS = ("prometheus_client",)


def need(extra: str, packages: Iterable[str]) -> None:
    """Refuse to go on without packages that are not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, which "
            f'this needs: pip install "skewless[{extra}]"'
        )
