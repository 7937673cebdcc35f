"""What became of events in shards that other workers write: replays run in the first worker, for the shards of all.

One file for some events, `<folder>/fates/<shard>-<token>.json`, written here and picked up by the worker that writes
the shard. It deletes the file once its shard has it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import msgspec

from gateway_core.contract.clock import Clock, Timer
from gateway_core.contract.private_files import durable_folder, replace_file

from .given_up import Delivered, Fate, Row
from .reader import LogReader

log = logging.getLogger("tidegate.log")

GATHER_S = 0.05
LOOK_S = 2.0
"""How often a worker looks for files of others."""
RETRY_S = 5.0
MOST = 10_000
"""What is kept in memory while it can't be written; the oldest go first."""
Found = Sequence[tuple[Path, int, Sequence[Fate]]]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[tuple[int, str, str | int, str]]).decode


class FatesElsewhere:
    """Leaves them for other workers."""

    def __init__(self, folder: Path, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._folder = folder
        self._clock = clock
        self._loop = loop
        self._fates: list[tuple[int, Fate]] = []
        self._timer: Timer | None = None

    def note(self, shard: int, fate: Fate) -> None:
        """An event of another worker's shard."""
        self._fates.append((shard, fate))
        del self._fates[:-MOST]
        self._write_within(GATHER_S)

    def _write_within(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(seconds, self._start)

    def _start(self) -> None:
        fates, self._fates = self._fates, []
        future = self._loop.run_in_executor(None, leave, self._folder, fates)
        future.add_done_callback(partial(self._written, fates))

    def _written(self, fates: list[tuple[int, Fate]], future: asyncio.Future[None]) -> None:
        self._timer = None
        if not future.cancelled() and (error := future.exception()) is not None:
            log.warning("that events were delivered which had been given up can't be written: %s", error)
            self._fates = [*fates, *self._fates][-MOST:]
            self._write_within(RETRY_S)
        elif self._fates:
            self._write_within(GATHER_S)

    async def stop(self) -> None:
        """Writes what is left."""
        if self._timer is not None:
            self._timer.cancel()
        if self._fates:
            fates, self._fates = self._fates, []
            try:
                await self._loop.run_in_executor(None, leave, self._folder, fates)
            except (OSError, sqlite3.Error) as e:
                log.warning("that events were delivered which had been given up can't be written: %s", e)


def leave(folder: Path, fates: Sequence[tuple[int, Fate]]) -> None:
    """Writes those that change something. It blocks. Raises `OSError` and `sqlite3.Error`."""
    by_shard: dict[int, list[Fate]] = {}
    with LogReader(folder) as reader:
        for shard, fate in fates:
            known = None if isinstance(fate, Row) else reader.given_up(shard, fate.sequence).get(fate.name)
            if isinstance(fate, Row) or (known is not None and not known.delivered_ns):
                by_shard.setdefault(shard, []).append(fate)
    for shard, found in by_shard.items():
        durable_folder(_folder(folder))
        replace_file(
            _folder(folder) / f"{shard:03d}-{secrets.token_hex(8)}.json", _encode([_written(fate) for fate in found])
        )


def any_left(folder: Path) -> bool:
    """Whether there may be some."""
    return _folder(folder).is_dir()


def found(folder: Path, shards: Collection[int]) -> Found:
    """What others have left for these shards. It blocks. Raises `OSError`."""
    left = []
    for path in sorted(_folder(folder).glob("*.json")):
        number = path.name.partition("-")[0]
        if number.isdigit() and int(number) in shards:
            try:
                rows = _decode(path.read_bytes())
            except msgspec.MsgspecError as e:
                log.warning("%s can't be read, and is removed: %s", path, e)
                path.unlink(missing_ok=True)
                continue
            left.append((path, int(number), [_fate(*each) for each in rows]))
    return left


def forget(found: Found) -> None:
    """The shards have them. It blocks. Raises `OSError`."""
    for path, _, _ in found:
        path.unlink(missing_ok=True)


def _written(fate: Fate) -> tuple[int, str, str | int, str]:
    return (*fate, "") if isinstance(fate, Row) else fate


def _fate(sequence: int, name: str, told: str | int, by: str) -> Fate:
    return Row(sequence, name, told) if isinstance(told, str) else Delivered(sequence, name, told, by)


def _folder(folder: Path) -> Path:
    return folder / "fates"
