"""The audit log of a gateway: one line of JSON for each change, and for each attempt that was denied."""

from __future__ import annotations

import asyncio
import getpass
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from weakref import WeakMethod, WeakValueDictionary

from gateway_core.contract.moments import stamped
from gateway_core.contract.one_line import one_line

from .denials import SUMMARY_S, Denials
from .files import LineFile, audit_file

log = logging.getLogger("tidegate.audit")

Result = Literal["done", "failed", "denied"]
"""What became of an attempt: a change was made; it was allowed, but failed; or it was not allowed."""

_MOST_TEXT = 300
_MOST_ITEMS = 20
_MOST_LINE = 16 * 1024
_OWN = ("time", "who", "what", "where", "result")


class AuditLog:
    """Writes the audit log of one worker. Nothing here raises: a gateway whose disk is full keeps running, and says so
    in its log. Methods may be called from any thread, and take no longer than a short write to a file."""

    def __init__(
        self,
        file: LineFile,
        denials: Denials | None = None,
        now_s: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._file = file
        self._denials = denials or Denials()
        self._now_s = now_s
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._summary_due_s = 0.0
        self._lost = 0

    def record(self, who: str, what: str, where: str, result: Result, **facts: Any) -> None:
        """Adds a line.

        `who`     the identity ("key billing"), "" if it is unknown.
        `what`    what was attempted, a fixed word of ours ("trigger.apply", "ingress"), never text of the caller.
        `where`   the caller's address without port, or "socket", or "command".
        `result`  "denied" is written at a bounded rate; what is beyond it is counted, and the counts are written.
        `facts`   what else helps. Long values are cut. Never a credential.
        """
        with self._lock:
            if result == "denied" and not self._denials.admits(self._now_s(), known=bool(who)):
                self._count(what, where)
                return
            self._summarize()
            self._write({"who": who, "what": what, "where": where, "result": result}, facts)

    def flush(self) -> None:
        """Writes the counts of attempts that were not written one by one."""
        with self._lock:
            self._summarize(now=True)

    def close(self) -> None:
        """Like `flush`, and closes the file; the next line opens it again."""
        self.flush()
        with self._lock:
            self._file.close()

    def _count(self, what: str, where: str) -> None:
        if not self._denials.counted:
            self._summary_due_s = self._now_s() + SUMMARY_S
            _later(SUMMARY_S, self.flush)
        self._denials.count(what, one_line(where, 64), self._now_ns())
        self._summarize()

    def _summarize(self, *, now: bool = False) -> None:
        if not self._denials.counted or not (now or self._now_s() >= self._summary_due_s):
            return
        for what, summary in self._denials.take().items():
            facts = {"count": summary.count, "since": stamped(summary.since_ns), "addresses": summary.shown()}
            self._write({"who": "", "what": what, "where": "", "result": "denied"}, facts)

    def _write(self, base: Mapping[str, str], facts: Mapping[str, Any]) -> None:
        if self._lost:
            facts = {**facts, "lost_before": self._lost}
        try:
            self._file.append(_encoded({"time": stamped(self._now_ns()), **base}, facts))
        except OSError as e:
            if not self._lost:
                log.error(
                    "can't write the audit log %s: %s: make room there; what happens meanwhile is not recorded",
                    self._file.path,
                    e.strerror or e,
                )
            self._lost += 1
            self._file.close()
            return
        if self._lost:
            log.warning("the audit log can be written again; %d lines were lost", self._lost)
            self._lost = 0


def _encoded(base: Mapping[str, str], facts: Mapping[str, Any]) -> bytes:
    line = {name: one_line(text, _MOST_TEXT) for name, text in base.items()}
    more = {name: _bounded(value, 3) for name, value in facts.items() if name not in _OWN}
    encoded = json.dumps({**line, **more}).encode()
    return encoded if len(encoded) <= _MOST_LINE else json.dumps({**line, "cut": True}).encode()


def _bounded(value: Any, depth: int) -> Any:
    """The value as JSON of bounded size."""
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, Mapping) and depth:
        items = list(value.items())[: _MOST_ITEMS + 1]
        return {one_line(k, 64): _bounded(v, depth - 1) for k, v in items}
    if isinstance(value, list | tuple | set | frozenset) and depth:
        items = list(value)
        rest = [f"… and {len(items) - _MOST_ITEMS} more"] if len(items) > _MOST_ITEMS else []
        return [_bounded(item, depth - 1) for item in items[:_MOST_ITEMS]] + rest
    return one_line(value, _MOST_TEXT)


def _later(seconds: float, call: Callable[[], None]) -> None:
    """Calls a method after some time if its object still exists, and this thread has an event loop."""
    method = WeakMethod(call)

    def run() -> None:
        if (found := method()) is not None:
            found()

    with suppress(RuntimeError):
        asyncio.get_running_loop().call_later(seconds, run)


def record_command(data_dir: Path, what: str, result: Result, **facts: Any) -> None:
    """Records what a command did, if a gateway has used this data directory."""
    if data_dir.is_dir():
        audit_log(data_dir).record(local_user(), what, "command", result, **facts)


def local_user() -> str:
    """Who runs this command, for `record`."""
    try:
        return f"user {getpass.getuser()}"
    except (KeyError, OSError):
        return f"user {os.getuid()}"


_logs: WeakValueDictionary[tuple[Path, int], AuditLog] = WeakValueDictionary()


def audit_log(data_dir: Path, worker: int = 0) -> AuditLog:
    """The audit log of the gateway with this data directory. All parts of a worker share one while any of them keeps
    it. The first line creates the file `DATA_DIR/audit/audit.jsonl` (of worker n: `audit-n.jsonl`)."""
    key = (data_dir.absolute(), worker)
    found = _logs.get(key)
    if found is None:
        found = _logs[key] = AuditLog(LineFile(audit_file(key[0], worker)))
    return found
