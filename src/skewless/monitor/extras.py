"""What `pip install "skewless[dashboard]"` brings along, looked for before anything starts."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from skewless.errors import MissingPackageError

SERVER = ("starlette", "uvicorn", "plotly")
PAGE = ("plotly",)
METRICS = ("prometheus_client",)


def need(extra: str, packages: Iterable[str]) -> None:
    """Refuse to go on without packages that are not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed, which "
            f'this needs: pip install "skewless[{extra}]"'
        )


def plotly_js() -> Path:
    """The chart library, as its wheel ships it. It is not imported: that would take a while."""
    spec = find_spec("plotly")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [Path(place) / "package_data" / "plotly.min.js" for place in places]
    script = next((path for path in found if path.is_file()), None)
    if script is None:
        raise MissingPackageError(
            "the installed plotly has no package_data/plotly.min.js: "
            'pip install --force-reinstall "skewless[dashboard]"'
        )
    return script
