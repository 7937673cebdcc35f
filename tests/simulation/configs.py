"""The gateway's config files, made of plans."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .plan import Bridge, Config, Filter, Policy, Trigger

LISTEN = "127.0.0.1:8080"
BROKEN = "brokers: {default: {ingress: 7}}\ntriggers: {none: {}}\n"


def text(config: Config) -> str:
    """The config file (YAML that is JSON too)."""
    source: dict[str, Any] = {"listen": LISTEN, "path": "/default"}
    if config.codec:
        source["codec"] = {config.codec: {}}
    if config.authenticator:
        source["authenticate"] = [{"simulated": {}}]
    broker: dict[str, Any] = {
        "ingress": [{"http": source}],
        "channel": {"log": {"sync": config.sync, "retention": {"max_age_s": None, "max_bytes": None}}},
    }
    if config.dead_letter == "http":
        broker["dead_letter"] = {"http": {"url": "http://dead/"}}
    whole: dict[str, Any] = {
        "brokers": {"default": broker},
        "triggers": {trigger.name: _trigger(trigger) for trigger in config.triggers},
        "bridges": {bridge.name: _bridge(bridge) for bridge in config.bridges},
    }
    if config.observer:
        whole["observers"] = [{"simulated": {}}]
    return json.dumps(whole)


def _trigger(trigger: Trigger) -> dict[str, Any]:
    made: dict[str, Any] = {
        "subscriber": {"simulated": {}}
        if trigger.sink == "simulated"
        else {"http": {"url": f"http://{trigger.name}/"}},
        "delivery": _delivery(trigger.policy),
        "start": "earliest" if trigger.earliest else "latest",
    }
    if trigger.mapper:
        made["delivery"]["order_key"] = {trigger.mapper: {}}
    if trigger.dead_letter:
        made["dead_letter"] = {"http": {"url": f"http://dead-{trigger.name}/"}}
    if trigger.filter.kind != "all":
        made["filters"] = [_filter(trigger.filter)]
    return made


def _bridge(bridge: Bridge) -> dict[str, Any]:
    made: dict[str, Any] = {
        "source": {"http": {"listen": LISTEN, "path": f"/{bridge.name}"}},
        "sink": {"http": {"url": f"http://{bridge.name}/"}},
        "delivery": _delivery(bridge.policy),
    }
    if bridge.dead_letter:
        made["dead_letter"] = {"http": {"url": f"http://dead-{bridge.name}/"}}
    return made


def _delivery(policy: Policy) -> dict[str, Any]:
    return {name: value for name, value in asdict(policy).items() if value is not None}


def _filter(wanted: Filter) -> dict[str, Any]:
    value = wanted.value
    match wanted.kind:
        case "type":
            return {"exact": {"type": value}}
        case "prefix":
            return {"prefix": {"type": value}}
        case "not":
            return {"not": {"exact": {"type": value}}}
        case "sql":
            return {"cesql": f"type = '{value}'"}
        case "key":
            return {"exact": {"partitionkey": value}}
        case _:
            return {"simulated": {"type": value}}
