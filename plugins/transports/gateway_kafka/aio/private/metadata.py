"""Metadata requests that don't create topics and that return topic ids; aiokafka's own requests do neither."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from aiokafka import errors
from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.metadata import MetadataRequest_v4, MetadataRequest_v5
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from ..topic_ids import TopicIds, Topics

_BOOTSTRAP = "bootstrap"


class _MetadataResponse_v10(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("id_high", Int64),
                ("id_low", Int64),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataRequest_v10(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse_v10
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("id_high", Int64),
                ("id_low", Int64),
                ("topic", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicsRequest(Request[MetadataRequest_v4 | MetadataRequest_v5 | _MetadataRequest_v10]):  # type: ignore[misc]
    """Looks up these topics (all if None) without creating any."""

    API_KEY = 3

    def __init__(self, topics: Collection[str] | None) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[Any]) -> Any:
        names = None if self._topics is None else list(self._topics)
        if request_struct_class is _MetadataRequest_v10:
            listed: list[Any] | None = None if names is None else [(0, 0, name, {}) for name in names]
            return _MetadataRequest_v10(listed, False, False, False, {})
        return request_struct_class(names, False)


class _Answer(NamedTuple):
    """A broker's response, in the form that `ClusterMetadata.update_metadata` expects."""

    API_VERSION: int
    brokers: list[tuple[Any, ...]]
    controller_id: int
    topics: list[tuple[Any, ...]]


def _read(answer: Any) -> tuple[_Answer, Topics]:
    """Converts the responses of all versions to one form."""
    brokers, topics = list(answer.brokers), list(answer.topics)
    ids: dict[str, str] = {}
    if answer.API_VERSION == _MetadataResponse_v10.API_VERSION:
        brokers = [broker[:4] for broker in brokers]
        for code, name, high, low, *_ in topics:
            if code == 0 and (high or low):
                ids[name] = f"{high & _WORD:016x}{low & _WORD:016x}"
        topics = [
            (code, name, internal, [(e, n, leader, replicas, isr) for e, n, leader, _, replicas, isr, *_ in parts])
            for code, name, _, _, internal, parts, *_ in topics
        ]
    found = Topics({}, ids, frozenset(), {})
    missing = []
    for code, name, _, parts in topics:
        if code == 0:
            ids.setdefault(name, "")
            found.leaders[name] = {part[1]: part[2] for part in parts}
        elif (error := for_code(code)) is errors.UnknownTopicOrPartitionError:
            missing.append(name)
        else:
            found.refused[name] = error
    return _Answer(5, brokers, answer.controller_id, topics), found._replace(missing=frozenset(missing))


_WORD = (1 << 64) - 1


def only_reading(client: Any) -> TopicIds:
    """Makes an `AIOKafkaClient` look up topics without creating them. Otherwise aiokafka's request for a deleted topic
    would create it again with default settings, and the creation by its owner would then fail."""
    known = TopicIds()

    async def update(cluster: Any, topics: Iterable[str] | None) -> bool:
        nodes = [broker.nodeId for broker in cluster.brokers()]
        if any(node == _BOOTSTRAP for node, _ in client._conns):
            nodes.append(_BOOTSTRAP)
        random.shuffle(nodes)
        for node in nodes:
            connection = await client._get_conn(node)
            if connection is None:
                continue
            try:
                answer, heard = _read(await connection.send(TopicsRequest(list(topics) if topics else None)))
            except (errors.KafkaError, TimeoutError):
                continue
            if not answer.brokers:
                return False
            known.update(heard)
            cluster.update_metadata(answer)
            for key in [key for key in client._conns if key[0] == _BOOTSTRAP]:
                client._conns.pop(key).close()
            return True
        cluster.failed_update(None)
        return False

    client._metadata_update = update
    return known


async def look_up(client: Any, topics: Collection[str]) -> Topics:
    """Looks up these topics on any broker. Raises aiokafka's errors."""
    return _read(await client.send(client.get_random_node(), TopicsRequest(topics)))[1]


async def refresh(client: Any, topics: Collection[str]) -> Topics:
    """Like `look_up`, and the client takes over the leaders."""
    answer, heard = _read(await client.send(client.get_random_node(), TopicsRequest(topics)))
    client.cluster.update_metadata(answer)
    return heard
