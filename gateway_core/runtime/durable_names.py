"""The durable names of configs (`gateway_core.contract.durable`), and the file that remembers them: `names.json` in
the data directory."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ..config.model import GatewayConfig
from ..config.registry import Registry
from ..contract.config_extension import ConfigFinding
from ..contract.config_node import Place
from ..contract.durable import DurableName, Key, Noted
from ..contract.files import private_folder
from ..contract.one_line import one_line

log = logging.getLogger("tidegate")

FILE = "names.json"
_TWICE = re.compile("^[a-z]+://(?=[a-z]+://)")
"""A scheme before another one, as earlier versions noted the servers of Redis and RabbitMQ."""
_KEPT = ("transport", "what", "where", "name", "owner", "facts", "keeps")


class NameRecord:
    """What one data directory remembers, as it is when this is made."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._path = data_dir / FILE
        self._text = ""
        self.noted = list(self._read())

    def _read(self) -> Iterator[Noted]:
        try:
            self._text = self._path.read_text(encoding="utf-8")
            for entry in json.loads(self._text)["names"]:
                known = {key: entry[key] for key in _KEPT}
                known["where"] = _TWICE.sub("", known["where"])
                yield Noted(DurableName(**known), used=bool(entry["used"]))
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as e:
            log.warning("the names that earlier configs used can't be read in %s: %s", self._path, one_line(e))

    def with_earlier(self, config: GatewayConfig, registry: Registry) -> list[Noted]:
        """All that is noted, and what an earlier version used without noting it."""
        known = {noted.name.key for noted in self.noted}
        found = [name for o in registry.durable_names if o.earlier for name in o.earlier(config, self._data_dir)]
        return [*self.noted, *(Noted(name, used=True) for name in found if name.key not in known)]

    def keep(self, noted: Iterable[Noted]) -> None:
        """Remembers these from now on. A file that can't be written is logged: no event depends on it."""
        after = [*noted]
        lines = [{**{key: getattr(n.name, key) for key in _KEPT}, "used": n.used} for n in after]
        text = json.dumps({"format": 1, "names": lines}, default=dict)
        if text == self._text or (not lines and not self._text):
            self._close()
            return
        new = self._path.with_name(f".{FILE}.new")
        try:
            private_folder(self._path.parent)
            with open(new, "w", encoding="utf-8") as file:
                new.chmod(0o600)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())  # an empty file after a power failure would give sessions new names
            os.replace(new, self._path)
        except OSError as e:
            log.warning("the names that this config uses can't be noted in %s: %s", self._path, one_line(e))
        self.noted, self._text = after, text

    def _close(self) -> None:
        """The file stays as it is; other users may not read it."""
        with suppress(OSError):
            if self._path.stat().st_mode & 0o077:
                self._path.chmod(0o600)
                log.warning("%s was open to other users: took it from them", self._path)


class ConfigNames:
    """The durable names of one config, as a gateway with this data directory uses them."""

    def __init__(self, config: GatewayConfig, registry: Registry, data_dir: Path) -> None:
        self.record = NameRecord(data_dir)
        self._noted = self.record.with_earlier(config, registry) if registry.durable_names else []
        self.names = [name for o in registry.durable_names for name in o.names(config, self._noted)]

    def by_place(self) -> dict[Place, str]:
        """The name of each component that has one."""
        return {name.place: name.name for name in self.names if name.place}

    def left(self, *, used: bool | None = None) -> list[Noted]:
        """What the data directory remembers and this config does not have: orphans. `used`: only those that the last
        config had, or only those that it had not."""
        mine = {name.key for name in self.names}
        return [n for n in self._noted if n.name.key not in mine and used in (None, n.used)]

    def note(self) -> None:
        """Remembers the names, and logs those that this config leaves behind."""
        for left in self.left(used=True):
            log.info("the config leaves %s of %s behind: %s", left.name, left.name.owner, ORPHAN)
        mine: dict[Key, DurableName] = {name.key: name for name in self.names}
        before = {noted.name.key for noted in self._noted}
        merged = [Noted(mine.get(n.name.key, n.name), used=n.name.key in mine) for n in self._noted]
        self.record.keep([*merged, *(Noted(name, used=True) for key, name in mine.items() if key not in before)])

    def forget(self, name: DurableName) -> None:
        """It was removed."""
        record = NameRecord(self.record._data_dir)
        record.keep([noted for noted in record.noted if noted.name.key != name.key])


ORPHAN = "what waits there stays, and more may come; `tidegate orphans` lists and removes it"


def orphaning(names: ConfigNames, config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Warns of each name that the config would leave behind if the gateway ran it now."""
    for left in names.left(used=True):
        name = left.name
        section, _, entry = name.owner.partition(".")
        place: Place = (section, entry) if entry in getattr(config, section, ()) else ()
        keep = f"to keep it, write `{name.keeps}`; else " if name.keeps else ""
        yield ConfigFinding(
            f"the config leaves {name} of {name.owner} behind, with what waits there",
            place,
            f"{keep}`tidegate orphans` lists and removes it once the config runs",
            warning=True,
        )
