"""What sessions at the server have from earlier configs: topic filters, and sessions of workers that are no more."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from gateway_core.contract.one_line import one_line

from .config import MqttSourceConfig

log = logging.getLogger("tidegate.mqtt")


class Subscriptions:
    """The filters of one session, kept in `mqtt/` in the gateway's data directory. A server keeps a session's
    subscriptions, and does not tell them: without this, a topic that is taken out of the config would still come."""

    def __init__(self, data_dir: Path, options: MqttSourceConfig, client_id: str) -> None:
        name = sha256(f"{options.url} {client_id}".encode()).hexdigest()[:16]
        self._file = data_dir / "mqtt" / f"{name}.json"

    def filters(self) -> list[str]:
        """The filters that the session has; none if that is not known."""
        try:
            before = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        return [name for name in before if isinstance(name, str)] if isinstance(before, list) else []

    def stale(self, filters: Sequence[str]) -> list[str]:
        """The filters that the session had before and that are not among these."""
        return [name for name in self.filters() if name not in filters]

    def remember(self, filters: Sequence[str]) -> None:
        """The session has these filters now. A file that can't be written is logged: nothing else depends on it."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(list(filters)), encoding="utf-8")
        except OSError as e:
            log.warning("the topics of the MQTT session can't be kept in %s: %s", self._file, one_line(e))

    def forget(self) -> None:
        """The session is no more."""
        self._file.unlink(missing_ok=True)


class Members:
    """How many workers shared the subscriptions of one source, kept like these."""

    def __init__(self, data_dir: Path, options: MqttSourceConfig, client_id: str) -> None:
        name = sha256(f"{options.url} {client_id}".encode()).hexdigest()[:16]
        self._file = data_dir / "mqtt" / f"{name}-workers.json"

    def before(self) -> int:
        """The number at the last start; 0 if it is not known."""
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return 0
        return found if type(found) is int else 0

    def remember(self, count: int) -> None:
        """There are so many now. A file that can't be written is logged."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(count), encoding="utf-8")
        except OSError as e:
            log.warning("the number of workers that share MQTT can't be kept in %s: %s", self._file, one_line(e))
