"""The plugin's durable names: files of dead letters, which an edit of the config may leave behind with what is in them.

Such a file is that of a broker which was renamed or removed, or one that a `path` no longer names. Nothing reads it any
more, but `tidegate dlq import` takes over what it holds.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gateway_core.contract.config_node import Place
from gateway_core.contract.durable import DurableName, Noted
from gateway_core.contract.noted_names import noted_names
from gateway_core.contract.one_line import one_line

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

    from .config import DeadLetterConfig
    from .imported import Imported
    from .store import Store

log = logging.getLogger("tidegate.deadletter")

TRANSPORT = "deadletter"
WHAT = "dead letters"
_FOLDER = "dead-letter"
_LOOKED_AT = 100
"""Dead letters that are looked at to find out whose they are."""


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`. Sharing a file is no fault: each dead letter names its trigger."""
    for section, name, broker, options in _written(config):
        facts = {"broker": broker} if options.path is None else {"path": str(options.path.absolute())}
        yield _name(facts, f"{section}.{name}", (section, name, "dead_letter"))


def _written(config: GatewayConfig) -> Iterator[tuple[str, str, str, DeadLetterConfig]]:
    """Section, entry, the name that the file has by default, and the options."""
    from .config import DeadLetterConfig

    for section in ("brokers", "triggers", "bridges"):
        for name, entry in getattr(config, section).items():
            ref = entry.dead_letter
            if ref is not None and ref.name == TRANSPORT and isinstance(ref.options, DeadLetterConfig):
                yield section, name, entry.broker if section == "triggers" else name, ref.options


def _name(facts: dict[str, str], owner: str, place: Place = ()) -> DurableName:
    default = "broker" in facts
    return DurableName(
        transport=TRANSPORT,
        what=WHAT,
        where="the data directory" if default else "this machine",
        name=f"{_FOLDER}/{facts['broker']}.jsonl" if default else facts["path"],
        owner=owner,
        facts=facts,
        place=place,
        said=True,
    )


def earlier(config: GatewayConfig, data_dir: Path) -> Iterator[DurableName]:
    """See `DurableNames`: files that brokers of earlier configs have left."""
    for broker in sorted({path.stem.partition("~")[0] for path in (data_dir / _FOLDER).glob("*.jsonl")}):
        yield _name({"broker": broker}, f"brokers.{broker}")


def path_of(name: DurableName, data_dir: Path) -> Path:
    """The file; those of several workers stand beside it."""
    path = name.facts.get("path")
    return Path(str(path)) if path is not None else default_path(data_dir, str(name.facts["broker"]))


def default_path(data_dir: Path, broker: str) -> Path:
    """Where dead letters of a broker or bridge go unless the config says where."""
    return data_dir.absolute() / _FOLDER / f"{broker or 'default'}.jsonl"


def waits(name: DurableName, config: GatewayConfig, data_dir: Path) -> bool:
    """See `DurableNames`: whether there are dead letters that the config does not read, and nobody has imported."""
    store = _left(path_of(name, data_dir), config, data_dir)
    return store is not None and bool(_files(store)) and next(_waiting(store, _imported(data_dir)), None) is not None


def rescue(name: DurableName, config: GatewayConfig, data_dir: Path) -> str:
    """See `DurableNames`."""
    store = _left(path_of(name, data_dir), config, data_dir)
    return f"{_command(store, config)} takes them over" if store is not None else ""


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: deletes the files, unless there is something else in them."""
    from gateway_file.line_file import lines_of

    from gateway_core.contract.private_files import sync_directory

    from . import line as line_format

    store = _left(path_of(name, data_dir), config, data_dir)
    if store is None:
        raise OSError("the config has it")
    for file in _files(store):
        for number, (line, end) in enumerate(lines_of(file), 1):
            if line.strip() and end and line_format.id_of(line) is None:
                raise OSError(f"{file}: line {number} is no dead letter: delete the file yourself if nobody needs it")
    for file in _files(store):
        file.unlink(missing_ok=True)
        sync_directory(file.parent)


@dataclass(frozen=True, slots=True)
class Left:
    """Dead letters that no component of the config reads: their file (of several workers, the name they share), how
    many of them nobody has imported, and the command that takes them over."""

    file: Path
    count: int
    command: str


def left_behind(config: GatewayConfig, data_dir: Path) -> Iterator[Left]:
    """All that is left in the data directory, or in a file that an earlier config named. It reads the files; one that
    can't be read is logged."""
    noted = [one.name for one in noted_names(data_dir.absolute()) if one.name.transport == TRANSPORT]
    found = [path_of(name, data_dir) for name in (*noted, *earlier(config, data_dir))]
    imported: Imported | None = None
    for path in dict.fromkeys(found):
        store = _left(path, config, data_dir)
        if store is None or not _files(store):
            continue
        try:
            imported = _imported(data_dir) if imported is None else imported
            if count := sum(1 for _ in _waiting(store, imported)):
                yield Left(path, count, _command(store, config))
        except OSError as e:
            log.warning("dead letters of an earlier config can't be read in %s: %s", path, one_line(e))


def _left(path: Path, config: GatewayConfig, data_dir: Path) -> Store | None:
    """The files for a path, None if the config reads it."""
    from .encryption import Keys, parse_key
    from .store import Store

    keys, resolved = list[bytes](), path.resolve()
    for _, _, broker, options in _written(config):
        if (options.path or default_path(data_dir, broker)).resolve() == resolved:
            return None
        if options.encrypt is not None:
            keys += map(parse_key, options.encrypt.keys)
    return Store(path, Keys(keys) if keys else None)


def _files(store: Store) -> list[Path]:
    """Those that can be read to an end."""
    return [file for file in store.files() if file.is_file()]


def _imported(data_dir: Path) -> Imported:
    from .imported import were_imported

    return were_imported(data_dir)


def _waiting(store: Store, imported: Imported) -> Iterator[str]:
    """The ids of all dead letters that were not taken over, also of those that nobody here can decrypt."""
    from gateway_file.line_file import lines_of

    from . import line as line_format

    for file in _files(store):
        for line, _ in lines_of(file):
            id_ = line_format.id_of(line)
            if id_ is not None and not (id_ in imported and _is_original(line, store)):
                yield id_


def _is_original(line: bytes, store: Store) -> bool:
    """Whether a gateway wrote this line when it gave the event up. One that was imported into this file has no
    position, and its id says nothing of where it went from here."""
    from . import line as line_format

    try:
        return bool(line_format.read(line, store.keys)[1].position)
    except ValueError:
        return False


def _command(store: Store, config: GatewayConfig) -> str:
    """What takes over the dead letters of these files. One of another broker is named if they are to become its own,
    since a trigger gets no dead letter of another broker again."""
    broker = ""
    for _, event in islice(store.entries(), _LOOKED_AT):
        trigger = config.triggers.get(str(event.attributes.get("tidegatetrigger")))
        if trigger is not None:
            broker = trigger.broker if event.attributes.get("tidegatebroker", trigger.broker) != trigger.broker else ""
            break
        if str(event.attributes.get("tidegatetrigger")) not in (*config.brokers, *config.bridges):
            broker = next(iter(config.brokers)) if len(config.brokers) == 1 else "BROKER"
    to = f"--broker {broker} " if broker else ""
    return f"`tidegate dlq import --move {to}{' '.join(shlex.quote(str(file)) for file in _files(store))}`"
