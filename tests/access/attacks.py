"""The laboratory of the attacks in `test_attacks.py`: an ingress, an issuer, and what an attacker has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import httpx
from joserfc.jwk import RSAKey

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.oidc.issuer import AUDIENCE, OwnIssuer, ec_key, rsa_key

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order.placed"}


@dataclass
class Lab:
    """`folder` is for files. `sections` is YAML beside `brokers`, `options` that of the ingress; both are read when the
    gateway starts. `issuer` publishes an RSA key and one of an elliptic curve."""

    folder: Path
    issuer: OwnIssuer
    options: str = ""
    sections: str = ""
    gateway: Gateway | None = None
    client: httpx.AsyncClient | None = None
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def accepted(self) -> int:
        assert self.gateway is not None
        return self.gateway.status().brokers[0].accepted

    async def post(self, headers: Mapping[str, str] | None = None, path: str = "", **more: Any) -> httpx.Response:
        """Sends one event to the ingress."""
        assert self.client is not None
        return await self.client.post(path, headers={**EVENT, **(headers or {})}, **more)

    async def bearer(self, token: str) -> httpx.Response:
        """Sends an event with a token."""
        return await self.post({"authorization": f"Bearer {token}"})

    def tokens(self, **options: Any) -> None:
        """Lets in tokens of the issuer."""
        more = "".join(f", {name}: {value}" for name, value in options.items())
        self.options = f"authenticate: [oidc: {{issuer: {self.issuer.url}, audience: {AUDIENCE}{more}}}]"


Step = Callable[[Lab], Awaitable[Any]]


@asynccontextmanager
async def started(lab: Lab) -> AsyncIterator[Lab]:
    """Runs the gateway of a laboratory."""
    registry = Registry.installed()
    file = lab.folder / "tidegate.yaml"
    ingress = f"[{{http: {{listen: '127.0.0.1:0', {lab.options}}}}}]"
    file.write_text(f"brokers: {{default: {{ingress: {ingress}}}}}\n{lab.sections}")
    config = load_all([file], registry, {}).config
    gateway = lab.gateway = Gateway(config, Settings(data_dir=lab.folder / "data", admin="off"), registry)
    stop, ready = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run, stop, ready)
        with anyio.fail_after(60):
            await ready.wait()
        async with web.async_client(base_url=gateway.ingress["default"][0], timeout=60, verify=False) as client:
            lab.client = client
            yield lab
        stop.set()


def own_issuer() -> OwnIssuer:
    """An issuer with a key of each usual kind."""
    return OwnIssuer(_rsa_key(), ec_key("ec"))


@cache
def _rsa_key() -> RSAKey:
    return rsa_key("rsa")  # to make one takes longer than most attacks
