"""The commands `tidegate backup` and `tidegate restore`."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway_core.contract.cli.options import Json
from gateway_core.contract.data_folder import DataFolder
from gateway_core.contract.errors import StartError

from .backup import MANIFEST, Manifest, back_up
from .options import DATA_DIR, DataDir

if TYPE_CHECKING:
    from .backup import ReportProgress

_EVERY_S = 2.0

backup_app = typer.Typer(add_completion=False)
restore_app = typer.Typer(add_completion=False)


@backup_app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="The backup's folder; must be empty or not exist yet.")],
    data_dir: DataDir = DATA_DIR,
    as_json: Json = False,
) -> None:
    """Back up a gateway's data: the log with its cursors, applied triggers, dead letters, and Spark's checkpoints.

    The gateway may be running. The backup has every event that was accepted before the copy of the log began. It does
    not include the config files, Spark's tables, and files that the config keeps outside of the data directory.

    Exit codes: 0 done, 1 not possible, 2 wrong usage.
    """
    if not data_dir.is_dir():
        _fail(f"there is no data directory {data_dir}: name another with --data-dir")
    if folder.exists():
        if not folder.is_dir() or any(folder.iterdir()):
            _fail(f"{folder} is not empty: name a new folder")
        folder.rmdir()
    if data_dir.absolute() in folder.absolute().parents:
        _fail(f"{folder} is inside the data directory: name a folder outside of it, preferably on another disk")
    try:
        made = back_up(data_dir, folder, _progress())
    except (OSError, sqlite3.Error) as e:
        _fail(f"no backup was made: {e}")
    _tell(made, folder, as_json, f"backup in {folder}: ")
    for name, fact in made.shards.items():
        if fact.damaged:
            typer.echo(f"tidegate: {name} is damaged ({fact.damaged}): copied as it is", err=True)


@restore_app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="A backup.")],
    data_dir: DataDir = DATA_DIR,
    force: Annotated[bool, typer.Option("--force", help="Move existing data aside.")] = False,
    check_only: Annotated[bool, typer.Option("--check", help="Only check that the backup is complete.")] = False,
    sha256: Annotated[
        str, typer.Option("--sha256", help="The SHA-256 that `tidegate backup` printed: another backup is refused.")
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Also restore what may grant access: files that Tidegate did not make.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore a backup into a data directory that no gateway is using.

    Events that were delivered after the backup was made are delivered again. Spark's queries continue from the
    checkpoints in the backup: their tables may get events twice. Tokens, keys and other files that are not Tidegate's
    own stay in the backup unless you ask for --all.

    Exit codes: 0 done, 1 the backup is incomplete or files are in the way, 2 wrong usage, 3 a gateway is running.
    """
    from .restore import BackupError, check, conflicts, left_out, read_manifest, without
    from .restore import restore as bring_back

    try:
        manifest = read_manifest(folder, sha256)
    except BackupError as e:
        _fail(str(e))
    if faults := check(folder, manifest, _progress()):
        for fault in faults:
            typer.echo(f"tidegate: {fault}", err=True)
        _fail(f"the backup {folder} is not complete: nothing was restored")
    if check_only:
        _tell(manifest, folder, as_json, f"{folder} is complete: ")
        return
    others = [] if everything else left_out(manifest)
    manifest = without(manifest, others)
    data_folder = DataFolder(data_dir.absolute())
    try:
        data_folder.claim()
    except StartError as e:
        _fail(str(e), 3)
    try:
        if not force and (found := conflicts(data_dir, manifest)):
            _fail(f"{data_dir} already has {', '.join(found)}: move it aside with --force, or name another --data-dir")
        aside = bring_back(folder, manifest, data_dir, _progress())
    except (OSError, BackupError) as e:
        _fail(f"nothing was restored: {e}")
    finally:
        data_folder.leave()
    _tell(manifest, folder, as_json, f"restored into {data_dir}: ", others)
    if others:
        names = ", ".join(others)
        typer.echo(f"tidegate: left in the backup, as it may grant access: {names}; --all restores it, too", err=True)
    if aside is not None and not as_json:
        typer.echo(f"the previous data is in {aside}: delete it once everything works")


def _tell(manifest: Manifest, folder: Path, as_json: bool, head: str, others: Sequence[str] = ()) -> None:
    from .restore import digest

    events = sum(s.next - s.first for s in manifest.shards.values())
    size = sum(f.bytes for f in manifest.files.values())
    if as_json:
        facts = {"folder": str(folder.absolute()), "manifest": MANIFEST, "events": events, "bytes": size}
        more = {"sha256": digest(folder), **({"left_out": others} if others else {})}
        typer.echo(json.dumps({**facts, "made": manifest.made, "files": len(manifest.files), **more}))
    else:
        typer.echo(f"{head}{events} events, {len(manifest.files)} files, {size} bytes, made {manifest.made}")
        typer.echo(f"SHA-256 of the manifest: {digest(folder)}")


def _progress() -> ReportProgress:
    """Prints a line to standard error from time to time, if the work takes long."""
    told = time.monotonic()

    def say(what: str, done: int, total: int) -> None:
        nonlocal told
        if (now := time.monotonic()) - told >= _EVERY_S:
            told = now
            print(f"tidegate: {what}: {done / 1e6:.0f} of {total / 1e6:.0f} MB", file=sys.stderr, flush=True)

    return say


def _fail(message: str, code: int = 1) -> Any:
    typer.echo(f"tidegate: {message}", err=True)
    raise typer.Exit(code)
