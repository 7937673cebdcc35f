"""An ingress that other machines reach must say who may send."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from gateway_core.config.model import GatewayConfig
from gateway_core.contract.capabilities import Listening
from gateway_core.contract.component import SinkRef, SourceRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_node import Place
from gateway_core.contract.errors import StartError

from .config import AccessConfig

REMEDY = "add `authenticate`, or `anonymous: true` if anyone may send; or listen on 127.0.0.1"


def is_local(host: str) -> bool:
    """Whether a listener on this host is only reached from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def gives_away(options: object) -> bool:
    """Whether other machines can fetch a sink's events without proving anything."""
    if not isinstance(options, Listening) or not isinstance(options.listen, str):
        return False
    closed = getattr(options, "token", None) or getattr(getattr(options, "tls", None), "client_ca_file", None)
    return not closed and not is_local(options.listen.rpartition(":")[0].strip("[]"))


def is_open(options: object) -> bool:
    """Whether other machines can send events to an ingress without proving anything, although its config does not say
    so."""
    if not isinstance(options, AccessConfig) or not isinstance(options, Listening):
        return False
    tls = getattr(options, "tls", None)
    closed = options.authenticate or options.anonymous or getattr(tls, "client_ca_file", None)
    closed = closed or options.listen is None or getattr(options, "token", None)
    return not closed and not is_local(options.listen.rpartition(":")[0].strip("[]"))


def refuse_open(options: AccessConfig, owner: str) -> None:
    """Raises `StartError` for an open ingress."""
    if is_open(options):
        listen = options.listen if isinstance(options, Listening) else ""
        raise StartError(f"{owner}: anyone who reaches {listen} could send events: {REMEDY}")


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """Warns of each open ingress, with which `tidegate run` would not start, and of sinks that anyone may fetch events
    from. An ingress that lets in nobody is a fault."""
    for place, sink in _sinks(config):
        if gives_away(sink.options):
            text = "anyone who reaches this address gets the events"
            yield ConfigFinding(text, place, "set `token`, or listen on 127.0.0.1", warning=True)
    for place, ref in _sources(config):
        if is_open(ref.options):
            yield ConfigFinding("anyone who reaches this address could send events", place, REMEDY, warning=True)
        options = ref.options
        if isinstance(options, AccessConfig) and options.anonymous is False and not options.authenticate:
            text = "`anonymous: false` without `authenticate` lets in nobody"
            yield ConfigFinding(text, (*place, ref.name, "anonymous"), "add `authenticate`, or take it out")


def _sources(config: GatewayConfig) -> Iterator[tuple[Place, SourceRef]]:
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield ("brokers", name, "ingress", i), ref
    for name, bridge in config.bridges.items():
        yield ("bridges", name, "source"), bridge.source


def _sinks(config: GatewayConfig) -> Iterator[tuple[Place, SinkRef]]:
    for name, trigger in config.triggers.items():
        yield ("triggers", name, "subscriber"), trigger.subscriber
    for name, bridge in config.bridges.items():
        yield ("bridges", name, "sink"), bridge.sink
