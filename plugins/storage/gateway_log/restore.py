"""Restores a backup into a data directory."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec

from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import replace_file, sync_directory

from .backup import FORMAT, MANIFEST, OWN, FileEntry, Manifest, ReportProgress

_STAGED = ".restored"
_decode = msgspec.json.Decoder(Manifest).decode


class BackupError(Exception):
    """A backup can't be used, or not here; the message says why and what to do."""


def digest(backup: Path) -> str:
    """The SHA-256 of a backup's manifest, which has those of all its files: who keeps it elsewhere can tell this backup
    from any other. Raises `OSError`."""
    return hashlib.sha256((backup / MANIFEST).read_bytes()).hexdigest()


def read_manifest(backup: Path, wanted: str = "") -> Manifest:
    """The contents of a backup, whose manifest must have the digest `wanted` if there is one. Raises `BackupError`."""
    path = backup / MANIFEST
    try:
        text = path.read_bytes()
        if wanted and hashlib.sha256(text).hexdigest() != wanted.lower():
            raise BackupError(f"{backup} is another backup, or was changed: its manifest has another SHA-256")
        found = _decode(text)
    except OSError as e:
        raise BackupError(f"{backup} is not a backup: {path}: {e.strerror}") from e
    except msgspec.DecodeError as e:
        raise BackupError(f"{path} is damaged: {e}") from e
    if found.format > FORMAT:
        raise BackupError(
            f"{backup} was made by Tidegate {found.version}, which is newer: restore it with that version"
        )
    for name in found.files:
        if why := _forbidden(name, found):
            raise BackupError(f"{path} was changed: it names the file {name!r}, which {why}")
    return found


def _forbidden(name: str, manifest: Manifest) -> str:
    """Why no backup has a file of this name, "" if one may."""
    parts = PurePosixPath(name).parts
    if not parts or str(PurePosixPath(name)) != name or name.startswith("/") or ".." in parts:
        return "is not in the backup's folder"
    if not name.isprintable() or name == MANIFEST:
        return "has no possible name"
    if _NEVER.match(name):
        return "no backup has"
    if any("/".join(parts[:n]) in manifest.files for n in range(1, len(parts))):
        return "is in a folder that is a file"
    return ""


_NEVER = re.compile(r"\.|replaced-|gateway\.json(/|$)|[^/]*\.(lock|sock)(/|$)")
"""What belongs to a gateway that runs, or to a restore."""


def left_out(manifest: Manifest) -> list[str]:
    """What a restore leaves out unless it is asked for: all that may let someone in (`OWN`)."""
    return sorted(name for name in _tops(manifest) if name not in OWN)


def without(manifest: Manifest, names: list[str]) -> Manifest:
    """The manifest without these entries of the data directory."""
    files = {name: fact for name, fact in manifest.files.items() if PurePosixPath(name).parts[0] not in names}
    return msgspec.structs.replace(manifest, files=files)


def check(backup: Path, manifest: Manifest, say: ReportProgress) -> list[str]:
    """One line for each file of a backup that is missing or has changed."""
    faults = []
    for name, fact in manifest.files.items():
        try:
            _copy(backup, name, None, fact, say)
        except OSError as e:
            faults.append(f"{backup / name}: {e.strerror}")
        except BackupError as e:
            faults.append(str(e))
    return faults


def conflicts(data_dir: Path, manifest: Manifest) -> list[str]:
    """The entries of the data directory that a restore would replace."""
    return sorted(name for name in _tops(manifest) if (data_dir / name).exists())


def restore(backup: Path, manifest: Manifest, data_dir: Path, say: ReportProgress) -> Path | None:
    """Restores the backup's files into the data directory. Existing entries of the same name are moved aside, to the
    folder that is returned. No gateway may run there. If it raises `OSError` or `BackupError`, all is as it was; a
    crash during the replacement is fixed by another `restore`."""
    private_folder(data_dir)
    staged = data_dir / _STAGED
    shutil.rmtree(staged, ignore_errors=True)
    try:
        for name, fact in manifest.files.items():
            private_folder((staged / name).parent)
            _copy(backup, name, staged / name, fact, say)  # a file may have been changed since it was checked
        _rename_queries(staged)
        for folder in [staged, *(p for p in staged.rglob("*") if p.is_dir())]:
            sync_directory(folder)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    aside = data_dir / f"replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    moved: list[tuple[Path, Path]] = []
    try:
        for name in sorted(_tops(manifest), key=lambda n: n == "log"):  # without a log no restore looks complete
            here = data_dir / name
            steps = [(staged / name, here)]
            if here.exists():
                private_folder(aside)
                steps.insert(0, (here, aside / name))
            for old, new in steps:
                old.rename(new)
                moved.append((old, new))
    except BaseException:
        for old, new in reversed(moved):
            new.rename(old)
        shutil.rmtree(staged, ignore_errors=True)
        raise
    shutil.rmtree(staged, ignore_errors=True)
    sync_directory(data_dir)
    return aside if aside.exists() else None


def _tops(manifest: Manifest) -> set[str]:
    return {Path(name).parts[0] for name in manifest.files}


def _copy(backup: Path, name: str, target: Path | None, fact: FileEntry, say: ReportProgress) -> None:
    """Copies a file, or only reads it if there is no target. Raises `BackupError` if it is not the file of this size
    and digest."""
    source, done, digest = backup / name, 0, hashlib.sha256()
    with _opened(backup, name) as f, _created(target) as out:
        while done <= fact.bytes and (block := f.read(1 << 20)):
            digest.update(block)
            done += len(block)
            if out is not None:
                out.write(block)
            say(f"{'check' if out is None else 'restore'} {source.name}", done, fact.bytes)
        if out is not None:
            out.flush()
            os.fsync(out.fileno())
    if (done, digest.hexdigest()) != (fact.bytes, fact.sha256):
        raise BackupError(f"{source}: has changed since the backup was made")


def _opened(backup: Path, name: str) -> BinaryIO:
    """A file of the backup. It must be one: a link, a pipe or a device leads elsewhere."""
    file = backup
    for part in PurePosixPath(name).parts[:-1]:
        file = file / part
        if file.is_symlink():
            raise BackupError(f"{file}: is a link, and a backup has none")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = backup / name
    try:
        descriptor = os.open(file, flags)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise BackupError(f"{file}: is a link, and a backup has none") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BackupError(f"{file}: is no file")
    return os.fdopen(descriptor, "rb")


@contextmanager
def _created(target: Path | None) -> Iterator[BinaryIO | None]:
    if target is None:
        yield None
        return
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        yield out


def _rename_queries(root: Path) -> None:
    """Gives Spark's queries new ids. A table remembers the last batch of a query and skips batches that it already has.
    After a restore, the same numbers would stand for other events, which would be lost."""
    for metadata in root.glob("spark/*/checkpoint/metadata"):
        replace_file(metadata, json.dumps({"id": str(uuid.uuid4())}).encode())
        metadata.with_name(".metadata.crc").unlink(missing_ok=True)
