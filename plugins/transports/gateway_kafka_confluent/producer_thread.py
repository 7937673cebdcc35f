"""One librdkafka producer and the thread that polls it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import Producer as RdProducer
from gateway_kafka.client import Acknowledged, Headers, KafkaFault
from gateway_kafka.client_config import KafkaProducerConfig
from gateway_kafka.health import Health

from gateway_core.contract.component_errors import text_of_error
from gateway_core.contract.shortage import is_shortage

from .options import producer_options
from .watch import Watch

_log = logging.getLogger("tidegate.kafka")
_POLL_S = 0.1
_FIRST_POLL_S = 0.02
_AGAIN_S = 1.0


Entry = tuple[str, bytes | None, bytes | None, Headers, Acknowledged, int]
"""Topic, key, value, headers, callback, size in bytes."""


class ProducerThread:
    """A librdkafka producer. `produce` is its method, or None until it exists. Acknowledged records are in
    `acknowledged`, each with its error. `told` is called on the loop when there are some, when the first connection
    attempt has ended, and when the client has failed (`failed`)."""

    def __init__(
        self, config: KafkaProducerConfig, health: Health, told: Callable[[ProducerThread], None], linger_ms: float
    ) -> None:
        self.acknowledged: deque[tuple[Entry, Any]] = deque()
        self.produce: Callable[..., None] | None = None
        self.tried = False
        self.failed = False
        self.refusal: KafkaFault | None = None
        self.under_way = 0
        self._config = config
        self._linger_ms = linger_ms
        self._health = health
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._watch = Watch(config, health)
        self._closing = threading.Event()
        self._woken = False
        self._worker = threading.Thread(target=self._run, name="tidegate-kafka-producer", daemon=True)
        self._worker.start()

    def use(self, used: bool) -> None:
        """Whether records are currently written with it. If not, the other client reports the health of the cluster."""
        self._watch.muted = not used

    def acked(self, entry: Entry, error: Any, _: Any) -> None:
        """librdkafka's delivery report, on the polling thread."""
        self.acknowledged.append((entry, error))

    def take(self) -> deque[tuple[Entry, Any]]:
        """The acknowledged records. `told` must call this first."""
        self._woken = False  # before the queue is read: later entries wake the loop again
        return self.acknowledged

    def close(self) -> None:
        """Ends the thread soon; records in flight fail."""
        self.produce = None
        self._closing.set()

    def join(self) -> None:
        """Waits for the thread to end."""
        self._worker.join()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._told, self)
            except RuntimeError:  # the loop has ended
                self._closing.set()

    def _run(self) -> None:
        client = self._made()
        if client is not None:
            try:
                self._poll(client)
            except Exception:
                _log.exception("the Kafka producer's thread failed")
            client.purge()
            client.poll(0)
        self.produce = None
        self.failed = True
        self._wake()

    def _made(self) -> Any:
        while not self._closing.is_set():
            try:
                options = producer_options(self._config) | {"linger.ms": self._linger_ms}
                client = self._watch.client(RdProducer, options)
            except Exception as error:  # including a lack of resources, which must not end the thread
                shortage = is_shortage(error)
                fault = error if isinstance(error, KafkaFault) else KafkaFault(text_of_error(error), local=shortage)
                self._health.bad(fault)
                self._attempted()
                self._closing.wait(_AGAIN_S)
            else:
                self.produce = client.produce
                return client
        return None

    def _poll(self, client: Any) -> None:
        poll, acknowledged, watch = client.poll, self.acknowledged, self._watch
        while not self._closing.is_set():
            served = poll(_POLL_S if self.tried else _FIRST_POLL_S)
            if not self.tried and (self._health.fault is not None or _connected(client)):
                self._attempted()
            if watch.fatal:
                return
            if acknowledged:
                self._wake()
            if not served and self._health.fault is not None:
                watch.look(client)

    def _attempted(self) -> None:
        self.refusal = self._watch.heard
        if (fault := self._health.fault) is not None and fault.credentials:
            self.refusal = fault
        if not self.tried:
            self.tried = True
            self._wake()


def _connected(client: Any) -> bool:
    try:
        return client.cluster_id(timeout=0.02) is not None
    except KafkaException:
        return False
