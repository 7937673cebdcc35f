"""A gateway in this process whose HTTP ingress takes a sender's word for who it is: what policies make of identities is
what these tests are about, not how identities are proved."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from anyio.abc import TaskGroup
from gateway_testing import ScriptedSink

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, Component, Config, Transport
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import load
from gateway_core.contract.event import Event, Message
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Filter
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.in_process import started


class Claimed:
    """Believes the header `x-NAME`: JSON with `subject` and `claims`."""

    challenge = ""

    def __init__(self, name: str) -> None:
        self.name = name

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def authenticate(self, request: Message) -> Identity | None:
        value = request.header(b"x-" + self.name.encode())
        if value is None:
            return None
        said = json.loads(value)
        return Identity(said["subject"], self.name, "user", said.get("claims", {}))


class UnaskedConfig(Config):
    """A source that listens and can't find out who sends."""

    listen: str


class Parts:
    """A plugin: authenticators `word` and `second`, a filter that raises, one without Booleans, and a sink."""

    def __init__(self) -> None:
        self.sink = ScriptedSink(address="far:")

    @hookimpl
    def gateway_authenticators(self) -> list[Component]:
        def named(name: str) -> Component:
            return Component(name, "A test's.", Config, lambda options, context: Claimed(name))

        return [named("word"), named("second")]

    @hookimpl
    def gateway_filters(self) -> list[Component]:
        def raises(event: Event) -> bool:
            raise KeyError("a secret of the event")

        def odd(event: Event) -> bool:
            return "yes"  # type: ignore[return-value]

        return [
            Component("raises", "A test's.", Config, lambda options, context: Filter(raises)),
            Component("odd", "A test's.", Config, lambda options, context: Filter(odd)),
        ]

    @hookimpl
    def gateway_transports(self) -> list[Transport]:
        def build(options: Config, context: BuildContext) -> ScriptedSink:
            return self.sink

        return [
            Transport("far", sink=Component("far", "A test's.", Config, build)),
            Transport("unasked", source=Component("unasked", "A test's.", UnaskedConfig, build)),
        ]


class Rig:
    """A running gateway, with its senders."""

    def __init__(self, gateway: Gateway, registry: Registry, folder: Path, sink: ScriptedSink) -> None:
        self.gateway = gateway
        self.sink = sink
        self._registry = registry
        self._folder = folder

    def url(self, broker: str = "default") -> str:
        """The address of a broker's first ingress."""
        (found,) = (b for b in self.gateway.status().brokers if b.name == broker)
        return found.ingress[0]

    def config(self, text: str) -> GatewayConfig:
        """A config from its text. Raises `ConfigError`."""
        return _loaded(text, self._folder, self._registry)

    async def reload(self, text: str) -> None:
        """Changes the running gateway to another config."""
        _, failed = await self.gateway.replace_config(self.config(text))
        assert not failed

    async def post(
        self,
        client: httpx.AsyncClient,
        who: str | Mapping[str, Any] | None,
        *events: Mapping[str, Any],
        broker: str = "default",
        by: str = "word",
    ) -> httpx.Response:
        """Sends an event, or several as a batch. `who` is a subject, or a subject with claims."""
        identity = {"subject": who} if isinstance(who, str) else who
        headers = {} if identity is None else {f"x-{by}": json.dumps(identity)}
        made = [event(**e) for e in events]
        form, body = ("-batch", made) if len(made) > 1 else ("", made[0])
        headers["content-type"] = f"application/cloudevents{form}+json"
        return await client.post(self.url(broker), content=json.dumps(body), headers=headers)

    def accepted(self) -> int:
        """How many events the brokers took."""
        return sum(b.accepted or 0 for b in self.gateway.status().brokers)


def event(**attributes: Any) -> dict[str, Any]:
    """An event with these attributes."""
    return {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **attributes}


def _loaded(text: str, folder: Path, registry: Registry) -> GatewayConfig:
    file = folder / "tidegate.yaml"
    file.write_text(text, encoding="utf-8")
    return load([file], registry, {})


def load_text(text: str, folder: Path) -> GatewayConfig:
    """A config of these parts. Raises `ConfigError`."""
    registry = Registry.installed()
    registry.add("parts", Parts())
    return _loaded(text, folder, registry)


@asynccontextmanager
async def running(text: str, folder: Path) -> AsyncIterator[tuple[Rig, httpx.AsyncClient]]:
    """A gateway with this config and a client of it, until the end of the block."""
    parts, registry = Parts(), Registry.installed()
    registry.add("parts", parts)
    settings = Settings(data_dir=folder / "data", admin="off", drain_timeout_s=5)
    gateway = Gateway(_loaded(text, folder, registry), settings, registry, SystemClock())
    async with web.async_client(verify=False, timeout=60) as client, started(gateway):
        yield Rig(gateway, registry, folder, parts.sink), client


INGRESS = "ingress: [http: {listen: '127.0.0.1:0', authenticate: [word, second]%s}]"


def config(policies: str = "", allow: str = "", more: str = "", brokers: Iterable[str] = ("default",)) -> str:
    """A config of brokers whose ingress asks who sends: with entries of `policies`, and of the ingress's `allow`."""
    options = (f", allow: {allow}" if allow else "") + more
    lines = ["brokers:", *(f"  {name}: {{{INGRESS % options}}}" for name in brokers)]
    lines += ["triggers:", "  all: {subscriber: far}"]
    return "\n".join([*lines, *([f"policies: {policies}"] if policies else [])]) + "\n"
