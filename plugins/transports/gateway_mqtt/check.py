"""`tidegate check --connect`: whether the server takes us."""

from __future__ import annotations

from uuid import uuid4

import anyio
from gateway_options.client_tls import client_context
from gateway_transport.connection import Rejected, leaf, reason_of

from gateway_core.contract.errors import StartError

from .client import MqttClient
from .server_config import MqttConfig


def check_connection(options: MqttConfig, limit_s: float) -> None:
    """Connects, logs in and disconnects, with a session of its own that ends at once. Raises `OSError` with the reason
    in one line."""

    async def ask() -> None:
        plain = options.model_copy(update={"will": None})
        client = MqttClient(plain, f"tidegate-check-{uuid4().hex[:12]}", clean=True)
        try:
            with anyio.fail_after(limit_s):
                await client.open(client_context(options.tls, "check") if options.tls is not None else None)
        finally:
            await client.close()

    try:
        anyio.run(ask)
    except TimeoutError:
        raise OSError(f"no answer within {limit_s:g} s") from None
    except (OSError, Rejected, StartError) as e:
        raise OSError(reason_of(leaf(e))) from e
