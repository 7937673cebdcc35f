"""`tidegate dlq import`: dead letters of files that another sink wrote, into the config's own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from gateway_audit_log.log import record_command
from gateway_file.letters import letter
from gateway_file.line_file import lines_of, take_out

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.event import Event

from .. import line as line_format
from ..dead_letters import Stores
from ..encryption import Keys
from ..imported import Imported, imported
from ..sink import DeadLetterSink

_AT_ONCE = 500


def import_dead_letters(
    stores: Stores,
    files: list[Path],
    broker: str | None,
    *,
    again: bool = False,
    move: bool = False,
    as_json: bool = False,
) -> int:
    """Appends the dead letters in these files to those of their triggers' brokers, or of `broker`. Those that were
    imported before are left out, even if they were replayed or removed since; with `again` only those that are there.
    With `move` they are taken out of the files afterwards. Returns the exit code. Raises `CommandError`."""
    try:
        with imported(stores.data_dir) as before:
            count, known, strange = _imported(stores, files, broker, before, again=again, move=move)
    except OSError as e:
        raise common.CommandError(f"dead letters can't be imported: {e.filename or ''}: {e.strerror or e}") from e
    record_command(stores.data_dir, "dlq.import", "done", imported=count, files=[str(file) for file in files])
    if as_json:
        common.print_json({"imported": count, "known": known, "strange": strange})
    else:
        also = f", {known} were imported before" if known else ""
        other = f", {strange} lines are no dead letters" if strange else ""
        print(f"{count} imported{also}{other}")
    return FAULT if strange else OK


def _imported(
    stores: Stores, files: list[Path], broker: str | None, before: Imported, *, again: bool, move: bool
) -> tuple[int, int, int]:
    """How many dead letters were imported now and before, and how many lines are none."""
    count = known = strange = 0
    homes: dict[DeadLetterSink, set[str]] = {}
    waiting: dict[DeadLetterSink, list[tuple[str, Event]]] = {}

    def take(home: DeadLetterSink) -> None:
        """Imports what waits. It is remembered after that: a crash in between imports it again, and loses none."""
        home.add(waiting[home])
        before.add(id_ for id_, _ in waiting[home])
        waiting[home] = []

    def take_all() -> None:
        for home in [home for home, group in waiting.items() if group]:
            take(home)

    for file in files:
        if move and file.exists() and any(file.samefile(mine) for home in stores.homes for mine in home.files()):
            raise common.CommandError(f"{file} is a file of this config: its dead letters can't be moved out of it")
        moved = set[str]()
        for found in _read(file, stores.keys):
            if found is None:
                strange += 1
                continue
            id_, event, original = found
            moved.add(id_)
            home = stores.home(str(event.attributes.get("tidegatetrigger", "")), broker)
            if home not in homes:
                homes[home] = {id_ for id_, _ in home.entries()}
            there = id_ in homes[home]
            # one that was imported into this file is known, wherever it went from here: it must not be lost
            if there or (id_ in before and not again and (original or not move)):
                before.add([id_] if there else ())
                known += 1
                continue
            if broker is not None and "tidegatebroker" in event.attributes:
                event.attributes["tidegatebroker"] = broker
            homes[home].add(id_)
            count += 1
            waiting.setdefault(home, []).append((id_, event))
            if len(waiting[home]) >= _AT_ONCE:
                take(home)
        if move:
            take_all()
            take_out(file, moved, partial(_id_of, keys=stores.keys))
    take_all()
    return count, known, strange


def _read(file: Path, keys: Keys | None) -> Iterator[tuple[str, Event, bool] | None]:
    """Id and event of each line, and whether it is as a gateway wrote it when it gave the event up; None for a line
    that is no dead letter. Raises `CommandError`."""
    try:
        for line, _ in lines_of(file):
            if line.strip():
                yield _letter(line, keys)
    except OSError as e:
        raise common.CommandError(f"{file} can't be read: {e.strerror or e}") from e


def _letter(line: bytes, keys: Keys | None) -> tuple[str, Event, bool] | None:
    if (found := letter(line)) is not None:
        return *found, True
    try:
        id_, event = line_format.read(line, keys)
    except ValueError:
        return None
    original = bool(event.position)
    event.position = 0  # the file may be from elsewhere
    return id_, event, original


def _id_of(line: bytes, keys: Keys | None) -> str | None:
    found = _letter(line, keys)
    return None if found is None else found[0]
