"""Which batch was last begun to be written to a sink outside, before it is written.

Such a sink is written before the commit. If there is a note of a batch and no commit, it may be in
the sink already; without a note it is surely not.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from skewless.state.commits import read_checked, write_checked
from skewless.state.files import Folder

NOTE = "writing.json"


@dataclass(frozen=True)
class Try:
    """A batch of a query that was begun, with what its sink has to know if that is repeated."""

    query: str
    batch: int
    facts: dict[str, Any] = field(default_factory=dict)

    def repeats(self, former: Try | None) -> bool:
        """Whether this is a batch that was begun before."""
        return former is not None and (self.query, self.batch) == (former.query, former.batch)


def last_try(folder: Folder) -> Try | None:
    return None if folder.size(NOTE) is None else Try(**read_checked(folder, NOTE))


def note_try(folder: Folder, begun: Try) -> None:
    write_checked(folder, NOTE, asdict(begun))
