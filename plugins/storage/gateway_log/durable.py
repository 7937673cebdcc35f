"""The plugin's durable names: the folders of brokers, and the cursors of their triggers."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from gateway_core.contract.durable import DurableName, Noted, channels
from gateway_core.contract.errors import StartError

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

FOLDER, CURSOR = "log of events", "cursor"
_WHERE = "the data directory"


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`."""
    brokers = set()
    for use in channels(config, "log"):
        brokers.add(use.entry)
        yield _folder(use.entry)
    for name, trigger in config.triggers.items():
        if trigger.broker in brokers:
            yield DurableName(
                transport="log",
                what=CURSOR,
                where=_WHERE,
                name=f"{trigger.broker}/{name}",
                owner=f"triggers.{name}",
                facts={"broker": trigger.broker, "trigger": name},
                place=("triggers", name),
            )


def _folder(broker: str) -> DurableName:
    return DurableName(
        transport="log",
        what=FOLDER,
        where=_WHERE,
        name=f"log/{broker}",
        owner=f"brokers.{broker}",
        facts={"broker": broker},
        place=("brokers", broker, "channel"),
    )


def earlier(config: GatewayConfig, data_dir: Path) -> Iterator[DurableName]:
    """See `DurableNames`: folders that brokers of earlier configs have left."""
    folder = data_dir / "log"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir():
            yield _folder(path.name)


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: deletes a folder with all its events, or a cursor, while no gateway runs."""
    from gateway_core.contract.data_folder import DataFolder

    held = DataFolder(data_dir)
    try:
        held.claim()
    except StartError as e:
        raise OSError(str(e)) from e
    try:
        folder = data_dir / "log" / str(name.facts["broker"])
        if name.what == FOLDER:
            if folder.is_dir():
                shutil.rmtree(folder)
        else:
            _remove_cursor(folder, str(name.facts["trigger"]))
    finally:
        held.leave()


def _remove_cursor(folder: Path, trigger: str) -> None:
    from . import readers
    from .delay_file import delay_files

    try:
        for path in sorted(folder.glob("shard-*.db")):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DELETE FROM feeds WHERE name = ?", (trigger,))
        for path in delay_files(folder):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DELETE FROM events WHERE name = ?", (trigger,))
    except sqlite3.Error as e:
        raise OSError(f"{folder}: {e}") from e
    readers.forget(folder, trigger)
