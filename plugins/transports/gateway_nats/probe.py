"""Tries a connection for `tidegate check --connect`, and removes what no config uses any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from gateway_transport.connection import Rejected
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from gateway_core.contract.durable import Contents
from gateway_core.contract.errors import StartError

from .client_config import NatsConfig
from .connect import close, open_client, tls_of

T = TypeVar("T")

DELETE_S = 10.0


def delete_consumer(options: NatsConfig, stream: str, subject: str, consumer: str) -> None:
    """Deletes a durable consumer of a stream, or of the one that has the subject. One that is not there is none.
    Raises `OSError` with the reason."""

    async def delete(nc: Client) -> None:
        js = nc.jetstream(prefix=options.api_prefix)
        try:
            await js.delete_consumer(stream or await js.find_stream_name_by_subject(subject), consumer)
        except NotFoundError:
            return
        except NatsError as e:
            raise OSError(f"the consumer {consumer} can't be deleted: {e}") from e

    _connected(options, DELETE_S, delete)


def consumer_contents(options: NatsConfig, stream: str, subject: str, consumer: str) -> Contents:
    """What waits for a durable consumer, and whether somebody asks it for messages. Raises `OSError`."""

    async def look(nc: Client) -> Contents:
        js = nc.jetstream(prefix=options.api_prefix)
        try:
            info = await js.consumer_info(stream or await js.find_stream_name_by_subject(subject), consumer)
        except NotFoundError:
            return Contents(0)
        except NatsError as e:
            raise OSError(f"the consumer {consumer} can't be looked at: {e}") from e
        asking = info.num_waiting or 0
        users = "" if not asking else f"{asking} {'request' if asking == 1 else 'requests'} for messages"
        return Contents((info.num_pending or 0) + (info.num_ack_pending or 0), users)

    return _connected(options, DELETE_S, look)


def try_connection(options: NatsConfig, limit_s: float) -> None:
    """Connects to the first server that answers, logs in and disconnects. Raises `OSError` with the reason."""

    async def nothing(nc: Client) -> None:
        return

    _connected(options, limit_s, nothing)


def _connected(options: NatsConfig, limit_s: float, ask: Callable[[Client], Awaitable[T]]) -> T:
    async def attempt() -> T:
        failure: Exception | None = None
        with anyio.fail_after(limit_s):
            tls = tls_of(options, "nats")
            for server in options.servers:
                try:
                    nc = await open_client(options, server, tls)
                except OSError as e:
                    failure = e
                    continue
                try:
                    return await ask(nc)
                finally:
                    await close(nc)
        raise failure or OSError("no server is configured")

    try:
        return anyio.run(attempt)
    except (Rejected, StartError) as e:
        raise OSError(str(e)) from e
    except TimeoutError:
        raise OSError(f"no answer within {limit_s:g} s") from None
