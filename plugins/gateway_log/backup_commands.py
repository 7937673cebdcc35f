"""The commands `tidegate backup` and `tidegate restore`."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway_core.errors import StartError
from gateway_core.folder import DataFolder

from .backup import MANIFEST, Manifest, back_up

if TYPE_CHECKING:
    from .backup import Say

DataDir = Annotated[Path, typer.Option("--data-dir", envvar="TIDEGATE_DATA_DIR", help="The gateway's data directory.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_DATA_DIR = Path("tidegate-data")
_EVERY_S = 2.0

backup_app = typer.Typer(add_completion=False)
restore_app = typer.Typer(add_completion=False)


@backup_app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet, or is empty.")],
    data_dir: DataDir = _DATA_DIR,
    as_json: Json = False,
) -> None:
    """Copy a gateway's data: the log with its cursors, applied triggers, dead letters, Spark's checkpoints.

    The gateway may run meanwhile. Every event that it accepted before the copy of the log began is in the backup. Not
    in it: the config files, Spark's tables, and what the config keeps outside of the data directory.

    Exit codes: 0 done, 1 not possible, 2 wrong usage.
    """
    if not data_dir.is_dir():
        _fail(f"there is no data directory {data_dir}: name another with --data-dir")
    if folder.exists():
        if not folder.is_dir() or any(folder.iterdir()):
            _fail(f"{folder} is not empty: name a new folder")
        folder.rmdir()
    if data_dir.absolute() in folder.absolute().parents:
        _fail(f"{folder} lies in the data directory: name one outside of it, best on another disk")
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
    data_dir: DataDir = _DATA_DIR,
    force: Annotated[bool, typer.Option("--force", help="Move what is in the data directory aside.")] = False,
    check_only: Annotated[bool, typer.Option("--check", help="Only look whether the backup is whole.")] = False,
    as_json: Json = False,
) -> None:
    """Bring a backup back into a data directory that no gateway runs with.

    Events that were delivered after the backup was made are delivered again. Spark's queries go on from their
    checkpoints in the backup: their tables may get events twice.

    Exit codes: 0 done, 1 the backup is not whole or there is something in the way, 2 wrong usage, 3 a gateway runs.
    """
    from .restore import BackupError, check, in_the_way, read_manifest
    from .restore import restore as bring_back

    try:
        manifest = read_manifest(folder)
    except BackupError as e:
        _fail(str(e))
    if faults := check(folder, manifest, _progress()):
        for fault in faults:
            typer.echo(f"tidegate: {fault}", err=True)
        _fail(f"the backup {folder} is not whole: nothing was restored")
    if check_only:
        _tell(manifest, folder, as_json, f"{folder} is whole: ")
        return
    place = DataFolder(data_dir.absolute())
    try:
        place.claim()
    except StartError as e:
        _fail(str(e), 3)
    try:
        if not force and (found := in_the_way(data_dir, manifest)):
            _fail(f"{data_dir} has {', '.join(found)} already: --force moves that aside, or name another --data-dir")
        aside = bring_back(folder, manifest, data_dir, _progress())
    except OSError as e:
        _fail(f"not restored: {e}")
    finally:
        place.leave()
    _tell(manifest, folder, as_json, f"restored into {data_dir}: ")
    if aside is not None and not as_json:
        typer.echo(f"what was there is in {aside}: delete it when all is well")


def _tell(manifest: Manifest, folder: Path, as_json: bool, head: str) -> None:
    events = sum(s.next - s.first for s in manifest.shards.values())
    size = sum(f.bytes for f in manifest.files.values())
    if as_json:
        facts = {"folder": str(folder.absolute()), "manifest": MANIFEST, "events": events, "bytes": size}
        typer.echo(json.dumps({**facts, "made": manifest.made, "files": len(manifest.files)}))
    else:
        typer.echo(f"{head}{events} events, {len(manifest.files)} files, {size} bytes, made {manifest.made}")


def _progress() -> Say:
    """A line on standard error now and then, once the work takes long."""
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
