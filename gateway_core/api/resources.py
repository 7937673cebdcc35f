"""Brokers, triggers and bridges as resources in Knative's shape: metadata, spec, status."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from ..broker import Trigger
from .http import Problem
from .shown import shown

if TYPE_CHECKING:
    from ..runtime import Gateway

Document = dict[str, Any]

_COUNTS = {
    "brokers": ("accepted", "refused", "unrouted", "failed", "dead_lettered"),
    "triggers": ("delivered", "attempts", "retried", "dead_lettered", "in_flight", "waiting", "lag"),
    "bridges": (
        *("accepted", "unwanted", "delivered", "attempts", "retried", "refused", "failed", "dead_lettered"),
        *("in_flight", "waiting", "lag"),
    ),
}


class Resources:
    """Reads a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def list(self, section: str) -> Document:
        """All of a section, by name."""
        self._gateway.conditions.observe()
        counted = self._counted(section)
        return {"items": [self._one(section, n, counted) for n in sorted(self._gateway.generations.names(section))]}

    def get(self, section: str, name: str) -> Document:
        """One. Raises `Problem` where there is none."""
        if self._gateway.generations.get(section, name) is None:
            raise Problem(404, f"there is no {section[:-1]} `{name}`")
        self._gateway.conditions.observe()
        return self._one(section, name, self._counted(section))

    def tag(self, section: str, name: str) -> str:
        """The entity tag of one: it changes with its generation, and between two lives of the gateway with its spec."""
        version = self._gateway.generations.get(section, name)
        if version is None:
            return ""
        digest = hashlib.sha256(msgspec.json.encode(shown(version.config), enc_hook=str)).hexdigest()
        return f'"{version.generation}-{digest[:12]}"'

    def _counted(self, section: str) -> dict[str, Document]:
        return {entry["name"]: entry for entry in self._gateway.status()[section]}

    def _one(self, section: str, name: str, counted: dict[str, Document]) -> Document:
        version = self._gateway.generations.get(section, name)
        assert version is not None
        config, entry = version.config, counted.get(name, {})
        status: Document = {
            "observedGeneration": version.observed,
            "conditions": [self._gateway.conditions.of(section, name).document()],
        }
        spec = shown(config)
        if section == "triggers":
            spec = {"broker": config.broker, **spec}
            status |= self._of_trigger(name, entry)
        elif section == "brokers":
            status |= self._of_broker(name, entry)
        else:
            status |= {"sourceUri": entry.get("source"), "sinkUri": entry.get("sink")}
            status |= {"deadLetterSinkUri": entry.get("dead_letter"), "lastError": entry.get("last_error")}
        status["counts"] = {count: entry.get(count) or 0 for count in _COUNTS[section]}
        return {"metadata": self._metadata(section, name), "spec": spec, "status": status}

    def _metadata(self, section: str, name: str) -> Document:
        version = self._gateway.generations.get(section, name)
        assert version is not None
        metadata: Document = {"name": name, "generation": version.generation}
        manifest = getattr(version.config, "manifest", None)
        if manifest is not None:
            metadata |= {"name": manifest.name, "namespace": manifest.namespace}
        metadata["id"] = name
        control = self._gateway.control
        if section == "triggers" and control is not None and (origin := control.origin(name)) is not None:
            metadata["origin"] = origin
        return metadata

    def _of_broker(self, name: str, entry: Document) -> Document:
        urls = entry.get("ingress") or []
        broker = self._gateway.built.brokers.get(name)
        return {
            "address": {"url": urls[0]} if urls else None,
            "addresses": [{"url": url} for url in urls],
            "deadLetterSinkUri": broker.dead_letter.address if broker else None,
            "channel": entry.get("channel", {}).get("name"),
        }

    def _of_trigger(self, name: str, entry: Document) -> Document:
        trigger = self._gateway.built.triggers.get(name)
        held = isinstance(trigger, Trigger) and trigger.subscription.suspended
        return {
            "subscriberUri": entry.get("subscriber"),
            "deadLetterSinkUri": entry.get("dead_letter"),
            "paused": held or name in self._gateway.paused,
            "lastError": entry.get("last_error"),
        }
