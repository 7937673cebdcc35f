"""Brings a backup back into a data directory."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from pathlib import Path

import msgspec

from gateway_core.files import private_folder, replace_file, sync_directory

from .backup import FORMAT, MANIFEST, Manifest, Say, fact_of

_STAGED = ".restored"


class BackupError(Exception):
    """A backup can't be used, or not here; the text says why, and what to do."""


def read_manifest(backup: Path) -> Manifest:
    """What a backup holds. Raises `BackupError`."""
    path = backup / MANIFEST
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except OSError as e:
        raise BackupError(f"{backup} is no backup: {path}: {e.strerror}") from e
    except msgspec.DecodeError as e:
        raise BackupError(f"{path} is damaged: {e}") from e
    if found.format > FORMAT:
        raise BackupError(
            f"{backup} was made by Tidegate {found.version}, which is newer: restore it with that version"
        )
    return found


def check(backup: Path, manifest: Manifest, say: Say) -> list[str]:
    """One line for each file of a backup that is missing or not as it was made."""
    faults = []
    for name, fact in manifest.files.items():
        try:
            now = fact_of(backup / name, say)
        except OSError as e:
            faults.append(f"{backup / name}: {e.strerror}")
            continue
        if now != fact:
            faults.append(f"{backup / name}: is not what it was when the backup was made")
    return faults


def in_the_way(data_dir: Path, manifest: Manifest) -> list[str]:
    """What the data directory has already of what a backup would bring."""
    return sorted(name for name in _tops(manifest) if (data_dir / name).exists())


def restore(backup: Path, manifest: Manifest, data_dir: Path, say: Say) -> Path | None:
    """Brings the backup's files into the data directory. What is there of the same name is moved aside, into the folder
    that is returned. No gateway may run there. Raises `OSError`, then nothing has been replaced yet; a crash amid the
    replacement leaves what a second `restore` mends."""
    private_folder(data_dir)
    staged = data_dir / _STAGED
    shutil.rmtree(staged, ignore_errors=True)
    try:
        for name, fact in manifest.files.items():
            private_folder((staged / name).parent)
            _copy(backup / name, staged / name, fact.bytes, say)
        _rename_queries(staged)
        for folder in [staged, *(p for p in staged.rglob("*") if p.is_dir())]:
            sync_directory(folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    aside = data_dir / f"replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    for name in sorted(_tops(manifest), key=lambda n: n == "log"):  # without a log no gateway looks complete
        if (data_dir / name).exists():
            private_folder(aside)
            (data_dir / name).rename(aside / name)
        (staged / name).rename(data_dir / name)
    shutil.rmtree(staged, ignore_errors=True)
    sync_directory(data_dir)
    return aside if aside.exists() else None


def _tops(manifest: Manifest) -> set[str]:
    return {Path(name).parts[0] for name in manifest.files}


def _copy(source: Path, target: Path, total: int, say: Say) -> None:
    done = 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with source.open("rb") as f, os.fdopen(descriptor, "wb") as out:
        while block := f.read(1 << 20):
            out.write(block)
            done += len(block)
            say(f"restore {source.name}", done, total)
        out.flush()
        os.fsync(out.fileno())


def _rename_queries(root: Path) -> None:
    """Gives Spark's queries new ids. A table remembers the last batch of a query, and skips those that it has: after a
    restore the same numbers would stand for other events, and these would be lost."""
    for metadata in root.glob("spark/*/checkpoint/metadata"):
        replace_file(metadata, json.dumps({"id": str(uuid.uuid4())}).encode())
        metadata.with_name(".metadata.crc").unlink(missing_ok=True)
