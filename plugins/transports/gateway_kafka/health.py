"""The health of a client: its current fault for status, and one log line per change."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from .client import KafkaFault

_log = logging.getLogger("tidegate.kafka")


class Health:
    """`fault` is the current fault, `absent` names the missing topics. `name` starts the log lines."""

    def __init__(self, name: str) -> None:
        self.fault: KafkaFault | None = None
        self.absent: KafkaFault | None = None
        self._name = name
        self._since = 0.0

    def bad(self, fault: KafkaFault) -> None:
        """Something is wrong. Logged if it is new, or if it turns out that our credentials are rejected."""
        before = self.fault
        self.fault = fault
        if before is None:
            self._since = time.monotonic()
        if before is None or (fault.credentials and not before.credentials):
            _log.log(logging.ERROR if fault.credentials else logging.WARNING, "%s: %s", self._name, fault)

    def good(self) -> None:
        """Everything works."""
        if self.fault is not None:
            self.fault = None
            _log.info("%s: works again after %.1f s", self._name, time.monotonic() - self._since)

    def missing(self, topics: Sequence[str]) -> None:
        """These topics do not exist. Logged when the set changes."""
        before, self.absent = self.absent, None
        if topics:
            self.absent = KafkaFault(f"the topic {', '.join(topics)} does not exist")
        if topics and str(self.absent) != str(before):
            _log.warning("%s: %s", self._name, self.absent)
        elif before is not None and not topics:
            _log.info("%s: all its topics exist again", self._name)
