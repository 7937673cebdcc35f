"""Rewinds that are decided and perhaps not done: each is one file, `<folder>/rewinds/<name>,<id>.json`, with the
sequence to go back to by shard. Who writes a shard does it there, and when that is durable leaves a file
`<name>,<id>,<shard>`. Once all shards have one, all of these files go. So a rewind that was decided happens in every
shard, whenever workers end; if one ends just before it leaves its file, the shard goes back twice.

Everything here blocks.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from gateway_core.contract.private_files import durable_folder, replace_file

log = logging.getLogger("tidegate.log")


class Open(NamedTuple):
    """A rewind that a shard has not done: its file, and the sequence to go back to."""

    path: Path
    shard: int
    first: int


def decide(folder: Path, name: str, firsts: Mapping[int, int]) -> None:
    """It is durable when this returns. Raises `OSError`."""
    path = _folder(folder) / f"{_quoted(name)},{secrets.token_hex(8)}.json"
    durable_folder(path.parent)
    replace_file(path, json.dumps({str(shard): first for shard, first in firsts.items()}).encode())


def left(folder: Path, name: str, shards: Collection[int]) -> list[Open]:
    """What these shards have not done for a subscription."""
    if not _folder(folder).is_dir():
        return []
    return [
        Open(path, shard, first)
        for path in sorted(_folder(folder).glob(f"{_quoted(name)},*.json"))
        for shard, first in _read(path).items()
        if shard in shards and not _done(path, shard).exists()
    ]


def did(found: Sequence[Open]) -> None:
    """These shards are back, durably. Raises `OSError`."""
    for each in found:
        if each.path.exists():  # else another worker has found that all are
            replace_file(_done(each.path, each.shard), b"")
    for path in {each.path for each in found}:
        done = [_done(path, shard) for shard in _read(path)]
        if all(one.exists() for one in done):
            path.unlink(missing_ok=True)
            for one in done:
                one.unlink(missing_ok=True)


def _read(path: Path) -> dict[int, int]:
    try:
        return {int(shard): int(first) for shard, first in json.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as e:
        log.error("the rewind in %s can't be read, and is not done: %s", path, e)
        return {}


def _done(path: Path, shard: int) -> Path:
    return path.with_name(f"{path.stem},{shard:03d}")


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _folder(folder: Path) -> Path:
    return folder / "rewinds"
