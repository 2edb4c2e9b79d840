"""What decides how far Pd-Stream splits keys: the expected probability, fixed or found while the
stream runs, and what is counted. No figure of the paper, but the reason for some."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np

from benchmarks.grouping import INSTANCES, SKEWS, Hashes, Run, Size, hashed, run, zipf_stream
from benchmarks.papers.model import Experiment, Scale, Sheet
from benchmarks.papers.pdstream_streams import HOT_MESSAGES, systems_for
from benchmarks.papers.pdstream_traversals import popularity
from skewless.placement.grouping import PdStream, WChoices, replication_factor
from skewless.workloads import ZipfKeys

FIXED = (0.9, 0.95, 0.99, 0.999)
SEEDS = 4
EVEN = 4.0  # tuples that the busiest instance may be ahead of the mean
PAPERS_FACTORS = {(1.2, 16): 1.05, (1.4, 64): 1.19, (1.8, 64): 1.35, (2.0, 128): 1.74}


@dataclass(frozen=True)
class Choice:
    """What fixed expectations and "auto" did in one place: (tuples ahead, replication factor)."""

    skew: float
    instances: int
    fixed: dict[float, tuple[float, float]]
    auto: tuple[float, float]

    @property
    def over_best(self) -> float:
        """Replication with "auto" over the least of the fixed ones that are even."""
        even = [factor for ahead, factor in self.fixed.values() if ahead <= EVEN]
        return self.auto[1] / min(even or [factor for _, factor in self.fixed.values()])


def drawn(skew: float, size: Size) -> list[Hashes]:
    return [hashed(keys) for keys in zipf_stream(skew, size).draw()]


def choices(scale: Scale) -> list[Choice]:
    size = Size(messages=scale.pick(1_000_000, 50_000), batches=4)
    found = []
    for skew in scale.pick(SKEWS, (1.0, 2.0)):
        batches = drawn(skew, size)
        for n in scale.pick(INSTANCES, (16, 128)):
            told = {e: _told(run(PdStream(expected=e), n, batches), size, n) for e in FIXED}
            auto = _told(run(PdStream(expected="auto"), n, batches), size, n)
            found.append(Choice(skew, n, told, auto))
    return found


def _told(found: Run, size: Size, instances: int) -> tuple[float, float]:
    return found.load_imbalance * size.messages / instances, found.replication_factor


def expected_sheet(found: list[Choice]) -> Sheet:
    def cell(figures: tuple[float, float]) -> str:
        return f"{figures[0]:.1f} / {figures[1]:.3f}"

    rows = [
        (f"{c.skew:.1f}", str(c.instances), *(cell(c.fixed[e]) for e in FIXED), cell(c.auto),
         f"{c.over_best:.3f}")
        for c in found
    ]  # fmt: skip
    over = [c.over_best for c in found]
    title = (
        "Expected probability, fixed and “auto”: tuples that the busiest instance is ahead of the "
        "mean / replication factor. The last column is the replication of “auto” over that of the "
        f"best fixed one that is at most {EVEN:.0f} tuples ahead: {min(over):.3f} to "
        f"{max(over):.3f}, median {statistics.median(over):.3f}."
    )
    fixed = tuple(f"{e:g}" for e in FIXED)
    return Sheet(title, ("z", "n", *fixed, "auto", "auto over best"), tuple(rows))


def readings_sheet(scale: Scale) -> Sheet:
    """Which reading of algorithm 2 gives the paper's replication factors?"""
    size = Size(messages=scale.pick(10_000_000, 50_000), batches=1)
    rows = []
    for (skew, n), paper in PAPERS_FACTORS.items():
        [hashes] = drawn(skew, size)

        def factor(grouping: PdStream, hashes: Hashes = hashes, n: int = n) -> str:
            return f"{replication_factor(hashes, grouping.build(n).assign(hashes)):.3f}"

        kept = popularity(hashes, n, forgets=False) if skew > 1.3 else None  # else a huge table
        rows.append(
            (f"{skew:.1f}", str(n), f"{paper}",
             *(factor(PdStream(expected=e, count_arriving=False)) for e in (0.99, 0.999)),
             *(factor(PdStream(expected=e)) for e in (0.9, 0.99, 0.999)),
             factor(PdStream(expected=0.99, length_factor=2)),
             factor(PdStream(expected=0.99, epsilon=1e-2)),
             "" if kept is None else f"{replication_factor(hashes, kept):.3f}")
        )  # fmt: skip
    return Sheet(
        f"Replication factor of Pd-Stream by reading, {size.messages:,} messages. n_k without the "
        "arriving tuple is what comes near all of the paper's figures.",
        ("z", "n", "paper", "without, 0.99", "without, 0.999", "with, 0.9", "with, 0.99",
         "with, 0.999", "with, 0.99, α = 2", "with, 0.99, ε = 1e-2",
         "with, 0.99, keys never forgotten"),
        tuple(rows),
    )  # fmt: skip


def thresholds_sheet(scale: Scale) -> Sheet:
    """From which share on is a key hot to the paper's W-C?"""
    size = Size(messages=scale.pick(10_000_000, 50_000), batches=1)
    rows = []
    for skew, n, paper in ((1.0, 16, 1.18), (2.0, 128, 7.97)):
        batches = drawn(skew, size)
        for times in (None, 100, 10, 1):
            threshold = None if times is None else times * HOT_MESSAGES / size.messages
            found = run(WChoices(threshold=threshold), n, batches)
            shown = f"1/(5n) = {1 / (5 * n):.2g}" if threshold is None else f"{threshold:.0e}"
            rows.append(
                (f"{skew:.1f}", str(n), f"{paper}", shown, f"{found.replication_factor:.3f}")
            )
    return Sheet(
        "Replication factor of W-C by the share from which a key is hot, which the paper does not "
        "give: its figures are those of 1e-5.",
        ("z", "n", "paper", "hot from", "ours"),
        tuple(rows),
    )


def once_only(messages: int, tags: int, first_share: float, share: float) -> Hashes:
    """Hashtags of which so large a share comes up once; the rest follows a Zipf law."""
    once = round(share * tags)
    repeated, kept = max(2, tags - once), messages - once
    laws = (ZipfKeys(repeated, float(exponent)) for exponent in np.arange(0.3, 3.0, 0.02))
    law = next(law for law in laws if law.share(1) >= first_share * messages / kept)
    keys = law.draw(messages)
    places = np.random.default_rng(0).permutation(messages)[:once]
    keys[places] = repeated + np.arange(once)
    return hashed(keys)


def once_sheet(scale: Scale) -> Sheet:
    """What would hashtags have to be like for the paper's replication factors?"""
    messages = scale.pick(5_000_000, 50_000)
    tags = round(messages * 2.2 / 67)
    rows = []
    for share in (0.0, 0.5, 0.9, 0.97):
        hashes = once_only(messages, tags, 0.085, share)
        paper = PdStream(expected=0.99, count_arriving=False)
        factors = [replication_factor(hashes, paper.build(n).assign(hashes)) for n in (16, 128)]
        rows.append((f"{share:.0%}", *(f"{factor:.3f}" for factor in factors)))
    return Sheet(
        f"Pd-Stream on hashtags of which so many come up only once ({messages:,} messages, "
        f"{tags:,} tags, the first with 8.5 %). The paper has 1.02 and 1.12.",
        ("come up once", "n = 16", "n = 128"),
        tuple(rows),
    )


def seeds_sheet(scale: Scale) -> Sheet:
    """How much hash functions matter."""
    size = Size(messages=scale.pick(10_000_000, 50_000), batches=1)
    batches = drawn(2.0, size)
    rows = []
    for name, grouping in systems_for(size.messages).items():
        found = [run(grouping, 128, batches, seed) for seed in range(SEEDS)]
        uneven = [r.load_imbalance for r in found]
        factors = [r.replication_factor for r in found]
        rows.append(
            (name, f"{min(uneven):.3g} to {max(uneven):.3g}",
             f"{min(factors):.3f} to {max(factors):.3f}")
        )  # fmt: skip
    return Sheet(
        f"{SEEDS} seeds of the hash functions, zipf 2.0, n = 128: least and most",
        ("", "load imbalance", "replication factor"),
        tuple(rows),
    )


def experiment(scale: Scale) -> Experiment:
    setting = (
        "Zipf streams as in fig. 8, seed 0; the first table with "
        f"{scale.pick('1,000,000', '50,000')} messages, where balance in tuples is as with 10 M. "
        "“auto” is our answer to the paper's future work, a threshold that adapts."
    )
    sheets = (
        expected_sheet(choices(scale)),
        readings_sheet(scale),
        thresholds_sheet(scale),
        once_sheet(scale),
        seeds_sheet(scale),
    )
    return Experiment("What decides how far keys are split", setting, (), sheets)
