"""Who holds what where instances form groups: a group holds one stream, an instance a part of it.

As in BiStream's biclique, what is held is held once, and what is new is sent to all who hold
something that it may meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from skewless.operators.three_way.portions import EVERYTHING, Part


@dataclass(frozen=True)
class Duty:
    """A part of what a group holds."""

    group: int
    part: Part


def members(group: int, instances: int, groups: int) -> int:
    """How many instances are in a group.

    >>> [members(group, 5, groups=3) for group in range(3)]
    [2, 2, 1]
    """
    return len(range(group, instances, groups)) if instances >= groups else 1


def duties_of(instance: int, instances: int, groups: int, subgroups: int = 1) -> list[Duty]:
    """What an instance holds: group g has the instances g, g + groups, …; if there are fewer
    instances than groups, they have several. With `subgroups` a group is divided once more, by the
    hash: as often as that, if it has so many members.

    >>> duties_of(4, 6, groups=3)
    [Duty(group=1, part=Part(share=(1, 2), subgroup=(0, 1)))]
    >>> [duty.group for duty in duties_of(0, 2, groups=3)]
    [0, 2]
    >>> [duties_of(i, 3, groups=1, subgroups=2)[0].part.subgroup for i in range(3)]
    [(0, 2), (1, 2), (0, 2)]
    """
    if instances < groups:
        return [Duty(g, EVERYTHING) for g in range(groups) if g % instances == instance]
    group, member = instance % groups, instance // groups
    count = members(group, instances, groups)
    parts = min(subgroups, count)
    subgroup = member % parts
    share = (member // parts, len(range(subgroup, count, parts)))
    return [Duty(group, Part(share, (subgroup, parts)))]
