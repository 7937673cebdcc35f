"""Lets aiokafka notice that a connection was closed when it writes to it. With uvloop, a write to a transport that has
just been closed raises `RuntimeError`; aiokafka expects an `OSError`, so its own tasks, and ours, would end."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

_METHODS = ("send", "_send_sasl_token")


def install() -> None:
    """Makes all connections in this process raise `KafkaConnectionError` instead, and close."""
    for name in _METHODS:
        method = getattr(AIOKafkaConnection, name)
        if not hasattr(method, "__wrapped__"):
            setattr(AIOKafkaConnection, name, _noticing(method))


def _noticing(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def noticing(connection: AIOKafkaConnection, *args: Any, **options: Any) -> Any:
        try:
            return method(connection, *args, **options)
        except RuntimeError as error:
            connection.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"Connection at {connection.host}:{connection.port} closed: {error}") from error

    return noticing
