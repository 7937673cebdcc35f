"""The status of a query that fills a table, for status and metrics: kept by the sink, from reports of the process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gateway_core.contract.clock import Clock

STALLED_AFTER_S = 120.0
"""How long events may wait without a finished batch, while the query runs, until it counts as stalled."""


class QueryStatus:
    """`rows` and the other counts are since the gateway's start, over all runs of the process."""

    def __init__(self, clock: Clock) -> None:
        self.state = "stopped"
        self.error: str | None = None
        self.committed: dict[str, int] = {}  # the next position of each shard or partition
        self._first = 0
        self._clock = clock
        self._last_error: dict[str, str] | None = None
        self._ui: str | None = None
        self._restarts = 0
        self._batch: dict[str, Any] = {"batch": None, "rows_per_s": 0.0, "batch_s": None, "parts": {}}
        self._batch_at: str | None = None
        self._rows = self._late = self._state_rows = 0
        self._quarantined = _Total()
        self._moved = self._ran = clock.monotonic()  # when it last was idle, or made progress; when it began to run

    def begin(self, start: Mapping[str, int], first: int) -> None:
        """The query starts at these positions; `first` is the first position of any shard or partition."""
        self.state, self.committed, self._first = "starting", dict(start), first
        self._moved = self._clock.monotonic()

    def fail(self, error: str) -> None:
        """Something went wrong; `error` stays until a batch succeeds, the last error stays for good."""
        self.error = error
        self._last_error = {"at": self._now(), "error": error}

    def restart(self, error: str) -> None:
        """The process ended, and is restarted."""
        if error != self.error:
            self.fail(error)
        self.state = "restarting"
        self._ui = None
        self._restarts += 1
        self._quarantined.begin()

    def run(self, ui: str | None) -> None:
        self.state, self._ui = "running", ui
        self._ran = self._clock.monotonic()

    def follow(self, ends: Mapping[str, int]) -> bool:
        """The table has everything before these positions; returns whether that is new."""
        if not ends or ends == self.committed:
            return False
        self.committed = dict(ends)
        self._moved = self._clock.monotonic()
        return True

    def progress(self, facts: Mapping[str, Any], caught_up: bool) -> None:
        """Takes over the facts of a batch (`query_run.facts`)."""
        rows = facts["rows"]
        self.error = None
        self._rows += rows
        self._late += facts["late"]
        self._state_rows = facts["state_rows"]
        self._quarantined.now(facts["quarantined"])
        self._batch["batch"] = facts["batch"]
        if rows:
            self._batch_at = self._now()
            self._batch |= {name: facts[name] for name in ("rows_per_s", "batch_s", "parts")}
        if caught_up:
            self._moved = self._clock.monotonic()

    def lags(self, ends: Mapping[str, int]) -> dict[str, int]:
        """The number of events in each shard or partition that no batch has read yet."""
        return {part: max(0, end - self.committed.get(part, self._first)) for part, end in ends.items()}

    def snapshot(self, ends: Mapping[str, int] | None, pid: int | None) -> dict[str, Any]:
        """All of it; `ends` has the ends of the channel's shards or partitions, or None if they are unknown."""
        lags = None if ends is None else self.lags(ends)
        lag = None if lags is None else sum(lags.values())
        stalled = self._stalled(lag)
        late = self.state == "running" and min(stalled, self._clock.monotonic() - self._ran) > STALLED_AFTER_S
        return {
            "state": "stalled" if late else self.state,
            "error": self.error or (f"{lag} events wait, and no batch has ended for {stalled:.0f} s" if late else None),
            "last_error": self._last_error,
            **self._batch,
            "batch_at": self._batch_at,
            "rows": self._rows,
            "quarantined": self._quarantined.value,
            "late": self._late,
            "state_rows": self._state_rows,
            "lag": lag,
            "lags": lags,
            "stalled_s": round(stalled, 1),
            "offsets": dict(self.committed),
            "restarts": self._restarts,
            "pid": pid,
            "ui": self._ui,
        }

    def _stalled(self, lag: int | None) -> float:
        now = self._clock.monotonic()
        if lag == 0:
            self._moved = now
        return now - self._moved if lag else 0.0

    def _now(self) -> str:
        now = datetime.fromtimestamp(self._clock.now_ns() // 1_000_000_000, UTC)
        return now.isoformat().replace("+00:00", "Z")


class _Total:
    """A total over all processes, of a count that each process reports since its start."""

    def __init__(self) -> None:
        self.value = self._seen = 0

    def begin(self) -> None:
        self._seen = 0

    def now(self, count: int) -> None:
        self.value += max(0, count - self._seen)
        self._seen = count
