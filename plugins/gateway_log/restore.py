"""Restores a backup into a data directory."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from pathlib import Path

import msgspec
from gateway_file.private_files import replace_file, sync_directory

from gateway_core.contract.files import private_folder

from .backup import FORMAT, MANIFEST, Manifest, ReportProgress, file_entry

_STAGED = ".restored"
_decode = msgspec.json.Decoder(Manifest).decode


class BackupError(Exception):
    """A backup can't be used, or not here; the message says why and what to do."""


def read_manifest(backup: Path) -> Manifest:
    """The contents of a backup. Raises `BackupError`."""
    path = backup / MANIFEST
    try:
        found = _decode(path.read_bytes())
    except OSError as e:
        raise BackupError(f"{backup} is not a backup: {path}: {e.strerror}") from e
    except msgspec.DecodeError as e:
        raise BackupError(f"{path} is damaged: {e}") from e
    if found.format > FORMAT:
        raise BackupError(
            f"{backup} was made by Tidegate {found.version}, which is newer: restore it with that version"
        )
    return found


def check(backup: Path, manifest: Manifest, say: ReportProgress) -> list[str]:
    """One line for each file of a backup that is missing or has changed."""
    faults = []
    for name, fact in manifest.files.items():
        try:
            now = file_entry(backup / name, say)
        except OSError as e:
            faults.append(f"{backup / name}: {e.strerror}")
            continue
        if now != fact:
            faults.append(f"{backup / name}: has changed since the backup was made")
    return faults


def conflicts(data_dir: Path, manifest: Manifest) -> list[str]:
    """The entries of the data directory that a restore would replace."""
    return sorted(name for name in _tops(manifest) if (data_dir / name).exists())


def restore(backup: Path, manifest: Manifest, data_dir: Path, say: ReportProgress) -> Path | None:
    """Restores the backup's files into the data directory. Existing entries of the same name are moved aside, to the
    folder that is returned. No gateway may run there. If it raises `OSError`, nothing has been replaced yet; a crash
    during the replacement is fixed by another `restore`."""
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
    for name in sorted(_tops(manifest), key=lambda n: n == "log"):  # without a log no restore looks complete
        if (data_dir / name).exists():
            private_folder(aside)
            (data_dir / name).rename(aside / name)
        (staged / name).rename(data_dir / name)
    shutil.rmtree(staged, ignore_errors=True)
    sync_directory(data_dir)
    return aside if aside.exists() else None


def _tops(manifest: Manifest) -> set[str]:
    return {Path(name).parts[0] for name in manifest.files}


def _copy(source: Path, target: Path, total: int, say: ReportProgress) -> None:
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
    """Gives Spark's queries new ids. A table remembers the last batch of a query and skips batches that it already has.
    After a restore, the same numbers would stand for other events, which would be lost."""
    for metadata in root.glob("spark/*/checkpoint/metadata"):
        replace_file(metadata, json.dumps({"id": str(uuid.uuid4())}).encode())
        metadata.with_name(".metadata.crc").unlink(missing_ok=True)
