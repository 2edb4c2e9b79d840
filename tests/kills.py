"""How many processes are killed at random moments, and which moments these are.

`SKEWLESS_KILLS` says how many in all, of a suite on local disks and of one on a cluster with S3
each; `SKEWLESS_KILLS_SEED` replays those of an earlier run, as far as the machine does.
"""

from __future__ import annotations

import os
import random

SEED = int(os.environ.get("SKEWLESS_KILLS_SEED", str(random.randrange(10**6))))


def kills_each(groups: int, otherwise: int) -> int:
    """How many of each of so many groups of queries, of `otherwise` in all if nothing is said."""
    return -(-int(os.environ.get("SKEWLESS_KILLS", str(otherwise))) // groups)


def replay() -> str:
    """What to say so that the same is killed again."""
    return f"SKEWLESS_KILLS_SEED={SEED}"
