"""Sets the consumer group of a trigger back. Kafka itself guards it: offsets of a group can be committed from outside
only while it has no members, and all partitions are committed at once or none. So a group goes back for every gateway
that uses it, or not at all, whatever ends meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import anyio

from gateway_core.contract.replayable import RewindRefused

from .admin import Admin
from .client import GroupActive, Partition, began_in, is_of_deleted_topic, offset_metadata
from .config import KafkaChannelConfig

_EMPTY_S = 3.0
"""How soon a group has no members, after the last one has left."""
_RETRY_S = 0.1


async def check(options: KafkaChannelConfig, group: str, workers: int) -> None:
    """Raises `RewindRefused` if the group has more members than this gateway has workers, and `KafkaFault`."""
    async with Admin(options) as admin:
        members = await admin.members(group)
    if len(members) > workers:
        raise _refused(options, group, members)


async def set_back(options: KafkaChannelConfig, group: str, topic: str, firsts: Mapping[int, int]) -> None:
    """Commits these positions (offsets plus one) by partition, where the group is beyond them. Raises `RewindRefused`
    while it has members, and `KafkaFault`."""
    async with Admin(options) as admin:
        partitions = await admin.partitions([topic])
        offsets: dict[Partition, int] = {}
        words: dict[Partition, str] = {}
        for name, (offset, said) in (await admin.committed_words(group, partitions)).items():
            if offset is None or is_of_deleted_topic(said, admin.ids.get(topic, "")):
                continue  # it is read from its beginning
            offsets[name] = to = min(offset, firsts.get(name[1], offset + 1) - 1)
            began = began_in(said)
            words[name] = offset_metadata(admin.ids.get(topic, ""), None if began is None else min(began, to))
        if not offsets:
            raise RewindRefused(f"the consumer group {group} has no offsets: `tidegate offsets show` says more")
        until = anyio.current_time() + _EMPTY_S
        while True:
            try:
                await admin.commit(group, offsets, words)
                return
            except GroupActive as e:
                if anyio.current_time() > until:
                    raise _refused(options, group, await admin.members(group)) from e
            await anyio.sleep(_RETRY_S)


def _refused(options: KafkaChannelConfig, group: str, members: Collection[str]) -> RewindRefused:
    who = f" ({', '.join(sorted(members))})" if members else ""
    return RewindRefused(
        f"the consumer group {group} has {len(members)} members{who}, more than this gateway's own: it goes back for"
        " all gateways that use it, or for none. Stop the others, or remove the trigger there. A member that ended"
        f" without a word leaves after `session_timeout_s` ({options.session_timeout_s:g} s)"
    )
