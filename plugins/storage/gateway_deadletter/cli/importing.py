"""`tidegate dlq import`: dead letters of files that another sink wrote, into the config's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway_audit.log import record_command
from gateway_file.letters import letter
from gateway_file.line_file import lines_of

from gateway_core.cli import common
from gateway_core.cli.exit_codes import FAULT, OK
from gateway_core.contract.event import Event

from .. import line as line_format
from ..dead_letters import Stores
from ..imported import Imported, imported
from ..sink import DeadLetterSink

_AT_ONCE = 500


def import_dead_letters(
    stores: Stores, files: list[Path], broker: str | None, *, again: bool = False, as_json: bool = False
) -> int:
    """Appends the dead letters in these files to those of their triggers' brokers, or of `broker`. Those that were
    imported before are left out, also if they were replayed or removed since; with `again` only those that are there.
    Returns the exit code. Raises `CommandError`."""
    try:
        with imported(stores.data_dir) as before:
            count, known, strange = _imported(stores, files, broker, before, again=again)
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
    stores: Stores, files: list[Path], broker: str | None, before: Imported, *, again: bool
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

    for file in files:
        for found in _read(file):
            if found is None:
                strange += 1
                continue
            id_, event = found
            home = stores.home(str(event.attributes.get("tidegatetrigger", "")), broker)
            if home not in homes:
                homes[home] = {id_ for id_, _ in home.entries()}
            there = id_ in homes[home]
            if there or (id_ in before and not again):
                before.add([id_] if there else ())
                known += 1
                continue
            if broker is not None and "tidegatebroker" in event.attributes:
                event.attributes["tidegatebroker"] = broker
            homes[home].add(id_)
            count += 1
            waiting.setdefault(home, []).append(found)
            if len(waiting[home]) >= _AT_ONCE:
                take(home)
    for home in [home for home, group in waiting.items() if group]:
        take(home)
    return count, known, strange


def _read(file: Path) -> Iterator[tuple[str, Event] | None]:
    """Id and event of each line, None for one that is no dead letter. Raises `CommandError`."""
    try:
        for line, _ in lines_of(file):
            if line.strip():
                yield letter(line) or _own(line)
    except OSError as e:
        raise common.CommandError(f"{file} can't be read: {e.strerror or e}") from e


def _own(line: bytes) -> tuple[str, Event] | None:
    try:
        id_, event = line_format.read(line)
    except ValueError:
        return None
    event.position = 0  # the file may be from elsewhere
    return id_, event
