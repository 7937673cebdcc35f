"""Detects recreated topics: a topic that is deleted and created again keeps its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import anyio
from aiokafka import errors

from .admin_client import AdminClient
from .aio.watch import LOOK_S
from .client import KafkaFault
from .client_config import KafkaConfig

_AGAIN_S = 5.0
_LIMIT_S = 5.0

Ids = Mapping[str, str | None]
"""The id of each topic: None if the topic does not exist, "" if the cluster has no topic ids."""


async def watch_topics(config: KafkaConfig, topics: Collection[str], heard: Callable[[Ids | None], None]) -> None:
    """Reports the topics' ids every second, or None while the cluster is not available. Runs until cancelled."""
    while True:
        try:
            async with AdminClient(config) as admin_client:
                while True:
                    with anyio.fail_after(_LIMIT_S):
                        answer = await admin_client.requests.topics(topics)
                    heard(dict.fromkeys(answer.missing) | answer.ids)
                    await anyio.sleep(LOOK_S)
        except (KafkaFault, errors.KafkaError, OSError):  # TimeoutError is an OSError
            heard(None)
        await anyio.sleep(_AGAIN_S)
