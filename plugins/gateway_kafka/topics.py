"""Whether a consumer's topics are still the same: one that is deleted and made anew keeps its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import anyio
from aiokafka import errors

from .aio.metadata import look_up
from .aio.watch import LOOK_S
from .asking import Asking
from .client import KafkaFault
from .config import KafkaConfig

_AGAIN_S = 5.0
_LIMIT_S = 5.0

Ids = Mapping[str, str | None]
"""The id of each topic: None where there is no such topic, "" where the cluster tells no ids."""


async def watch_topics(config: KafkaConfig, topics: Collection[str], heard: Callable[[Ids | None], None]) -> None:
    """Tells the topics' ids every second, None while the cluster can't be asked. Until cancelled."""
    while True:
        try:
            async with Asking(config) as asking:
                while True:
                    with anyio.fail_after(_LIMIT_S):
                        answer = await look_up(asking.client, topics)
                    heard(dict.fromkeys(answer.missing) | answer.ids)
                    await anyio.sleep(LOOK_S)
        except (KafkaFault, errors.KafkaError, OSError):  # TimeoutError is an OSError
            heard(None)
        await anyio.sleep(_AGAIN_S)
