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
from ..sink import DeadLetterSink

_AT_ONCE = 500


def import_dead_letters(stores: Stores, files: list[Path], broker: str | None, *, as_json: bool) -> int:
    """Appends the dead letters in these files to those of their triggers' brokers, or of `broker`. Those that are there
    already, from an import before, are left out. Returns the exit code."""
    imported = known = strange = 0
    homes: dict[DeadLetterSink, set[str]] = {}
    waiting: dict[DeadLetterSink, list[tuple[str, Event]]] = {}
    for file in files:
        for found in _read(file):
            if found is None:
                strange += 1
                continue
            id_, event = found
            home = stores.home(str(event.attributes.get("tidegatetrigger", "")), broker)
            if home not in homes:
                homes[home] = {id_ for id_, _ in home.entries()}
            if id_ in homes[home]:
                known += 1
                continue
            homes[home].add(id_)
            imported += 1
            group = waiting.setdefault(home, [])
            group.append(found)
            if len(group) >= _AT_ONCE:
                home.add(group)
                group.clear()
    for home, group in waiting.items():
        home.add(group)
    record_command(stores.data_dir, "dlq.import", "done", imported=imported, files=[str(file) for file in files])
    if as_json:
        common.print_json({"imported": imported, "known": known, "strange": strange})
    else:
        also = f", {known} were there before" if known else ""
        other = f", {strange} lines are no dead letters" if strange else ""
        print(f"{imported} imported{also}{other}")
    return FAULT if strange else OK


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
