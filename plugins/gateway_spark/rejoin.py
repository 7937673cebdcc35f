"""The command `tidegate spark rejoin`: a query goes on with a log that went back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway_core.errors import StartError

WAIT_S = 40.0
"""How long a query that runs, and fails, may keep the checkpoint: it is started again and again."""


def rejoin(
    checkpoint: Annotated[Path, typer.Argument(help="The query's checkpoint, a folder on this machine.")],
    location: Annotated[Path, typer.Option(help="The broker's log folder that the query is to go on with.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Let a query go on with a log that was restored from a backup, or lost its last events with the machine's power.

    Such a query refuses to go on: the log gives numbers again that its table has already. This moves the query back to
    where the log parted from the one that it read. Its table keeps the events that the log no longer has.

    Exit codes: 0 done, or nothing to do; 1 not possible.
    """
    from .processes import Lock

    if not (checkpoint / "offsets").is_dir():
        _fail(f"{checkpoint} is no checkpoint of a query")
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
    for line in found or ["nothing to do: the query stands in this log"]:
        typer.echo(line)


def _rejoin(offsets: Path, location: str, dry_run: bool) -> list[str]:
    from .source.reading import moved, with_epochs

    said = {}
    # a batch is what lies between two of these files; the last one may not be finished
    last = sorted(int(p.name) for p in offsets.iterdir() if p.name.isdigit())[-2:]
    for number in last:
        file = offsets / str(number)
        lines = file.read_text().splitlines()
        offset: dict[str, Any] = json.loads(lines[2])
        places = moved(location, offset)
        for shard, at in places.items():
            said[shard] = f"shard {shard}: goes on at {at}; it was read up to {offset[shard]}"
        if places and not dry_run:
            lines[2] = json.dumps(with_epochs(location, {**offset, **places}))
            _replace(file, "\n".join(lines))
    return list(said.values())


def _replace(file: Path, text: str) -> None:
    from gateway_core.files import replace_file

    # Hadoop keeps a checksum beside each file; one without it is read all the same
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    replace_file(file, text.encode())


def _fail(message: str) -> None:
    typer.echo(f"tidegate: {message}", err=True)
    raise typer.Exit(1)
