"""Connections that notice when they were closed as they are written to.

With uvloop, a write to a transport that has just been closed raises `RuntimeError`; aiokafka expects an `OSError`, so
its own tasks, and ours, would end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from aiokafka.conn import AIOKafkaConnection, CloseReason, collect_hosts
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from .rebound import rebind


class NoticingConnection(AIOKafkaConnection):  # type: ignore[misc]
    """Raises `KafkaConnectionError` instead, and closes."""

    def send(self, request: Any, expect_response: bool = True) -> Any:
        try:
            return AIOKafkaConnection.send(self, request, expect_response)
        except RuntimeError as error:
            self._broken(error)

    def _send_sasl_token(self, payload: bytes, expect_response: bool = True) -> Any:
        try:
            return AIOKafkaConnection._send_sasl_token(self, payload, expect_response)
        except RuntimeError as error:
            self._broken(error)

    def _broken(self, error: RuntimeError) -> NoReturn:
        self.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"Connection at {self.host}:{self.port} closed: {error}") from error


async def connect(host: str, port: int, **options: Any) -> NoticingConnection:
    """A connection of its own; the options are those of aiokafka's `create_conn`. Raises what that raises."""
    connection = NoticingConnection(host, port, **options)
    await connection.connect()
    return connection


def guard(client: Any) -> None:
    """Makes an `AIOKafkaClient` open such connections only."""
    rebind(client, "bootstrap", create_conn=connect)
    rebind(client, "_get_conn", create_conn=connect)


def addresses(bootstrap: Iterable[str]) -> list[tuple[str, int]]:
    """Hosts and ports of bootstrap servers, in any order."""
    return [(host, port) for host, port, _ in collect_hosts(list(bootstrap))]


async def ask_brokers(connection: Any) -> list[Any]:
    """The brokers of the cluster."""
    return list((await connection.send(MetadataRequest([]))).brokers)
