"""A stream joined with itself: which short texts say nearly the same?

    python examples/near_duplicates.py            # from the root of the repository

Posts come from a few templates; some are posted again within minutes, with a word changed or left
out, as spam is. A post becomes the set of its runs of five characters, each as a number; two posts
are near duplicates when their sets differ little (Jaccard). Posts, checkpoint and result land in
demo-output/near_duplicates; an earlier run's are replaced.
"""

from __future__ import annotations

import random
import shutil
import zlib
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import skewless as sk
from skewless.workloads.zipf import EPOCH, empty_folder, publish

FOLDER = Path("demo-output/near_duplicates")
BATCHES = 4
POSTS = 300  # in a batch of a minute
COPIED = 0.15  # of all posts are copies of one before
SHINGLE = 5  # characters
THRESHOLD = 0.4  # of all shingles of two posts may be in one of them only

TEMPLATES = (
    "{who} just saw {what} near the {where}, {how} enough to stop and look",
    "anyone else waiting for {what} at the {where}? {who} says it is {how} today",
    "{how} offer: {what} for half the price, ask {who} at the {where}",
    "lost {what} somewhere around the {where}, please tell {who}, it looks {how}",
    "{who} and friends bring {what} to the {where} tonight, it will be {how}",
)
WORDS = {
    "who": ("anna", "ben", "chen", "dario", "elif", "farah", "goran", "hana", "ivan", "jun"),
    "what": ("an umbrella", "two bicycles", "fresh bread", "a street band", "the late bus",
             "old cameras", "a red scarf", "garden chairs", "concert tickets", "a lost parrot"),
    "where": ("harbour", "station", "library", "bakery", "museum", "bridge", "market", "stadium"),
    "how": ("strange", "lovely", "quiet", "noisy", "cheap", "amazing", "broken", "shiny", "slow"),
}  # fmt: skip


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    write_posts(seed=5)
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    path = str(FOLDER / "posts")
    posts = spark.readStream.schema(spark.read.parquet(path).schema)
    alike = sk.similarity_join(
        posts.option("maxFilesPerTrigger", 1).parquet(path),
        on="shingles",
        metric="jaccard",
        threshold=THRESHOLD,
        time="posted_at",
        within="2 minutes",
        suffixes=("_first", "_again"),
    ).select("id_first", "id_again", "text_first", "text_again", "copy_of_again", "distance")
    writer = alike.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(FOLDER / "checkpoint"))
    writer.start(str(FOLDER / "alike")).awaitTermination()

    out = Console(width=110)
    found = spark.read.parquet(str(FOLDER / "alike"))
    show_pairs(out, found)
    show_batches(out)
    copied = found.where("copy_of_again = id_first").count()
    print(f"{found.count()} pairs, {copied} of them a post and its copy, are in {FOLDER / 'alike'}")
    spark.stop()


def write_posts(seed: int) -> None:
    """One parquet file per batch."""
    rng = random.Random(seed)
    folder = empty_folder(FOLDER / "posts")
    texts: list[str] = []
    copies: list[int | None] = []
    for batch in range(BATCHES):
        for _ in range(POSTS):
            copied = bool(texts) and rng.random() < COPIED
            # At most a minute's posts ago, so that every copy is within the bound of times.
            origin = rng.randrange(max(0, len(texts) - POSTS), len(texts)) if copied else None
            texts.append(new_text(rng) if origin is None else edited(rng, texts[origin]))
            copies.append(origin)
        numbers = range(batch * POSTS, len(texts))
        gap = timedelta(minutes=1) / POSTS
        table = {
            "id": list(numbers),
            "text": texts[-POSTS:],
            "copy_of": pa.array(copies[-POSTS:], pa.int64()),
            "shingles": [shingles(text) for text in texts[-POSTS:]],
            "posted_at": pa.array([EPOCH + n * gap for n in numbers], pa.timestamp("us", "UTC")),
        }
        publish(pa.table(table), folder, batch)


def new_text(rng: random.Random) -> str:
    """A post in someone's own words: a template, some words of which are exchanged."""
    text = rng.choice(TEMPLATES).format(**{kind: rng.choice(of) for kind, of in WORDS.items()})
    for _ in range(2):
        text = edited(rng, text)
    return text


def edited(rng: random.Random, text: str) -> str:
    """The text with one word left out or replaced."""
    words = text.split()
    place = rng.randrange(len(words))
    words[place : place + 1] = rng.choice(([], [rng.choice(WORDS["how"])]))
    return " ".join(words)


def shingles(text: str) -> list[int]:
    """All runs of so many characters, as numbers that are the same in every run of this script."""
    runs = {text[i : i + SHINGLE] for i in range(len(text) - SHINGLE + 1)}
    return sorted(zlib.crc32(run.encode()) for run in runs)


def show_pairs(out: Console, found: DataFrame) -> None:
    table = Table("distance", "first", "again", title="near duplicates")
    for row in (
        found.where("distance > 0").orderBy(F.hash("id_first", "id_again")).limit(4).collect()
    ):
        table.add_row(f"{row.distance:.2f}", row.text_first, row.text_again)
    out.print(table)


def show_batches(out: Console) -> None:
    table = Table("batch", "posts", "posts kept", "pairs alike", "pairs compared",
                  title="sk.history")  # fmt: skip
    for report in sk.history(str(FOLDER / "checkpoint")):
        compared = report.comparisons["compared"] + report.comparisons["inner"]
        row = (report.batch_id, report.rows_left, report.state_rows, report.matches, compared)
        table.add_row(*map(str, row))
    out.print(table)


if __name__ == "__main__":
    main()
