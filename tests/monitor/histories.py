"""Checkpoints without a query: reports and commits as the engine writes them, of a made-up story.

Rows of keys arrive at instances; from some batch on one key is hot, its instance is the busiest,
and a while later the key is split. So what the dashboard has to show is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from skewless.engine.report import BatchReport, InstanceLoad, KeyShare, OperatorReport
from skewless.placement.figures import Decision, Figures, WatchedKey
from skewless.placement.places import IsolatedKey, Placement
from skewless.placement.units import slot_of
from skewless.state.commits import Commit, CommitLog, OperatorState, claim
from skewless.state.epochs import claim_file
from skewless.state.files import Folder
from skewless.state.history import write_report

SECOND_US = 1_000_000
BEGUN_US = 1_750_000_000 * SECOND_US
EVERY_US = 5 * SECOND_US
FACTS = {
    "kind": "two-way join",
    "left columns": "id int64, cell int64, ordered_at timestamp[us, tz=UTC]",
    "left keys": "cell as int64",
    "right keys": "cell as int64",
    "within": "-1 minute to 1 minute",
}
# The hash of 42 as an int64 key; tests/monitor/test_lookup.py compares it with the engine's.
HOT = "42"


@dataclass(frozen=True)
class Story:
    """What happens: so many instances; a key that is hot from one batch on, and split after
    another; so many late rows in every tenth batch."""

    instances: int = 8
    slots_each: int = 8
    hot: str = HOT
    hot_hash: int = 0x4E0A_57C1_0B5D_3F21
    hot_from: int = 40
    split_after: int = 55
    others: tuple[str, ...] = ("7", "1203", "88", "19")
    rows: int = 40_000
    hosts: tuple[str, ...] = ()
    name: str = "join"
    seed: int = 5
    figures: bool = True
    begun_us: int = BEGUN_US

    @property
    def slots(self) -> int:
        return self.slots_each * self.instances

    @property
    def hot_slot(self) -> int:
        return slot_of(self.hot_hash, self.slots)

    @property
    def hot_home(self) -> int:
        return int(Placement.spread(self.slots, self.instances).instance_of[self.hot_slot])

    @property
    def sharing(self) -> tuple[int, ...]:
        return tuple(sorted({(self.hot_home + i) % self.instances for i in range(4)}))

    def placement(self, batch: int) -> Placement:
        """Where the work is after a batch."""
        spread = Placement.spread(self.slots, self.instances)
        if batch < self.split_after:
            return spread
        own = IsolatedKey(self.hot_hash, self.hot, self.hot_slot, self.sharing, self.sharing)
        return spread.with_isolated(own)

    def is_hot(self, batch: int) -> bool:
        return batch >= self.hot_from

    def loads(self, batch: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """The work of every instance, in ms."""
        work = 40 + rng.gamma(40, 0.25, self.instances)
        if self.is_hot(batch):
            here = self.sharing if batch > self.split_after else (self.hot_home,)
            work[list(here)] += 160 / len(here)
        return work

    def decisions(self, batch: int) -> tuple[Decision, ...]:
        key, home = f"key {self.hot}", f"instance {self.hot_home}"
        if batch == self.split_after:
            to = f"instances {', '.join(map(str, self.sharing))}"
            reason = f"61% of the work of {home}; shared by 4 it is 15%"
            return (Decision("split", key, home, to, reason, True, 42_000),)
        if batch == self.hot_from + 3:
            return (
                Decision("move", f"slot {self.hot_slot + 1}", home, "instance 0",
                         "it makes room at the busiest", True, 1_200),
                Decision("move", key, home, "instance 1", "it would be the busiest there", False),
            )  # fmt: skip
        return ()

    def report(self, batch: int) -> OperatorReport:
        rng = np.random.default_rng((self.seed, batch))
        work = self.loads(batch, rng)
        rows = int(self.rows * (1 + 0.3 * np.sin(batch / 30)) + rng.integers(0, self.rows // 10))
        late = 37 if batch % 10 == 9 else 0
        latest_us = self.begun_us + batch * EVERY_US
        hot = 0.22 if self.is_hot(batch) else 0.02
        shares = [KeyShare(self.hot, hot)] if self.hot else []
        shares += [KeyShare(k, round(0.04 / (i + 1), 6)) for i, k in enumerate(self.others)]
        keys = (WatchedKey(self.hot_hash, self.hot, self.hot_slot, batch > self.split_after),)
        slots, on_keys = self._figures(work, batch) if self.figures else (None, None)
        return OperatorReport(
            name=self.name,
            rows={"left": rows // 10, "right": rows - rows // 10},
            dropped={"late": late, "null keys": 3} if late else {},
            lateness={"2000000": late} if late else {},
            counters={"matches": rows // 4},
            state_rows=12 * rows + batch * 50,
            state_bytes=1_300 * rows + batch * 6_000,
            segments=60 + batch % 9,
            watermark_us=None if batch == 0 else latest_us - 65 * SECOND_US - batch % 7 * SECOND_US,
            latest_us=latest_us,
            instances=tuple(
                InstanceLoad(i, rows // self.instances, 5 * rows, rows // 32, 0, float(ms),
                             work_ms=round(float(ms), 3))
                for i, ms in enumerate(work)
            ),
            heavy_keys=tuple(sorted(shares, key=lambda k: -k.share)),
            decisions=self.decisions(batch),
            verdict=self._verdict(batch, work),
            slots=slots,
            keys=keys,
            key_figures=on_keys,
            notes=("8 instances instead of 4, as the batches grow",) if batch == 12 else (),
            hosts={
                host: {"fetched_bytes": 900_000 * (i + 1) + 1_000 * (batch % 40),
                       "written_bytes": 200_000, "requests": 40, "hits": 90, "misses": 10}
                for i, host in enumerate(self.hosts)
            },
        )  # fmt: skip

    def _verdict(self, batch: int, work: np.ndarray[Any, Any]) -> str:
        even = f"busiest/mean {work.max() / work.mean():.2f}"
        if not self.is_hot(batch):
            return f"no key stands out; {even}"
        split = "split 4 ways; " if batch > self.split_after else ""
        return f"key {self.hot} carries {160 / work.sum():.0%} of the work; {split}{even}"

    def _figures(self, work: np.ndarray[Any, Any], batch: int) -> tuple[Figures, Figures]:
        spread = Placement.spread(self.slots, self.instances)
        slots, keys = Figures.zeros(self.slots), Figures.zeros(1)
        of = 40 * (0.4 + np.random.default_rng(self.seed).random(self.slots)) / self.slots_each
        slots = replace(slots, time_left_ms=of, stored_left=of * 100)
        assert len(spread.instance_of) == len(of)
        hot = 160.0 if self.is_hot(batch) else 4.0
        return slots, replace(keys, time_left_ms=np.array([hot]))


def batch_report(story: Story, batch: int) -> BatchReport:
    told = story.report(batch)
    ms = max(load.work_ms for load in told.instances)
    phases = {"ingest": 90.0 + batch % 5, "plan": 1.5, "join and write": ms * 1.4}
    ended_us = (told.latest_us or 0) + 900_000
    return BatchReport.of(batch, [told], dict(told.rows), phases, ended_us)


def composed_report(lower: Story, upper: Story, batch: int) -> BatchReport:
    below, above = lower.report(batch), upper.report(batch)
    above = replace(above, rows={"input": below.matches}, decisions=())
    streams = {f"{lower.name}.{name}": rows for name, rows in below.rows.items()}
    phases = {"ingest": 80.0, f"{lower.name}: plan": 1.0, f"{lower.name}: join": 160.0,
              f"{upper.name}: finish and write": 70.0}  # fmt: skip
    ended_us = (below.latest_us or 0) + 900_000
    return BatchReport.of(batch, [below, above], streams, phases, ended_us)


@dataclass
class Written:
    """A checkpoint on disk that goes on as it is told to."""

    root: Path
    facts: dict[str, str] = field(default_factory=lambda: dict(FACTS))
    epoch: int = 1
    far: Folder | None = None  # the state folder, if it is not on a disk

    @property
    def folder(self) -> Folder:
        return self.far or Folder(str(self.root / "skewless"))

    def begin(self, token: str = "first") -> Written:
        for name in ("commits", "history", "owner"):
            self.folder.make(name)
        claim(self.folder, self.facts)
        self.own(self.epoch, -1, token)
        return self

    def own(self, epoch: int, after: int, token: str = "next") -> None:
        """Another driver takes over: batches after one of them do not count any more."""
        self.epoch = epoch
        who = {"host": "here", "process": 1, "since": "now", "token": token}
        self.folder.write(claim_file(epoch), json.dumps(who).encode())
        limit = claim_file(epoch).replace(".json", ".after.json")
        self.folder.write(limit, json.dumps({"after": after}).encode())

    def write(self, reports: Iterable[BatchReport]) -> int:
        last = -1
        for report in reports:
            last = report.batch_id
            write_report(self.folder, last, report.to_json())
        return last

    def commit(self, batch: int, placements: dict[str, Placement | None]) -> None:
        states = {name: OperatorState(0, {}, facts=_facts(p)) for name, p in placements.items()}
        CommitLog(self.folder).write(Commit(batch, states, epoch=self.epoch))

    def run(self, story: Story, batches: Sequence[int]) -> None:
        """Batches of a story, and the commit of the last."""
        last = self.write(batch_report(story, batch) for batch in batches)
        self.commit(last, {story.name: story.placement(last)})


def _facts(placement: Placement | None) -> dict[str, Any]:
    if placement is None:
        return {}
    return {"strategy": "Auto", "instances": placement.instances, "slots": placement.slots,
            "placement": placement.to_json()}  # fmt: skip


def checkpoint(root: Path, story: Story, batches: int) -> Written:
    made = Written(root).begin()
    made.run(story, range(batches))
    return made


def composed_checkpoint(root: Path, batches: int, begun_us: int = BEGUN_US) -> Written:
    lower = Story(name="join-1", begun_us=begun_us)
    upper = Story(name="aggregate-2", hot_from=10**9, instances=4, begun_us=begun_us)
    facts = {"kind": "join-1 → aggregate-2", "join-1: left keys": "cell as int64",
             "aggregate-2: by": "city as string"}  # fmt: skip
    made = Written(root, facts).begin()
    last = made.write(composed_report(lower, upper, b) for b in range(batches))
    made.commit(last, {"join-1": lower.placement(last), "aggregate-2": None})
    return made
