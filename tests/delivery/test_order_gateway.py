"""Order through a whole gateway with the log channel, while deliveries and dead letters fail."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from tests.budget import examples
from tests.delivery.gateway_rig import Parts, running, until
from tests.delivery.order_rig import BAD, BUSY


class Unsteady:
    """Answers later, and each attempt as chance has it."""

    def __init__(self, address: str, chance: random.Random, outcomes: list[Outcome]) -> None:
        self.address = address
        self.attempts: list[int] = []
        self.delivered: list[int] = []
        self.at_once = 0
        self._chance = chance
        self._outcomes = outcomes
        self._under_way = 0

    async def start(self, tasks: TaskGroup) -> None:
        return

    async def stop(self) -> None:
        return

    def send(self, event: Event, timeout_s: float, done: Callable[[Outcome], None]) -> None:
        n = int(event.attributes["id"])
        self.attempts.append(n)
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        asyncio.get_running_loop().call_later(self._chance.random() * 0.002, self._answer, n, done)

    def _answer(self, n: int, done: Callable[[Outcome], None]) -> None:
        self._under_way -= 1
        outcome = self._chance.choice(self._outcomes)
        if outcome.delivered:
            self.delivered.append(n)
        done(outcome)


def in_turns(numbers: list[int]) -> list[int]:
    """Without repetitions of the one before."""
    return [n for i, n in enumerate(numbers) if i == 0 or numbers[i - 1] != n]


async def play(order: str, keys: list[str | None], seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    far = Unsteady("far:", chance, [DELIVERED, DELIVERED, BUSY, BAD])
    letters = Unsteady("letters:", chance, [DELIVERED, BUSY])
    parts = Parts(far, letters)
    config = {
        "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {"all": {"subscriber": "far", "delivery": {"order": order, "retry": 2}}},
    }
    base = {"specversion": "1.0", "source": "/t", "type": "t"}
    async with running(parts, config, folder) as gateway:
        for n, key in enumerate(keys):
            parts.tap.put(Event({**base, "id": str(n)}, b"", key=key.encode() if key else None))
        await until(lambda: len(far.delivered) + len(letters.delivered) == len(keys))
        (trigger,) = gateway.status().triggers
        assert (trigger.delivered, trigger.dead_lettered) == (len(far.delivered), len(letters.delivered))
    assert sorted(far.delivered + letters.delivered) == list(range(len(keys)))
    order_keys: set[Hashable] = {key for key in keys if key} if order == "key" else {"the only shard"}
    for order_key in order_keys:
        its = [n for n, key in enumerate(keys) if order_key in (key, "the only shard")]
        assert in_turns([n for n in far.attempts if n in its]) == its
    if order == "partition":
        assert far.at_once == 1


@pytest.mark.spec("DP-17")
@examples(8)
@given(
    st.sampled_from(["partition", "key"]),
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=15),
    st.integers(0, 2**32),
)
def test_order_keys_keep_their_order_through_a_gateway(order: str, keys: list[str | None], seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(play, order, keys, seed, Path(folder))


@pytest.mark.anyio
async def test_keys_are_under_way_at_once(tmp_path: Path) -> None:
    far = Unsteady("far:", random.Random(1), [DELIVERED])
    parts = Parts(far)
    config = {
        "brokers": {"default": {"ingress": ["tap"], "dead_letter": "letters"}},
        "triggers": {"all": {"subscriber": "far", "delivery": {"order": "key"}}},
    }
    async with running(parts, config, tmp_path):
        base = {"specversion": "1.0", "source": "/t", "type": "t"}
        parts.tap.put(*(Event({**base, "id": str(n), "partitionkey": "abcd"[n % 4]}) for n in range(40)))
        await until(lambda: len(far.delivered) == 40)
    assert 1 < far.at_once <= 4
