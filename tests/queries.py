"""A query without Spark, from its first start on: what the drivers of all kinds have in common.

With an output folder, results are staged as files and published by the commit, so that what a
reader of that folder sees can be compared to the last row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from skewless.joining.lifecycle import staging_folder


class Query(ABC):
    """A subclass knows how a batch is worked on; its setups are what may change at a restart."""

    setup_type: type

    def __init__(
        self,
        root: Path | str,
        spec: Any,
        setup: Any = None,
        output: Path | None = None,
        **options: int,
    ) -> None:
        self.root, self.spec, self.setup = str(root), spec, setup or self.setup_type()
        self._output, self._options = output, options
        self.reopen()

    def reopen(self, setup: Any = None, spec: Any = None) -> None:
        """Start again from what is on disk; all else is forgotten."""
        self.setup, self.spec = setup or self.setup, spec or self.spec
        self.runtime = self._started()
        self.runtime.open()

    @abstractmethod
    def _started(self) -> Any:
        """The runtime, not open yet."""

    @abstractmethod
    def run(self, batch_id: int, batch: Any, *, twice: bool = False) -> Any:
        """One batch from beginning to end, or nothing if it was committed before; `twice` as when
        tasks are repeated, and the results of their first attempts get lost."""

    def _stage(
        self, batch_id: int, parts: Sequence[Sequence[pa.RecordBatch]]
    ) -> list[tuple[str, str]]:
        """One file per part, and where each is to go."""
        if self._output is None:
            return []
        moves, folder = [], self.runtime.folder
        folder.make(staging_folder(batch_id))
        for number, part in enumerate(parts):
            staged = f"{staging_folder(batch_id)}/{number}.arrow"
            with pa.ipc.new_file(folder.path(staged), self.spec.output_schema()) as out:
                for batch in part:
                    out.write_batch(batch)
            moves.append((staged, str(self._output / f"{batch_id}-{number}.arrow")))
        return moves

    def published(self) -> pa.Table:
        """What a reader of the output folder sees."""
        files = sorted(self._output.rglob("*.arrow")) if self._output.exists() else []
        tables = [pa.ipc.open_file(str(file)).read_all() for file in files]
        return pa.concat_tables([self.spec.output_schema().empty_table(), *tables])
