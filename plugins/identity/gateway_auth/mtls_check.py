"""Checks of configs that name `mtls`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from gateway_access.config import AccessConfig

from gateway_core.contract.component import SourceRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Place

from .mtls import MtlsConfig


@runtime_checkable
class _Verifying(Protocol):
    client_ca_file: object


@runtime_checkable
class _Secured(Protocol):
    tls: object


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A fault for each source with `mtls` that asks for no certificates, and a warning where every certificate of the
    authorities may send anything."""
    for place, ref in sources(config):
        options = ref.options
        if not isinstance(options, AccessConfig):
            continue
        for i, authenticator in enumerate(options.authenticate):
            found = authenticator.options
            if not isinstance(found, MtlsConfig):
                continue
            here = (*place, ref.name, "authenticate", i)
            tls = options.tls if isinstance(options, _Secured) else None
            if not isinstance(tls, _Verifying) or tls.client_ca_file is None:
                text = "`mtls` without client certificates: the TLS handshake does not ask for any"
                yield ConfigFinding(text, here, "add `tls` with `client_ca_file`")
            elif found.open and not options.allow:
                text = "every certificate of the authorities in `client_ca_file` may send"
                yield ConfigFinding(text, here, "list names here, or senders in `allow`", warning=True)


def sources(config: GatewayConfig) -> Iterator[tuple[Place, SourceRef]]:
    """All sources of a config, each with its place."""
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield ("brokers", name, "ingress", i), ref
    for name, bridge in config.bridges.items():
        yield ("bridges", name, "source"), bridge.source
