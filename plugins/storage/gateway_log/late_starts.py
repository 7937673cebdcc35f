"""Subscriptions that asked for a start at a time and began later, because the log had deleted what came before.

One small file for each in a shard, `<folder>/started-late/<name>-<shard>.json`, written before the first cursor is. So
the subscription can say what it lacks as long as it is in use, whenever the gateway restarts.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from gateway_core.contract.moments import written
from gateway_core.contract.private_files import durable_folder, replace_file

from .reader import LogReader

log = logging.getLogger("tidegate.log")


def found(folder: Path, name: str, shard: int, asked_ns: int, at: int, first: int) -> str | None:
    """What is gone for a new subscription that begins at a sequence, in a shard whose oldest event is `first`. It is
    remembered. None if nothing is gone."""
    path = _file(folder, name, shard)
    oldest_ns = _oldest_ns(folder, shard, first) if at == first > 1 else None
    if oldest_ns is None or 0 < oldest_ns <= asked_ns:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return None
    text = _text(asked_ns, oldest_ns)
    log.warning("trigger %s: %s", name, text)
    try:
        durable_folder(path.parent)
        replace_file(path, json.dumps({"asked_ns": asked_ns, "oldest_ns": oldest_ns}).encode())
    except OSError as e:
        log.warning("trigger %s: that it began late will not be known after a restart: %s", name, e)
    return text


def known(folder: Path, name: str, shard: int) -> str | None:
    """What was gone when this subscription began."""
    try:
        content = json.loads(_file(folder, name, shard).read_bytes())
        return _text(int(content["asked_ns"]), int(content["oldest_ns"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as e:
        log.warning("whether trigger %s began late can't be read: %s", name, e)
        return None


def _oldest_ns(folder: Path, shard: int, first: int) -> int:
    """When the oldest event was received; 0 if there is none."""
    try:
        with LogReader(folder) as reader:
            row = next(reader.read(shard, first, None, 1), None)
    except sqlite3.Error:
        return 0
    return 0 if row is None else row.received_ns


def _text(asked_ns: int, oldest_ns: int) -> str:
    if not oldest_ns:
        return f"it should begin at {written(asked_ns)}, but the log had deleted all that it once had"
    return (
        f"it should begin at {written(asked_ns)}, but the log had kept nothing before {written(oldest_ns)}: it began"
        " there"
    )


def _file(folder: Path, name: str, shard: int) -> Path:
    return folder / "started-late" / f"{quote(name, safe='')}-{shard:03d}.json"
