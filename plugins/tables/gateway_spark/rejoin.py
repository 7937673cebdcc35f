"""The command `tidegate spark rejoin`: continues a query with a log that went back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway_core.contract.errors import StartError

WAIT_S = 40.0
"""How long to wait for the checkpoint of a query that keeps failing and restarting."""


def rejoin(
    checkpoint: Annotated[Path, typer.Argument(help="The query's checkpoint, a folder on this machine.")],
    location: Annotated[Path, typer.Option(help="The broker's log folder to continue with.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
) -> None:
    """Continue a query with a log that was restored from a backup, or that lost its last events in a power failure.

    Such a query refuses to continue: the log reuses numbers that its table already has. This moves the query back to
    where the log diverged from the one it has read. Its table keeps the events that the log no longer has.

    Exit codes: 0 done, or nothing to do; 1 not possible.
    """
    from .processes import Lock

    if not (checkpoint / "offsets").is_dir():
        _fail(f"{checkpoint} is not the checkpoint of a query")
    if not location.is_dir():
        _fail(f"there is no log in {location}")
    lock = Lock(checkpoint.with_name(f"{checkpoint.name}.lock"))
    try:
        lock.acquire(WAIT_S)
    except StartError as e:
        _fail(f"a query uses the checkpoint: {e}")
    try:
        found = _rejoin(checkpoint / "offsets", str(location.absolute()), dry_run)
    except (OSError, ValueError, IndexError) as e:
        _fail(f"the checkpoint {checkpoint} can't be changed: {e}")
    finally:
        lock.release()
    for line in found or ["nothing to do: the query matches this log"]:
        typer.echo(line)


def _rejoin(offsets: Path, location: str, dry_run: bool) -> list[str]:
    from .source.reading import diverged_shards, with_epochs

    said = {}
    # a batch lies between two of these files; the last one may be unfinished
    last = sorted(int(p.name) for p in offsets.iterdir() if p.name.isdigit())[-2:]
    for number in last:
        file = offsets / str(number)
        lines = file.read_text().splitlines()
        offset: dict[str, Any] = json.loads(lines[2])
        diverged = diverged_shards(location, offset)
        for shard, at in diverged.items():
            said[shard] = f"shard {shard}: continues at {at}; it was read up to {offset[shard]}"
        if diverged and not dry_run:
            lines[2] = json.dumps(with_epochs(location, {**offset, **diverged}))
            _replace(file, "\n".join(lines))
    return list(said.values())


def _replace(file: Path, text: str) -> None:
    from gateway_core.contract.private_files import replace_file

    # Hadoop keeps a checksum beside each file, but also reads files without one
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    replace_file(file, text.encode())


def _fail(message: str) -> None:
    typer.echo(f"tidegate: {message}", err=True)
    raise typer.Exit(1)
