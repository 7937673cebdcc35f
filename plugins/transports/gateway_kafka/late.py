"""Whether a new group begins later than its trigger asked for, because the topic had deleted what came before."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from anyio import to_thread

from gateway_core.contract import late_start
from gateway_core.contract.moments import written
from gateway_core.contract.start_position import StartPosition

from .admin import Admin, Prepared
from .client import Partition

log = logging.getLogger("tidegate.kafka")


async def started_late(
    admin: Admin, group: str, topic: str, start: StartPosition, prepared: Prepared, data_dir: Path
) -> str | None:
    """What a group lacks; that of one that is not new was remembered. Raises `KafkaFault`."""
    if start.kind != "time":
        return None
    name = f"group {group} of topic {topic}"
    if not prepared.new:
        return await to_thread.run_sync(late_start.known, data_dir, name)
    text = await _deleted(admin, topic, start, prepared.begins)
    if text is not None:
        log.warning("group %s: %s", group, text)
    await to_thread.run_sync(late_start.remember, data_dir, name, text)
    return text


async def _deleted(admin: Admin, topic: str, start: StartPosition, begins: Mapping[Partition, int]) -> str | None:
    """What the topic had deleted when the group was made."""
    firsts = await admin.beginnings([*begins])
    late = sorted(number for (topic, number), at in begins.items() if 0 < firsts[topic, number] == at)
    if not late:
        return None
    which = f"partition {late[0]}" if len(late) == 1 else f"partitions {', '.join(map(str, late))}"
    return (
        f"it should begin at {written(start.time_ns)}, but topic {topic} has deleted events of {which}: it began there"
        " with the oldest one, which may be later"
    )
