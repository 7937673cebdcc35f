"""Brokers, triggers, bridges and policies as resources in Knative's shape: metadata, spec, status."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import msgspec
from gateway_api.routes import Problem
from gateway_api.shown import shown

from gateway_core.contract.status import BridgeStatus, BrokerStatus, TriggerStatus

from . import models, policies
from .context import AdminContext
from .generations import RUNNING, singular

Document = dict[str, Any]
Counted = dict[str, Any]
"""The status entries of a section, by name."""

_COUNTS = {
    "brokers": tuple(models.BrokerCounts.model_fields),
    "triggers": tuple(models.TriggerCounts.model_fields),
    "bridges": tuple(models.BridgeCounts.model_fields),
}


class Resources:
    """Reads the resources of a gateway."""

    def __init__(self, service: AdminContext) -> None:
        self._service = service
        self._gateway = service.gateway

    def names(self, section: str) -> list[str]:
        """The names of all entries of a section, sorted."""
        return sorted(self._service.generations.names(section))

    def some(self, section: str, names: Sequence[str]) -> Iterator[Document | None]:
        """These entries of a section; None after a step that makes none. One that is gone by then is left out."""
        counted = yield from self._counted(section, names)
        others = self._service.conditions.others()
        for name in names:
            entry = counted.pop(name, None)
            if self._service.generations.get(section, name) is not None:
                self._service.conditions.observe(section, name, others)
                yield self._one(section, name, entry)

    def get(self, section: str, name: str) -> Document:
        """One entry. Raises `Problem` if it does not exist."""
        found = next(filter(None, self.some(section, [name])), None)
        if found is None:
            raise Problem(404, f"there is no {singular(section)} `{name}`")
        return found

    def tag(self, section: str, name: str) -> str:
        """The entity tag of an entry: it changes with the generation, and across restarts with the spec."""
        version = self._service.generations.get(section, name)
        return "" if version is None else f'"{version.generation}-{self.digest(section, name)}"'

    def digest(self, section: str, name: str) -> str:
        """Stands for the spec of an entry as it is now, "" if there is none."""
        version = self._service.generations.get(section, name)
        if version is None:
            return ""
        return hashlib.sha256(msgspec.json.encode(shown(version.config), enc_hook=str)).hexdigest()[:12]

    def _counted(self, section: str, names: Sequence[str]) -> Generator[None, None, Counted]:
        if section not in RUNNING:
            return {}
        status = yield from self._gateway.status_in_steps(names if section == "triggers" else ())
        return {entry.name: entry for entry in status.entries(section)}

    def _one(self, section: str, name: str, entry: Any) -> Document:
        version = self._service.generations.get(section, name)
        assert version is not None
        config = version.config
        status: Document = {
            "observedGeneration": version.observed,
            "conditions": self._service.conditions.documents(section, name),
        }
        spec = shown(config)
        if section == policies.POLICIES:
            status |= policies.status_of_policy(config, self._gateway.config)
            return {"metadata": self._metadata(section, name), "spec": spec, "status": status}
        if section == "triggers":
            spec = {"broker": config.broker, **spec}
            entry = entry or TriggerStatus(name=name, broker=config.broker)
            status |= self._of_trigger(entry)
        elif section == "brokers":
            entry = entry or BrokerStatus(name)
            status |= self._of_broker(entry)
        else:
            entry = entry or BridgeStatus(name)
            status |= {"sourceUri": entry.source or None, "sinkUri": entry.sink or None}
            status |= {"deadLetterSinkUri": entry.dead_letter, "blocked": entry.blocked, "lastError": entry.last_error}
        status["counts"] = {count: getattr(entry, count) or 0 for count in _COUNTS[section]}
        return {"metadata": self._metadata(section, name), "spec": spec, "status": status}

    def _metadata(self, section: str, name: str) -> Document:
        version = self._service.generations.get(section, name)
        assert version is not None
        metadata: Document = {"name": name, "generation": version.generation}
        if (document := version.config.origin) is not None:
            metadata["name"] = document.name
            metadata |= {"namespace": document.namespace} if document.namespace else {}
        metadata["id"] = name
        control = self._service.control
        if section == "triggers" and control is not None and (origin := control.origin(name)) is not None:
            metadata["origin"] = origin
        return metadata

    def _of_broker(self, entry: BrokerStatus) -> Document:
        urls = entry.ingress
        broker = self._gateway.topology.brokers.get(entry.name)
        return {
            "address": {"url": urls[0]} if urls else None,
            "addresses": [{"url": url} for url in urls],
            "deadLetterSinkUri": broker.dead_letter.address if broker else None,
            "channel": entry.channel.name or None,
            "policies": policies.applied(entry.name, self._gateway.config),
        }

    def _of_trigger(self, entry: TriggerStatus) -> Document:
        trigger = self._gateway.topology.triggers.get(entry.name)
        held = trigger is not None and trigger.delivery is not None and trigger.delivery.paused
        return {
            "subscriberUri": entry.subscriber,
            "deadLetterSinkUri": entry.dead_letter,
            "paused": held or entry.name in self._gateway.paused,
            "blocked": entry.blocked,
            "lastError": entry.last_error,
        }
