"""The aiokafka producer in use: created, replaced after a failure, and closed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from anyio.abc import TaskGroup

from gateway_core.contract.component_errors import text_of_error

from ..client import KafkaFault
from ..client_config import KafkaProducerConfig
from ..health import Health
from .faults import check_token, fault_of, probe
from .options import client_options, connect_limit_s
from .ways import ways

_log = logging.getLogger("tidegate.kafka")
_FIRST_WAIT_S = 0.25
_MAX_WAIT_S = 5.0


class ProducerClient:
    """One aiokafka producer, with the number of its batches in flight."""

    __slots__ = ("abandoned", "cluster", "direct", "producer", "retired", "under_way")

    def __init__(self, producer: Any, direct: bool = True) -> None:
        self.producer = producer
        self.direct = ways().direct(producer, direct)
        self.cluster = producer.client.cluster
        self.under_way = 0
        self.retired = False
        self.abandoned = False


class ProducerConnection:
    """Keeps a producer connected. `client` is the current one, or None while there is none. `changed` is called for
    each new client and whenever its cluster metadata changes."""

    def __init__(
        self,
        config: KafkaProducerConfig,
        health: Health,
        topics: Callable[[], list[str]],
        changed: Callable[[], None],
    ) -> None:
        self.client: ProducerClient | None = None
        self.tried = anyio.Event()
        self._config = config
        self._health = health
        self._topics = topics
        self._changed = changed
        self._wanted = anyio.Event()
        self._wanted.set()
        self._clients: set[ProducerClient] = set()
        self._direct = True
        self._tasks: TaskGroup | None = None

    async def run(self) -> None:
        """Connects, and reconnects after `retire`, until cancelled; then closes everything."""
        try:
            async with anyio.create_task_group() as self._tasks:
                while True:
                    await self._wanted.wait()
                    self._wanted = anyio.Event()
                    await self._connect()
        finally:
            with anyio.CancelScope(shield=True):
                for client in list(self._clients):
                    await self._close(client)

    def retire(self, client: ProducerClient) -> None:
        """Sends nothing more through this client: after a failed batch, the sequence numbers of its partition have a
        gap, and the cluster rejects everything that follows (KIP-98). It is closed once nothing is in flight."""
        if not client.retired:
            client.retired = True
            self._direct = client.direct.allowed
            self.client = None
            self._wanted.set()
        self.ended(client)

    def abandon(self, client: ProducerClient) -> None:
        """Like `retire`, and also drops the batches in flight."""
        client.abandoned = True
        self.retire(client)

    def ended(self, client: ProducerClient) -> None:
        """One of its batches has ended."""
        if client.retired and not client.under_way and client in self._clients and self._tasks is not None:
            self._clients.discard(client)
            self._tasks.start_soon(self._close, client)

    async def _connect(self) -> None:
        wait = _FIRST_WAIT_S
        while True:
            try:
                self.client = await self._made()
            except KafkaFault as fault:
                self._health.bad(fault)
                self.tried.set()
            except Exception as error:  # from aiokafka: it must not end the producer
                _log.exception("the Kafka producer: unexpected error; connecting again")
                self._health.bad(KafkaFault(text_of_error(error)))
                self.tried.set()
            else:
                break
            await anyio.sleep(wait)
            wait = min(2 * wait, _MAX_WAIT_S)
        self._health.good()
        self.tried.set()
        self._changed()

    async def _made(self) -> ProducerClient:
        config = self._config
        await check_token(config)
        try:
            producer = AIOKafkaProducer(
                **client_options(config),
                acks="all",
                enable_idempotence=True,
                max_batch_size=config.batch_bytes,
                compression_type=None if config.compression == "none" else config.compression,
            )
        except (RuntimeError, ValueError) as error:  # the library for this compression is missing
            raise fault_of(error) from error
        ways().guard_producer(producer)
        client = ProducerClient(producer, self._direct)
        self._clients.add(client)
        try:
            with anyio.fail_after(connect_limit_s(config)):
                await producer.start()
                if topics := self._topics():
                    await producer.client.set_topics(topics)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                self._clients.discard(client)
                await self._close(client)
            if not isinstance(error, KafkaError | OSError):  # TimeoutError is an OSError
                raise
            await probe(config)
            raise fault_of(error, f"Kafka at {','.join(config.bootstrap)}") from error
        client.cluster.add_listener(lambda _: self._changed() if client is self.client else None)
        return client

    async def _close(self, client: ProducerClient) -> None:
        """Raises nothing of aiokafka's, not even the cancellations of its own tasks: they would end the producer."""
        self._clients.discard(client)
        given_up = client.abandoned or client.under_way > 0
        await client.direct.close()
        await ways().stop_producer(client.producer, given_up)
