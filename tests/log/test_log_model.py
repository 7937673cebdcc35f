"""Whatever is appended, acknowledged, refused for lack of room, and whenever the gateway crashes: each subscription
gets each of its events at least once, in order, and what it has acknowledged before a clean stop never again."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gateway_core.contract.filters import attributes_filter
from tests.budget import examples

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 40)),
        st.tuples(st.just("ack"), st.integers(0, 1000)),
        st.tuples(st.just("room"), st.integers(0, 8)),
        st.tuples(st.just("settle"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("stop"), st.just(0)),
    ),
    max_size=25,
)


class World:
    def __init__(self, log_at: Any, base: Path) -> None:
        self.log_at = log_at
        self.base = base
        self.life = 0
        self.wanted: dict[str, set[int]] = {"all": set(), "even": set()}
        self.acked: dict[str, set[int]] = {"all": set(), "even": set()}
        self.kept: dict[str, set[int]] = {"all": set(), "even": set()}  # acknowledgements a clean stop must keep
        self.count = 0

    async def begin(self) -> None:
        self.log = self.log_at(self.base / str(self.life))
        even = attributes_filter({"type": "even"})
        self.subscribers = {"all": self.log.Subscriber(room=4), "even": self.log.Subscriber(even, room=2)}
        self.channel = await self.log.open(self.subscribers)

    async def append(self, number: int) -> None:
        events = []
        for _ in range(number):
            self.count += 1
            events.append(self.log.event(self.count, type="odd" if self.count % 2 else "even"))
        await self.log.append(self.channel, events)
        for event in events:
            self.wanted["all"].add(event.position)
            if event.attributes["type"] == "even":
                self.wanted["even"].add(event.position)

    async def ack(self, number: int) -> None:
        for name, s in self.subscribers.items():
            if s.held:
                position = s.held[number % len(s.held)]
                s.ack(position)
                self.acked[name].add(position)
                self.kept[name].add(position)
                s.feed.resume()

    async def room(self, number: int) -> None:
        for s in self.subscribers.values():
            s.room = number
            s.feed.resume()

    async def settle(self, number: int) -> None:
        for _ in range(5):
            await asyncio.sleep(0.001)

    async def crash(self, number: int) -> None:
        """What is on the disk at this moment is all that the next life has."""
        self.check()
        old, new = self.base / str(self.life), self.base / str(self.life + 1)
        shutil.copytree(old, new, ignore=shutil.ignore_patterns("*-shm", "*.tmp"))
        await self.log.stop(self.channel)
        shutil.rmtree(old)
        self.life += 1
        for kept in self.kept.values():  # a crash may lose the last of them: at least once
            kept.clear()
        await self.begin()

    async def stop(self, number: int) -> None:
        self.check()
        await self.log.stop(self.channel)
        await self.begin()
        for name, s in self.subscribers.items():
            assert not self.kept[name].intersection(s.got), "acknowledged before a clean stop"

    def check(self) -> None:
        for name, s in self.subscribers.items():
            assert s.got == sorted(set(s.got)), "in order, each once"
            assert set(s.got) <= self.wanted[name]

    async def end(self) -> None:
        for name, s in self.subscribers.items():
            while s.feed.lag():
                s.room = 10
                s.feed.resume()
                await self.log.wait(lambda s=s: bool(s.held) or not s.feed.lag())
                self.acked[name].update(s.held)
                self.kept[name].update(s.held)
                s.ack(*s.held)
            assert self.acked[name] == self.wanted[name]
        self.check()
        await self.stop(0)
        assert all(s.got == [] for s in self.subscribers.values())
        await self.log.stop(self.channel)


async def live(world: World, steps: list[tuple[str, int]]) -> None:
    await world.begin()
    try:
        for step, number in steps:
            await getattr(world, step)(number)
        await asyncio.wait_for(world.end(), 30)
    finally:
        for channel in world.log.running:
            await channel.stop()


def check(log_at: Any, steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(World(log_at, Path(folder)), steps))


@pytest.mark.slow
@pytest.mark.spec("BR-17", "BR-18")
@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_at_least_once_in_order_through_crashes(log_at: Any, steps: list[tuple[str, int]]) -> None:
    check(log_at, steps)
