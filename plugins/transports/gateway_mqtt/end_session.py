"""Ends a session that no source uses any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from gateway_options.client_tls import client_context
from gateway_transport.connection import Rejected, leaf, reason_of

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.durable import DurableName, login_for
from gateway_core.contract.errors import StartError

from .client import MqttClient
from .config import MqttSourceConfig
from .server_config import MqttConfig
from .sessions import members
from .subscriptions import Subscriptions

LIMIT_S = 10.0


def end_session(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """Connects with the session's name and a clean start, which drops the session and what waits in it. Raises
    `OSError` with the reason."""
    login = login_for(config, MqttConfig, lambda options: options.url, name)
    scheme, _, server = name.where.partition("://")
    known = login.model_dump(include={"username", "password", "tls", "version"}) if login is not None else {}
    tls: dict[str, Any] = {"tls": {}} if scheme == "mqtts" and login is None else {}
    options = MqttSourceConfig.model_validate({**tls, **known, "server": server, "topic": "#"})

    async def end(client_id: str) -> None:
        client = MqttClient(options, client_id, clean=True)
        try:
            with anyio.fail_after(LIMIT_S):
                await client.open(client_context(options.tls, "orphans") if options.tls is not None else None)
        finally:
            await client.close(end_session=options.version == "5")

    for client_id in members(data_dir, options, name):
        try:
            anyio.run(end, client_id)
        except TimeoutError:
            raise OSError(f"no answer within {LIMIT_S:g} s") from None
        except (OSError, Rejected, StartError) as e:
            raise OSError(reason_of(leaf(e))) from e
        Subscriptions(data_dir, options, client_id).forget()
