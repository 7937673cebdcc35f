"""Those who write records into the topics that the gateway reads: a producer that always reaches the cluster."""

from __future__ import annotations

import json

from .kafka_cluster import Cluster
from .kafka_plan import FOREIGN, STRUCTURED
from .plan import Event


def record(event: Event, mode: str) -> tuple[bytes | None, list[tuple[str, bytes]]]:
    """Value and headers of an event's record (CloudEvents Kafka binding 1.0.3); of one that is no event, too."""
    value = event.data if event.size else None
    if mode == FOREIGN:
        return value, [("x-Foreign", event.type.encode()), ("content-type", b"text/plain")]
    if mode == STRUCTURED:
        document = {**event.attributes, **({"data": event.data.decode()} if event.size else {})}
        return json.dumps(document).encode(), [("content-type", b"application/cloudevents+json")]
    headers = []
    for name, text in event.attributes.items():
        headers.append(("content-type" if name == "datacontenttype" else f"ce_{name}", text.encode()))
    return value, headers


def write(cluster: Cluster, number: int) -> None:
    """Writes `Plan.sends[number]`."""
    send = cluster.world.plan.sends[number]
    topic = f"in-{send.to}"
    if topic not in cluster.topics or (send.mode == FOREIGN and cluster.topics[topic].number > 1):
        return  # the ids of what is no event would be there twice
    for event in send.events:
        key = event.key.encode() or None
        where = cluster.partition_of(topic, key) if key is not None else (topic, send.connection % 2)
        value, headers = record(event, send.mode)
        id = "" if send.mode == FOREIGN else event.id
        cluster.write(where, key, value, headers, by=0, send=number, id=id)
