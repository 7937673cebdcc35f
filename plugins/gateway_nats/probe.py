"""Tries a connection for `tidegate check --connect`."""

from __future__ import annotations

import anyio
from gateway_transport.connection import Rejected

from gateway_core.contract.errors import StartError

from .client_config import NatsConfig
from .connect import close, open_client, tls_of


def try_connection(options: NatsConfig, limit_s: float) -> None:
    """Connects to the first server that answers, logs in and disconnects. Raises `OSError` with the reason."""

    async def attempt() -> None:
        failure: Exception | None = None
        with anyio.fail_after(limit_s):
            tls = tls_of(options, "nats")
            for server in options.servers:
                try:
                    await close(await open_client(options, server, tls))
                    return
                except OSError as e:
                    failure = e
        raise failure or OSError("no server is configured")

    try:
        anyio.run(attempt)
    except (Rejected, StartError) as e:
        raise OSError(str(e)) from e
    except TimeoutError:
        raise OSError(f"no answer within {limit_s:g} s") from None
