"""Which keys the log has, and where: the newest in memory, the others in sorted runs on disk (`key_runs`).

The log's files are the truth: each event's row has its key, and the index is made from that. The newest keys are lost
with the process, and read again from the rows at the next start. Keys outlive their rows: retention moves those that
are in no run yet to the table `kept_keys`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from gateway_core.contract.private_files import durable_folder

from .key_runs import PAIRS, Base, Generation, Known, Run, generations_in, place_in

log = logging.getLogger("tidegate.log")

RUN_KEYS = 65_536
"""How many keys are in memory before they become a run."""
RUN_MS = 30 * 86_400_000
"""A run has keys of at most this long: its times are 32 bits."""
_RUN_EVENTS = 2**31
_GENERATIONS, _RUNS = 8, 64
"""Into how many of each `max_keys` are divided, at least."""
EARLY_MS = 86_400_000
"""How far a clock may go back within a run before times are taken as later than they were."""


def capacity_of(max_keys: int, workers: int) -> int:
    """How many keys a generation has."""
    return max(16, max_keys // _GENERATIONS // workers)


class Batch:
    """Keys in memory, with their tails (`key_runs.TAIL`): those that the log has before the sequence `end` and that are
    in no run yet; `newest` is the time of the newest."""

    __slots__ = ("base", "end", "keys", "newest")

    def __init__(self, shard: int, sequence: int, ms: int) -> None:
        self.base = Base(shard, sequence, max(0, ms - EARLY_MS))
        self.keys: dict[bytes, bytes] = {}
        self.end = sequence
        self.newest = 0


class KeyIndex:
    """Used by the writer's thread. `folder` is that of the runs, `window_ms` is how long a key counts, and `max_keys`
    how many are kept by all `workers` together; `others` says how many the other ones have."""

    def __init__(
        self, folder: Path, window_ms: int, max_keys: int, workers: int = 1, others: Callable[[], int] = int
    ) -> None:
        self._folder = folder
        self._window_ms = window_ms
        self._max_keys = max_keys
        self._share = max_keys // workers
        self._others = others
        self._capacity = capacity_of(max_keys, workers)
        self._run_keys = min(RUN_KEYS, max(16, max_keys // _RUNS // workers))
        self._generations: list[Generation] = []  # the newest first
        self._batch = Batch(0, 1, 0)
        self._sealed: dict[int, int] = {}
        self._sealing: tuple[Batch, Generation] | None = None  # what becomes a run, and where
        self._running: Future[Run] | None = None
        self._pool = ThreadPoolExecutor(1, "tidegate-log-keys")
        self.forgot_ms = 0
        """The time of the newest key that was dropped because there were too many; 0 if none was."""

    @property
    def keys(self) -> int:
        """How many keys it has."""
        sealing = len(self._sealing[0].keys) if self._sealing else 0
        return sum(g.keys for g in self._generations) + sealing + len(self._batch.keys)

    @property
    def size(self) -> int:
        """How much of the disk it takes, about."""
        return sum(g.size for g in self._generations)

    def sealed(self, shard: int) -> int:
        """The sequence of a shard before which all its keys are in runs."""
        return self._sealed.get(shard, 1)

    # -- life -------------------------------------------------------------------------------------------------------

    def load(self, ends: Mapping[int, int]) -> None:
        """Opens the runs; `ends` are the next sequences of all shards. Raises `OSError`."""
        durable_folder(self._folder, above=1)
        self._pool.submit(int)  # starts its thread now: later there may be no memory for one
        for number in generations_in(self._folder):
            generation = Generation(self._folder, number, self._capacity)
            self._generations.insert(0, generation)
            generation.load(ends)
            for run in generation.runs:
                self._note(run)
        self.forgot_ms = max((r.forgot for g in self._generations for r in g.runs), default=0)
        if not self._generations or self._generations[0].keys >= self._generations[0].capacity:
            self._begin_generation()

    @property
    def generations(self) -> list[Generation]:
        """The oldest first."""
        return self._generations[::-1]

    @property
    def files(self) -> tuple[int, int, int]:
        """Changes with the files of runs, and with what is in them."""
        newest = self._generations[0]
        return self._generations[-1].number, newest.number, sum(len(g.runs) for g in self._generations[:2])

    def mark(self) -> None:
        """Marks what is damaged, once its keys are known in another way. Raises `OSError`."""
        last = True
        for generation in self._generations:
            begins = generation.runs or generation.damage
            generation.mark(cut=last)
            last = last and not begins

    @property
    def run_keys(self) -> int:
        """How many keys a run should have."""
        return self._run_keys

    def add(self, base: Base, end: int, newest: int, keys: Mapping[bytes, bytes]) -> None:
        """Writes keys that are not the newest ones as a run. Raises `OSError`."""
        to = self._generations[0]
        run = to.write(base, end, newest, self.forgot_ms, keys)
        to.take(run)
        self._note(run)
        if to.keys >= to.capacity:
            self._begin_generation()

    def begin(self, shard: int, sequence: int, ms: int) -> None:
        """What is put from now on is of this shard, with sequences from this one on. Raises `OSError`."""
        self._finish(wait=True)
        if self._batch.keys:
            self._seal()
        self.start(shard, sequence, ms)
        self._finish(wait=True)

    def start(self, shard: int, sequence: int, ms: int) -> None:
        """Like `begin`, but what is in memory is forgotten."""
        self._batch = Batch(shard, sequence, ms)

    def close(self) -> None:
        """Keeps the filter, so that the next start need not make it again, and closes the files."""
        try:
            self._finish(wait=True)
            if self._generations:
                self._generations[0].save_bloom()
        except OSError as e:
            log.warning("%s: the keys can't be written: %s", self._folder, e)
        self._pool.shutdown()
        for generation in self._generations:
            generation.close()

    # -- keys -------------------------------------------------------------------------------------------------------

    def find(self, key: bytes) -> Known | None:
        """The newest event of a key, which may be older than the window. Raises `OSError`."""
        batch = self._batch
        if (tail := batch.keys.get(key)) is not None:
            return batch.base.known(tail)
        if self._sealing is not None and (tail := self._sealing[0].keys.get(key)) is not None:
            return self._sealing[0].base.known(tail)
        (place,) = place_in(key)
        mask = PAIRS[place & 4095] | PAIRS[place >> 12 & 4095]  # `mask_of` without the call
        for generation in self._generations:
            if generation.cells[place % generation.count] & mask == mask and (known := generation.find(key)):
                return known
        return None

    @property
    def base(self) -> Base:
        """Where the numbers of tails begin."""
        return self._batch.base

    def known(self, tail: bytes) -> Known:
        """What a tail says that is not put yet."""
        return self._batch.base.known(tail)

    def put(self, keys: Mapping[bytes, bytes], end: int, ms: int) -> None:
        """Adds keys, with their tails, that the log has now, before the sequence `end`; `ms` is the time of the
        newest."""
        batch = self._batch
        batch.keys.update(keys)
        batch.end = end
        if ms > batch.newest:
            batch.newest = ms

    @property
    def overfull(self) -> bool:
        """Whether there are so many keys in memory that they must become a run first."""
        return len(self._batch.keys) >= 2 * self._run_keys

    def look(self, ms: int, sequence: int) -> None:
        """Makes a run of the keys in memory if there are enough of them, or if its numbers end before this time and
        sequence, which come next: in the background, but it waits if as many keys have come meanwhile. Raises
        `OSError`."""
        batch = self._batch
        due = ms - batch.base.ms >= RUN_MS or sequence - batch.base.sequence >= _RUN_EVENTS
        due = due or len(batch.keys) >= self._run_keys
        if not due and self._sealing is None:
            return
        self._finish(wait=self.overfull)
        if due and self._sealing is None:
            if batch.keys:
                batch.end = max(batch.end, sequence)
                self._seal()
            self._batch = Batch(batch.base.shard, sequence, ms)

    def _seal(self) -> None:
        """Begins to write a run."""
        batch, to = self._batch, self._generations[0]
        self._sealing = batch, to
        self._write(batch, to)
        if to.keys + len(batch.keys) >= to.capacity:
            self._begin_generation()

    def _write(self, batch: Batch, to: Generation) -> None:
        run = batch.base, batch.end, batch.newest, self.forgot_ms, batch.keys
        self._running = self._pool.submit(to.write, *run)

    def _begin_generation(self) -> None:
        number = self._generations[0].number + 1 if self._generations else 1
        self._generations.insert(0, Generation(self._folder, number, self._capacity))

    def _finish(self, wait: bool) -> None:
        """Takes the run that was written; one that could not be is tried again. Raises `OSError`."""
        if self._sealing is None:
            return
        batch, to = self._sealing
        if self._running is None:
            self._write(batch, to)
        assert self._running is not None
        if not wait and not self._running.done():
            return
        running, self._running = self._running, None
        run = running.result()
        to.take(run)
        self._note(run)
        self._sealing = None
        if to.due() or to is not self._generations[0]:
            self._pool.submit(self._save_bloom, to)
        self._forget(batch.newest)

    def _note(self, run: Run) -> None:
        shard = run.base.shard
        self._sealed[shard] = max(run.end, self._sealed.get(shard, 1))

    def _save_bloom(self, generation: Generation) -> None:
        try:
            generation.save_bloom()
        except OSError as e:
            log.warning("%s: the filter of the keys can't be written: %s", generation.path, e)

    def _forget(self, now_ms: int) -> None:
        """Drops generations whose keys are all too old, and the oldest ones while there are too many keys."""
        while len(self._generations) > 1:
            oldest = self._generations[-1]
            newest = max((run.newest for run in oldest.runs), default=0)
            if newest < now_ms - self._window_ms - EARLY_MS:
                pass
            elif self.keys > self._share and self.keys + self._others() > self._max_keys:
                self.forgot_ms = max(self.forgot_ms, newest)
            else:
                return
            self._generations.pop()
            oldest.remove()
