"""The gateway's config files, made of plans."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from .plan import DUE, Bridge, Config, Filter, Kafka, Policy, Queues, Trigger

LISTEN = "127.0.0.1:8080"
KAFKA = {"bootstrap": "127.0.0.1:9092"}
TLS = "tls"
"""The folder of certificates."""
STREAM = "events"
"""The NATS stream."""
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
        "channel": {
            "log": {"sync": config.sync, "retention": {"max_age_s": config.max_age_s or None, "max_bytes": None}}
        },
    }
    if config.once is not None:
        broker["deduplicate"] = {"window": config.once.window_s, "max_keys": config.once.max_keys}
    for schedule in config.schedules:
        made = {"name": schedule.name, "every": schedule.every, "missed": schedule.missed}
        subject = {"subject": schedule.subject} if schedule.subject else {}
        broker["ingress"].append({"schedule": {**made, "event": {"type": "tick", **subject}}})
    if config.deduplicate:
        broker["deduplicate"] = {"window": "7d"}
    kafka = config.kafka or Kafka()
    if kafka.ingress:
        broker["ingress"].append(_kafka_source(kafka, "default"))
    if config.queues is not None:
        fetched = _queues(config.queues)
        broker["ingress"] = [*fetched, *broker["ingress"]] if config.queues.first else [*broker["ingress"], *fetched]
    if kafka.channel:
        broker["channel"] = {"kafka": {**_consumer(kafka), "partitions": 2, "key": "partitionkey"}}
    if config.dead_letter == "http":
        broker["dead_letter"] = {"http": {"url": "http://dead/"}}
    whole: dict[str, Any] = {
        "brokers": {"default": broker},
        "triggers": {trigger.name: _trigger(trigger, kafka) for trigger in config.triggers},
        "bridges": {bridge.name: _bridge(bridge, kafka) for bridge in config.bridges},
    }
    if config.observer:
        whole["observers"] = [{"simulated": {}}]
    return json.dumps(_with_tls(whole) if config.tls else whole)


def _with_tls(value: Any) -> Any:
    """The same with TLS at the listener, and at every server over HTTP; its files are beside the config."""
    if isinstance(value, list):
        return [_with_tls(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: _with_tls(item) for name, item in value.items()}
    if "listen" in made:
        made["tls"] = {"cert_file": f"{TLS}/listener.pem", "key_file": f"{TLS}/listener.key"}
    if str(made.get("url", "")).startswith("http:"):
        made |= {"url": made["url"].replace("http:", "https:"), "tls": {"ca_file": f"{TLS}/authority.pem"}}
    return made


def _trigger(trigger: Trigger, kafka: Kafka) -> dict[str, Any]:
    made: dict[str, Any] = {
        "subscriber": {"simulated": {}} if trigger.sink == "simulated" else _sink(trigger, kafka),
        "delivery": _delivery(trigger.policy),
        "start": "earliest" if trigger.earliest else "latest",
    }
    if trigger.delay_s:
        made["delay"] = trigger.delay_s
    if trigger.deliver_at:
        made["deliver_at"] = {"attribute": DUE}
    if trigger.mapper:
        made["delivery"]["order_key"] = {trigger.mapper: {}}
    if trigger.dead_letter:
        made["dead_letter"] = {"http": {"url": f"http://dead-{trigger.name}/"}}
    if trigger.filter.kind != "all":
        made["filters"] = [_filter(trigger.filter)]
    return made


def _sink(one: Trigger | Bridge, kafka: Kafka) -> dict[str, Any]:
    if one.sink != "kafka":
        batch = {"batch": {"max_events": one.batch}} if isinstance(one, Trigger) and one.batch else {}
        return {"http": {"url": f"http://{one.name}/", **batch}}
    common = {"client": kafka.client, "request_timeout_s": kafka.request_timeout_s}
    return {"kafka": {**KAFKA, **common, "topic": f"out-{one.name}", "delivery_timeout_s": one.policy.timeout_s}}


def _consumer(kafka: Kafka) -> dict[str, Any]:
    own = {"ingress", "channel", "not_an_event", "wire"}
    return {**KAFKA, **{name: value for name, value in asdict(kafka).items() if name not in own}}


def _kafka_source(kafka: Kafka, name: str) -> dict[str, Any]:
    more = {"topic": f"in-{name}", "start": "earliest", "not_an_event": kafka.not_an_event}
    return {"kafka": {**_consumer(kafka), **more}}


def _queues(queues: Queues) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"mqtt": {"server": "mqtt", "topic": topic, "receive_maximum": queues.receive_maximum}}
        for topic in queues.topics
    ]
    if queues.subject:
        more = {"max_in_flight": queues.max_in_flight, "ack_wait_s": queues.ack_wait_s, "start": "earliest"}
        made.append({"nats": {"servers": ["nats://nats:4222"], "subject": queues.subject, "stream": STREAM, **more}})
    return made


def _bridge(bridge: Bridge, kafka: Kafka) -> dict[str, Any]:
    http = {"http": {"listen": LISTEN, "path": f"/{bridge.name}"}}
    made: dict[str, Any] = {
        "source": _kafka_source(kafka, bridge.name) if bridge.source == "kafka" else http,
        "sink": _sink(bridge, kafka),
        "delivery": _delivery(bridge.policy),
    }
    if bridge.dead_letter:
        made["dead_letter"] = {"http": {"url": f"http://dead-{bridge.name}/"}}
    return made


def _delivery(policy: Policy) -> dict[str, Any]:
    return {name: value for name, value in asdict(policy).items() if value is not None and value is not False}


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
