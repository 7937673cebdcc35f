"""A connection to a cluster for administration requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from aiokafka import AIOKafkaClient, errors

from .aio.faults import check_token, fault_of, probe, quieten, refuses_us, text_of
from .aio.needs import AdminRequests
from .aio.options import client_options, connect_limit_s, connection_options
from .aio.ways import ways
from .client import KafkaFault
from .client_config import KafkaConfig

_T = TypeVar("_T")
_RETRY_S = 0.1


class AdminClient:
    """One connection to a cluster, open inside `async with`. Always on aiokafka."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._where = f"Kafka at {','.join(config.bootstrap)}"
        self.client: Any = None
        """The `AIOKafkaClient` while the connection is open."""
        self.requests: AdminRequests
        """What it can ask while the connection is open."""
        self.ids: dict[str, str] = {}
        """The ids of the topics that were looked up, or "" if the cluster has no topic ids."""

    async def __aenter__(self) -> Self:
        quieten()
        await check_token(self._config)
        client = AIOKafkaClient(**client_options(self._config))
        ways().guard(client)
        try:
            with anyio.fail_after(connect_limit_s(self._config)):
                await client.bootstrap()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await client.close()
            if not isinstance(error, errors.KafkaError | OSError):  # TimeoutError is an OSError
                raise
            await probe(self._config)
            raise fault_of(error, self._where) from error
        self.client = client
        self.requests = ways().requests(client, self._config)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self.requests.close()
            finally:
                await self.client.close()

    async def _try(self, ask: Callable[[], Awaitable[_T]], about: str) -> _T:
        """Retries transient errors until `request_timeout_s` has passed. Raises `KafkaFault`."""
        last: errors.KafkaError | None = None
        try:
            with anyio.fail_after(self._config.request_timeout_s):
                while True:
                    try:
                        return await ask()
                    except errors.KafkaError as error:
                        if not error.retriable and not isinstance(error, errors.BrokerNotAvailableError):
                            raise fault_of(error, about) from error
                        last = error
                    if last.invalid_metadata or isinstance(last, errors.NodeNotReadyError):
                        self.client.force_metadata_update()
                    await anyio.sleep(_RETRY_S)
        except TimeoutError as error:
            raise fault_of(last or error, about) from error


def check_connection(config: KafkaConfig, limit_s: float) -> None:
    """Connects, logs in and disconnects; also to each broker at the address that the cluster advertises, as clients do
    after the first answer. Raises `OSError` with the reason in one line."""

    async def ask() -> None:
        with anyio.fail_after(limit_s):
            async with AdminClient(config) as admin:
                brokers = admin.client.cluster.brokers()
            for broker in sorted(brokers):
                await _reach(config, limit_s / 2, broker.nodeId, broker.host, broker.port)

    try:
        anyio.run(ask)
    except KafkaFault as fault:
        raise OSError(str(fault).removeprefix(f"Kafka at {','.join(config.bootstrap)}: ")) from fault
    except TimeoutError:
        raise OSError(f"no answer within {limit_s:g} s") from None


async def _reach(config: KafkaConfig, limit_s: float, broker: int, host: str, port: int) -> None:
    try:
        with anyio.fail_after(limit_s):  # before the limit of all brokers, which names none
            await ways().probe(config, host, port, connection_options(config))
    except (OSError, errors.KafkaError) as error:
        if refuses_us(error):
            raise fault_of(error) from error
        raise KafkaFault(
            f"the cluster advertises its broker {broker} at {host}:{port}, where it can't be reached "
            f"({text_of(error)}): its `advertised.listeners` must name an address that works from here"
        ) from error
