"""Strategies that others have published: as they are run here, or as their papers have them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from skewless.errors import ArgumentError
from skewless.placement.balancing.base import Balancing


@dataclass(frozen=True, kw_only=True)
class Published(Balancing):
    """A strategy from a paper.

    With `paper`, it acts when and as its paper says, for better or worse: on the figures of every
    batch, at once, whatever was changed a moment ago, and without asking whether a change pays.
    Without it, the strategy proposes and the governor judges, which is the better choice where work
    is to be done. What the governor's tests are set by (`patience`, `cooldown`, `horizon`) cannot
    be given together with `paper`; a pinned key stays in any case.

    In the papers' systems both instances stop until the rows of a migration have been transferred.
    A virtual cluster has them do so with `paper`; on Spark no row has to go anywhere.
    """

    # What the governor's settings are in a paper; what is not here is up to the user.
    AS_PUBLISHED: ClassVar[dict[str, int]] = {"patience": 1, "cooldown": 0, "horizon": 60}

    paper: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.paper, bool):
            raise ArgumentError("paper", self.paper, "True or False")
        if not self.paper:
            return
        usual = {field.name: field.default for field in fields(self)}
        for name, value in self.AS_PUBLISHED.items():
            given = getattr(self, name)
            if given not in (value, usual[name]):
                raise ArgumentError(name, given, "left out where `paper` is True")
            object.__setattr__(self, name, value)

    @property
    def trusted(self) -> bool:
        return self.paper

    @property
    def stops_to_move(self) -> bool:
        return self.paper
