"""Requests for administration: aiokafka has no public function for some, and none of the others reports topic ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from aiokafka import errors
from aiokafka.errors import for_code
from aiokafka.protocol.admin import CreateTopicsRequest, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition

from ...client import GroupActive, Partition
from ..topic_ids import Topics
from .metadata import refresh

_READ_COMMITTED = 1
_NOT_EMPTY = 68  # aiokafka has no class for it
_MEMBERS = (errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.RebalanceInProgressError)


class PrivateRequests:
    """`needs.AdminRequests` over an `AIOKafkaClient`."""

    def __init__(self, client: Any, timeout_s: float) -> None:
        self._client = client
        self._timeout_ms = round(timeout_s * 1000)

    async def close(self) -> None:
        """There is nothing to close: the client belongs to the caller."""

    async def topics(self, topics: Collection[str]) -> Topics:
        return await refresh(self._client, topics)

    async def create_topic(self, name: str, partitions: int, replication: int | None) -> tuple[int, str]:
        controller = self._client.cluster.controller
        request = CreateTopicsRequest(
            create_topic_requests=[(name, partitions, replication or -1, [], [])],
            timeout=self._timeout_ms,
            validate_only=False,
        )
        answer = await self._send(None if controller is None else controller.nodeId, request)
        ((_, code, text),) = answer.topic_errors
        return code, text or ""

    async def offsets(self, partitions: Collection[Partition], time: int) -> dict[Partition, int]:
        found: dict[Partition, int] = {}
        for node, asked in (await self._by_leader(partitions)).items():
            topics = [(name, [(number, time) for number in numbers]) for name, numbers in _by_topic(asked).items()]
            answer = await self._send(node, OffsetRequest(-1, _READ_COMMITTED, topics))
            for name, parts in answer.topics:
                for number, code, _, offset in parts:
                    _check(code)
                    found[name, number] = offset
        return found

    async def _by_leader(self, partitions: Collection[Partition]) -> dict[int, list[Partition]]:
        cluster = self._client.cluster
        leaders = {partition: cluster.leader_for_partition(TopicPartition(*partition)) for partition in partitions}
        if not all(leader is not None and leader >= 0 for leader in leaders.values()):
            heard = await self.topics({name for name, _ in partitions})
            for error in heard.refused.values():
                raise error
            known = heard.leaders
            leaders = {(name, number): known.get(name, {}).get(number, -1) for name, number in partitions}
            if missing := [f"{name}-{number}" for (name, number), leader in leaders.items() if leader < 0]:
                raise errors.LeaderNotAvailableError(", ".join(missing))
        found: dict[int, list[Partition]] = defaultdict(list)
        for partition, leader in leaders.items():
            found[leader].append(partition)
        return found

    async def groups(self) -> list[str]:
        found: set[str] = set()
        await self.topics([])
        for broker in self._client.cluster.brokers():
            answer = await self._send(broker.nodeId, ListGroupsRequest())
            _check(answer.error_code)
            found.update(name for name, kind in answer.groups if kind in ("", "consumer"))
        return sorted(found)

    async def members(self, group: str) -> list[str]:
        answer = await self._send(await self._coordinator(group), DescribeGroupsRequest([group]))
        ((code, _, _, _, _, members, *_),) = answer.groups
        if for_code(code) is not errors.GroupIdNotFound:
            _check(code)
        return [f"{client} at {host.lstrip('/')}" for _, client, host, *_ in members]

    async def delete_group(self, group: str) -> None:
        answer = await self._send(await self._coordinator(group), DeleteGroupsRequest([group]))
        for _, code in answer.results:
            if code == _NOT_EMPTY:
                raise GroupActive(group)
            if code != errors.GroupIdNotFound.errno:
                _check(code)

    async def committed(self, group: str, partitions: Collection[Partition]) -> dict[Partition, tuple[int | None, str]]:
        topics = list(_by_topic(partitions).items())
        answer = await self._send(await self._coordinator(group), OffsetFetchRequest(group, topics))
        _check(getattr(answer, "error_code", 0))
        found: dict[Partition, tuple[int | None, str]] = dict.fromkeys(partitions, (None, ""))
        for name, parts in answer.topics:
            for number, offset, metadata, code in parts:
                _check(code)
                found[name, number] = offset if offset >= 0 else None, metadata or ""
        return found

    async def commit(self, group: str, offsets: Mapping[Partition, int], metadata: Mapping[Partition, str]) -> None:
        topics = [
            (name, [(number, offsets[name, number], metadata.get((name, number), "")) for number in numbers])
            for name, numbers in _by_topic(offsets).items()
        ]
        # a commit without generation and member id is accepted only for a group that has no members
        request = OffsetCommitRequest(group, -1, "", -1, topics)
        answer = await self._send(await self._coordinator(group), request)
        for _, parts in answer.topics:
            for _, code in parts:
                if for_code(code) in _MEMBERS:
                    raise GroupActive(group)
                _check(code)

    async def _coordinator(self, group: str) -> int:
        answer = await self._send(None, FindCoordinatorRequest(group, 0))
        _check(answer.error_code)
        return int(answer.coordinator_id)

    async def _send(self, node: Any, request: Any) -> Any:
        client = self._client
        return await client.send(client.get_random_node() if node is None else node, request)


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for name, number in partitions:
        found[name].append(number)
    return found


def _check(code: int) -> None:
    if code:
        raise for_code(code)()
