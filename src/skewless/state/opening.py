"""What is looked at when a query opens its state: that all is there, not all that is in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from skewless.errors import StateDamagedError
from skewless.state.commits import Commit
from skewless.state.files import Folder
from skewless.state.manifests import Manifest
from skewless.state.parallel import each
from skewless.state.segment_set import SegmentSet
from skewless.state.segments import REPAIR


def read_manifests(folder: Folder, commits: Collection[Commit]) -> None:
    """Read what some commits refer to, each file once; refuse what is damaged."""
    wanted: dict[str, list[Manifest]] = {}
    for commit in commits:
        for state in commit.operators.values():
            for manifest in state.segments.manifests:
                wanted.setdefault(manifest.blob.name, []).append(manifest)
    each(folder, lambda same: same[0].read(), list(wanted.values()))


def refuse_missing(folder: Folder, commit: Commit, found: Collection[str]) -> None:
    """Refuse a commit that lists segments which are not among the files of its folder. What is in
    them is checked by whoever reads one first."""
    there = set(found)
    missing = sorted(s.name for s in commit.segments if s.name not in there)
    if missing:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StateDamagedError(f"{folder.path(missing[0])} is missing{more}. {REPAIR}")


def without_unfinished(commit: Commit) -> Commit:
    """A commit without what was being put together: a query may have been changed since, and only
    what a run has written itself needs no check."""
    operators = {
        name: replace(state, segments=SegmentSet(state.segments.loose, state.segments.parts))
        for name, state in commit.operators.items()
    }
    return replace(commit, operators=operators)
