"""A broker's folder, and the shards in it that this worker owns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from gateway_core.contract.errors import StartError
from gateway_core.contract.private_files import durable_folder, keep_private

from . import meta
from .delay_file import look, path_of
from .disk_reserve import DiskReserve
from .feeder import Tail
from .reader import LogReader, shards_in
from .shard import Shard, database_files, expect_file, lock_file


class LogFolder:
    """Worker w of W owns every shard s with s % W == w, and appends to the first of them that is not damaged: normally
    w itself. Its subscriptions are fed from the others, which are damaged or were left by a run with more workers,
    until those are empty."""

    def __init__(self, path: Path, worker: int, workers: int) -> None:
        self.path = path
        self._worker = worker
        self._workers = workers

    def look(self) -> None:
        """Looks at the worker's files as far as that needs no lock and changes nothing. Raises `StartError` for what
        `open` would refuse."""
        _no_folders(self.path / meta.FILE, self.path / meta.LOCK)
        known = meta.read(self.path)
        for number in self._mine(known):
            shard = known.shard(number)
            _no_folders(lock_file(self.path, number))
            if shard is None or not shard.damaged:  # a damaged one is not opened
                _no_folders(*database_files(self.path, number))
            expect_file(self.path, number, shard)
            look(path_of(self.path, number))

    def _mine(self, known: meta.Meta) -> list[int]:
        there = {*shards_in(self.path), *map(int, known.shards)}
        return sorted(s for s in {*there, self._worker} if s % self._workers == self._worker)

    def open(self, sync: Literal["full", "normal"]) -> tuple[list[Shard], DiskReserve]:
        """The worker's shards, the main one first, and the reserve on their disk. Raises `StartError`."""
        try:
            durable_folder(self.path, above=2)  # the data directory, too
            keep_private(self.path.parent)
            mine = self._mine(meta.read(self.path))
            reserve = DiskReserve(self.path, self._worker, self._workers)
        except OSError as e:
            raise StartError(f"log: can't create the folder {self.path}: {e.strerror}") from e
        shards: list[Shard] = []
        try:
            for number in mine:
                shards.append(Shard(self.path, number, sync, None if shards else reserve))
            if (main := next((s for s in shards if not s.damaged), None)) is None:
                shards.insert(0, self.next(shards, sync))
            else:
                shards.remove(main)
                shards.insert(0, main)
        except BaseException:
            for shard in shards:
                shard.close()
            raise
        return shards, reserve

    def next(self, shards: Sequence[Shard], sync: Literal["full", "normal"]) -> Shard:
        """A new shard of this worker, to replace a damaged one. Raises `StartError`."""
        return Shard(self.path, max(s.number for s in shards) + self._workers, sync)

    def ends(self, tails: Sequence[Tail]) -> dict[str, int]:
        """The next sequence of each shard on disk: the worker's own from memory, the others from their files."""
        mine = {t.shard: t.end for t in tails}
        with LogReader(self.path) as reader:
            return {str(s): mine[s] if s in mine else reader.bounds(s)[1] for s in reader.shards()}


def _no_folders(*files: Path) -> None:
    for file in files:
        if file.is_dir():
            raise StartError(f"log: {file} can't be opened: it is a folder")
