"""What went between this process and a remote store."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass
class Traffic:
    """Bytes `fetched` and `written`, `requests` for both, and `hits`: files, or parts of them, that
    this host had already."""

    fetched: int = 0
    written: int = 0
    requests: int = 0
    hits: int = 0

    def copy(self) -> Traffic:
        return replace(self)

    def since(self, before: Traffic) -> dict[str, int]:
        """What was added since, without what is none."""
        then = asdict(before)
        return {name: n - then[name] for name, n in asdict(self).items() if n != then[name]}


TRAFFIC = Traffic()  # of this process
