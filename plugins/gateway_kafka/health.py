"""Whether a client gets on with its cluster: the fault that the outside sees, and one line in the log per change."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from .client import KafkaFault

_log = logging.getLogger("tidegate.kafka")


class Health:
    """`fault` is what is wrong at the moment, `absent` which topics are not there. `name` begins the lines in the
    log."""

    def __init__(self, name: str) -> None:
        self.fault: KafkaFault | None = None
        self.absent: KafkaFault | None = None
        self._name = name
        self._since = 0.0

    def bad(self, fault: KafkaFault) -> None:
        """Something is wrong. Logged when it is new, and when it turns out that we are not accepted."""
        before = self.fault
        self.fault = fault
        if before is None:
            self._since = time.monotonic()
        if before is None or (fault.credentials and not before.credentials):
            _log.log(logging.ERROR if fault.credentials else logging.WARNING, "%s: %s", self._name, fault)

    def good(self) -> None:
        """All is well."""
        if self.fault is not None:
            self.fault = None
            _log.info("%s: works again after %.1f s", self._name, time.monotonic() - self._since)

    def missing(self, topics: Sequence[str]) -> None:
        """These topics are not there. Logged when they are others than before."""
        before, self.absent = self.absent, None
        if topics:
            self.absent = KafkaFault(f"the topic {', '.join(topics)} does not exist")
        if topics and str(self.absent) != str(before):
            _log.warning("%s: %s", self._name, self.absent)
        elif before is not None and not topics:
            _log.info("%s: all its topics exist again", self._name)
