"""Quotas that limit nobody, though they look as if they did."""

from __future__ import annotations

from collections.abc import Iterator

from gateway_core.contract.component import SourceRef
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Place

from .config import AccessConfig
from .policies import possible
from .quota_config import QuotaConfig, as_entry


def check(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """A fault for each override of a quota that no sender can fit: the limits of others would count. A warning if
    nobody can fail to prove who it is."""
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            yield from _of(ref, ("brokers", name, "ingress", i, ref.name, "quota"))
    for name, bridge in config.bridges.items():
        yield from _of(bridge.source, ("bridges", name, "source", bridge.source.name, "quota"))


def _of(ref: SourceRef, place: Place) -> Iterator[ConfigFinding]:
    options = ref.options
    if not isinstance(options, AccessConfig) or options.quota is None:
        return
    quota: QuotaConfig = options.quota
    for i, override in enumerate(quota.overrides):
        if not possible([as_entry(override)], options):
            names = ", ".join(f"`{each.name}`" for each in options.authenticate)
            remedy = f"the authenticators here are {names}" if names else "add `authenticate`, or write `anonymous`"
            yield ConfigFinding("no sender here can be one of these", (*place, "overrides", i), remedy)
    if "failures_per_minute" in quota.model_fields_set and quota.failures_per_minute and not options.authenticate:
        text = "limits nothing: nobody has to prove who it is here"
        yield ConfigFinding(text, (*place, "failures_per_minute"), "add `authenticate`, or remove it", warning=True)
