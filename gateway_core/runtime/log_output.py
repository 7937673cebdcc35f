"""Logs to standard error, as text for people or JSON lines for machines."""

from __future__ import annotations

import copy
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from ..contract.one_line import harmless, one_line
from ..contract.options import redacted
from ..contract.settings import Settings

# below warnings, these only help their own developers
_LOUD = ("aiokafka", "asyncio", "h2", "hpack", "httpcore", "httpx", "hypercorn", "py4j", "pyspark", "urllib3")
_WITH_URLS = ("httpcore", "httpx")  # which may hold secrets
_KNOWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}
_COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Sets up the root logger for this process: level and format by the settings, `stream` standard error by default.

    Loggers of libraries are limited to warnings; with `debug`, to info.
    """
    out = stream or sys.stderr
    terminal = out.isatty()
    text = settings.log_format == "text" or (settings.log_format == "auto" and terminal)
    handler = ThrottledHandler(out)
    handler.setFormatter(TextFormatter(terminal and "NO_COLOR" not in os.environ) if text else JsonFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    for name in _LOUD:
        quiet = settings.log_level != "debug" or name in _WITH_URLS
        logging.getLogger(name).setLevel("WARNING" if quiet else "INFO")
    logging.captureWarnings(True)


class ThrottledHandler(logging.StreamHandler[TextIO]):
    """Keeps one kind of message (same logger, same text before its values are filled in) from flooding the log: at most
    `BURST` of each in `WINDOW_S` seconds. The last one says that more are suppressed, the first one afterwards how many
    were. Debug messages and those with a traceback are never suppressed."""

    BURST = 20
    WINDOW_S = 10.0

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._windows: dict[tuple[str, str], list[float]] = {}  # since, seen

    def handle(self, record: logging.LogRecord) -> bool:
        shown = self._throttle(record)
        return super().handle(shown) if shown is not None else False

    def _throttle(self, record: logging.LogRecord) -> logging.LogRecord | None:
        if record.levelno <= logging.DEBUG or record.exc_info:
            return record
        key = (record.name, str(record.msg))
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= 1000:  # messages that are not templates must not pile up
                self._windows.clear()
            window = self._windows[key] = [record.created, 0]
        held = 0.0
        if record.created - window[0] >= self.WINDOW_S:
            held = max(0.0, window[1] - self.BURST)
            window[:] = [record.created, 0]
        window[1] += 1
        if window[1] > self.BURST:
            return None
        if held:
            return _with_note(record, f"{held:.0f} more like this were held back before")
        if window[1] == self.BURST:
            return _with_note(record, f"more like this are held back for {self.WINDOW_S:g} s")
        return record


def _with_note(record: logging.LogRecord, note: str) -> logging.LogRecord:
    changed = copy.copy(record)  # other handlers see the original
    changed.msg, changed.args = f"{record.getMessage()} ({note})", None
    return changed


class TextFormatter(logging.Formatter):
    """`12:00:00.123 WARNING tidegate.delivery: text  key=value`, level and place coloured on a terminal.

    Quoted foreign text can't look like a separate line, or control a terminal (`gateway_core.contract.one_line`).
    """

    def __init__(self, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        head = f"{datetime.fromtimestamp(record.created):%H:%M:%S}.{int(record.msecs):03d} {record.levelname:<7}"
        if self._colours and (code := _COLOURS.get(record.levelname)):
            head = f"\x1b[{code}m{head}\x1b[0m"
        extra = "".join(f"  {name}={one_line(value)}" for name, value in _extra(record).items())
        line = f"{head} {record.name}: {harmless(record.getMessage())}{extra}"
        return f"{line}\n{redacted(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (RFC 3339, UTC), `level`, `logger`, `message`, any `error`, and the `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": harmless(record.getMessage()),
        }
        if record.exc_info:
            members["error"] = redacted(self.formatException(record.exc_info))
        members.update((name, value) for name, value in _extra(record).items() if name not in members)
        try:
            return msgspec.json.encode(members, enc_hook=str).decode()
        except (UnicodeEncodeError, TypeError, RecursionError):
            return msgspec.json.encode({name: ascii(value) for name, value in members.items()}).decode()


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _KNOWN}
