"""A listener that other machines reach must say who may come in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from gateway_serving.hosts import is_loopback

from gateway_core.contract.capabilities import offers
from gateway_core.contract.component import ComponentRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Place
from gateway_core.contract.errors import StartError

from .config import AccessConfig

_SENDERS = "add `authenticate`, or `anonymous: true` if anyone may send; or listen on 127.0.0.1"
_SUBSCRIBERS = "add `token`, or `anonymous: true` if anyone may have the events; or listen on 127.0.0.1"


@runtime_checkable
class LettingIn(Protocol):
    """Options of a component that may listen: where, if it does; whether its config says that anyone may come in; and
    whether clients have to prove something."""

    @property
    def listen(self) -> str | None: ...

    @property
    def anonymous(self) -> bool | None: ...

    @property
    def closed(self) -> bool: ...


def is_open(options: object) -> bool:
    """Whether clients on other machines come in without proving anything, although the config does not say so."""
    if not offers(options, LettingIn) or options.listen is None or options.anonymous or options.closed:
        return False
    return not is_loopback(options.listen.rpartition(":")[0].strip("[]"))


def refuse_open(options: LettingIn, owner: str) -> None:
    """Raises `StartError` for an open listener."""
    if is_open(options):
        raise StartError(f"{owner}: anyone who reaches {options.listen} could {_could(options)}: {_remedy(options)}")


def _could(options: object) -> str:
    return "send events" if isinstance(options, AccessConfig) else "get events"


def _remedy(options: object) -> str:
    return _SENDERS if isinstance(options, AccessConfig) else _SUBSCRIBERS


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Open listeners, and ingresses that let in nobody."""
    for place, ref in _listeners(config):
        options = ref.options
        if is_open(options):
            text = f"anyone who reaches this address could {_could(options)}"
            yield ConfigFinding(text, place, _remedy(options))
        if isinstance(options, AccessConfig) and options.anonymous is False and not options.authenticate:
            text = "`anonymous: false` without `authenticate` lets in nobody"
            yield ConfigFinding(text, (*place, ref.name, "anonymous"), "add `authenticate`, or take it out")


def _listeners(config: GatewayConfig) -> Iterator[tuple[Place, ComponentRef]]:
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield ("brokers", name, "ingress", i), ref
        yield ("brokers", name, "dead_letter"), broker.dead_letter
    for name, trigger in config.triggers.items():
        yield ("triggers", name, "subscriber"), trigger.subscriber
        if trigger.dead_letter is not None:
            yield ("triggers", name, "dead_letter"), trigger.dead_letter
    for name, bridge in config.bridges.items():
        yield ("bridges", name, "source"), bridge.source
        yield ("bridges", name, "sink"), bridge.sink
        if bridge.dead_letter is not None:
            yield ("bridges", name, "dead_letter"), bridge.dead_letter
