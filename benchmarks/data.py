"""The streams that are measured on: made once, then kept by their parameters."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from skewless.workloads import zipf_streams

DATA = Path(__file__).with_name(".data")
SIDES = ("r", "s")


@dataclass(frozen=True)
class Streams:
    """Two streams of `files` files each with `rows` rows over `seconds` of event time. The left
    side is skewed by `zipf`. While the right one is uniform, the matches of a row do not depend on
    the skew; both skewed, they share their hot keys."""

    zipf: float
    files: int
    rows: int
    keys: int
    seconds: float
    right_zipf: float = 0.0

    def make(self, root: Path) -> Path:
        """The folder that holds them, below `root`; written now unless it is there already."""
        told = {name: value for name, value in asdict(self).items() if name != "right_zipf"}
        if self.right_zipf:
            told["right"] = self.right_zipf
        folder = root / "-".join(f"{name}{value}" for name, value in told.items())
        if not folder.exists():
            begun = root / f".{folder.name}.{os.getpid()}"
            zipf_streams(
                begun,
                left_zipf=self.zipf,
                right_zipf=self.right_zipf,
                files=self.files,
                rows=self.rows,
                keys=self.keys,
                seconds=self.seconds,
            )
            try:
                begun.rename(folder)
            except OSError:  # someone else was quicker, with the same bytes
                shutil.rmtree(begun)
        return folder


def stream_files(folder: Path) -> list[Path]:
    """All files of both sides."""
    return [file for side in SIDES for file in sorted((folder / side).glob("*.parquet"))]


def read_through(folder: Path) -> None:
    """Bring all files into the page cache, so that no contestant has to wait for the disk."""
    for file in stream_files(folder):
        file.read_bytes()
