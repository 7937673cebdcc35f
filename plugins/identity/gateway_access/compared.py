"""Authenticators whose senders are told apart by their subjects alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple, Protocol, runtime_checkable

from gateway_core.contract.component import AuthenticatorRef, SourceRef
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Place

from .config import AccessConfig
from .policies import SECTION, PolicyConfig


class PlacedAuthenticator(NamedTuple):
    """An authenticator of a config, and its place."""

    place: Place
    ref: AuthenticatorRef


@runtime_checkable
class _Authenticating(Protocol):
    authenticate: Sequence[AuthenticatorRef]


def names_any(config: GatewayConfig, names: Collection[str]) -> bool:
    """Whether a config names one of these authenticators."""
    sources = [ref for broker in config.brokers.values() for ref in broker.ingress]
    options = [ref.options for ref in (*sources, *(bridge.source for bridge in config.bridges.values()))]
    entries = [entry for section in config.sections.values() for entry in section.values()]
    lists = [found.authenticate for found in (*options, *entries) if isinstance(found, _Authenticating)]
    return any(ref.name in names for refs in lists for ref in refs)


def compared(config: GatewayConfig) -> Iterator[tuple[PlacedAuthenticator, PlacedAuthenticator]]:
    """Pairs of authenticators whose subjects are compared with the same entries: those of one broker or bridge, of
    brokers that one policy names, and of one entry of a plugin's section (`operators`)."""
    brokers = {
        name: [
            found
            for i, ref in enumerate(broker.ingress)
            for found in _of_source(ref, ("brokers", name, "ingress", i, ref.name))
        ]
        for name, broker in config.brokers.items()
    }
    for mine in brokers.values():
        yield from combinations(mine, 2)
    policies: Mapping[str, PolicyConfig] = config.section(SECTION)
    for one, other in combinations(brokers, 2):
        if any(p.brokers == "all" or {one, other} <= set(p.brokers) for p in policies.values()):
            yield from product(brokers[one], brokers[other])
    for name, bridge in config.bridges.items():
        yield from combinations(_of_source(bridge.source, ("bridges", name, "source", bridge.source.name)), 2)
    for section, entries in config.sections.items():
        for name, entry in entries.items():
            if isinstance(entry, _Authenticating):
                yield from combinations(_listed(entry.authenticate, (section, name)), 2)


def _of_source(ref: SourceRef, place: Place) -> list[PlacedAuthenticator]:
    return _listed(ref.options.authenticate, place) if isinstance(ref.options, AccessConfig) else []


def _listed(refs: Sequence[AuthenticatorRef], place: Place) -> list[PlacedAuthenticator]:
    return [PlacedAuthenticator((*place, "authenticate", i), ref) for i, ref in enumerate(refs)]
