"""Tries a connection for `tidegate check --connect`."""

from __future__ import annotations

import anyio
from gateway_transport.connection import Rejected

from gateway_core.contract.errors import StartError

from .client import context_of, opened, shut, started, tokens_of
from .options import WebSocketConfig


def try_connection(options: WebSocketConfig, limit_s: float) -> None:
    """Connects, and closes again. Raises `OSError` with the reason."""

    async def go() -> None:
        try:
            tls, tokens = context_of(options, "client_tls"), tokens_of(options, "credentials")
            with anyio.fail_after(limit_s):
                with started(tokens):
                    await shut(await opened(options, tls, lambda socket: None, tokens))
        except (StartError, Rejected) as e:
            raise OSError(str(e)) from e
        except TimeoutError as e:
            raise OSError(f"no connection within {limit_s:g} s") from e

    anyio.run(go)
